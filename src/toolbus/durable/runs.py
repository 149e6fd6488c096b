"""Runs: their records in the store, and the workflow ids of their segments."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from toolbus.durable.engine import WorkflowCall
from toolbus.errors import RegistrationError, ToolbusError
from toolbus.messages.codec import decoder, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from toolbus.agent.agent import Agent
    from toolbus.durable.engine import WorkflowEngine
    from toolbus.store.protocol import Store
    from toolbus.store.store_reader import StoreReader

    AgentFactory: TypeAlias = Callable[[str, Store], Agent[Any]]
    """Returns the agent of a session in a store: `def agent(session_id, store): ...`."""

_MAKER = "the function that makes an agent"
VERSION = "toolbus-1"
"""The version of the workflows: a worker begins none that was queued for a newer one."""

PREFIX = "durable-run:"
"""The prefix of the names of states with runs, in their sessions."""

OPEN_WORDS = ("submitting", "queued", "held")
"""The words of runs that have not ended."""


class DurableRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a run in its session; *segment* counts the workflows of the run.

    *word* is "submitting" until the prompt is stored, "queued" until the segment has ended, then
    "held", or the word at the run's end: a status of `RunResult`, "timeout", "busy", "store" or
    "failed", with the reason in *failure*. *questions* are those of the latest hold, and *woken_by*
    is the marker that ended it. *deaths* counts the workers that died with the run. *submitted_ns*
    and *ends_ns*, 0 without a deadline, are nanoseconds since the epoch.
    """

    id: str
    session_id: str
    queue: str
    partition: str = ""
    context: Mapping[str, Any] = {}
    ends_ns: int = 0
    segment: int = 1
    word: str = "queued"
    questions: tuple[str, ...] = ()
    woken_by: str = ""
    deaths: int = 0
    failure: str = ""
    submitted_ns: int = 0


decode_run = decoder(DurableRun)


def make_agent_of(make_agent: AgentFactory, session_id: str, store: Store) -> Agent[Any]:
    """Return the agent of a session; raises `RegistrationError` if there is none."""
    from toolbus.agent.agent import Agent  # noqa: PLC0415 - slow to import

    try:
        agent: object = make_agent(session_id, store)
    except ToolbusError:
        raise
    except (Exception, SystemExit) as error:
        raise RegistrationError(_MAKER, f"it raised {type(error).__name__}: {error}") from error
    if not isinstance(agent, Agent):
        raise RegistrationError(_MAKER, f"it must return one, not {type(agent).__name__!r}")
    if agent.scope.session_id != session_id:
        raise RegistrationError(_MAKER, "it must pass on `session_id`")
    return agent


async def read_run(store: Store, session_id: str, run_id: str) -> DurableRun | None:
    """Return the run of a session; None if there is none."""
    body = await store.read_state(session_id, PREFIX + run_id)
    return None if body is None else decode_run(body)


async def swap_run(store: Store, old: DurableRun | None, new: DurableRun) -> bool:
    """Replace the record *old* by *new*; return whether *new* is stored now."""
    name, body = PREFIX + new.id, encode(new)
    if await store.swap_state(new.session_id, name, None if old is None else encode(old), body):
        return True
    # A server may write a record and die before it says so.
    return await store.read_state(new.session_id, name) == body


def workflow_of(run: DurableRun) -> WorkflowCall:
    """Return the workflow of the present segment of *run*."""
    names = encode((run.session_id, run.id, run.segment))
    return WorkflowCall(
        id=blake2b(names, digest_size=16).hexdigest(),
        arguments=(run.id, str(run.segment)),
        queue=run.queue,
        partition=run.partition,
    )


async def begin_next(
    store: Store, engine: WorkflowEngine, run: DurableRun, **changes: Any
) -> DurableRun | None:
    """Queue the next segment of *run* with *changes*; None: another process changed it first."""
    segment = run.segment + 1
    queued = replace(run, segment=segment, word="queued", failure="", **changes)
    if not await swap_run(store, run, queued):
        return None
    await engine.enqueue(workflow_of(queued))
    return queued


class FoundState(NamedTuple):
    """The state *name* of a session, as JSON."""

    session_id: str
    name: str
    body: bytes


class RunIndex:
    """Finds runs and markers of all sessions of *store*, by its index of states.

    A single reader stays open, in turn for all callers, from any event loop.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, Lock()
        self._reader: StoreReader | None = None

    async def find(self, run_id: str) -> DurableRun | None:
        """Return the run with this id, in any session; None if there is none."""
        name = PREFIX + run_id
        states = await self.states(name)
        return next((decode_run(state.body) for state in states if state.name == name), None)

    async def states(self, prefix: str, end: str = "\U0010ffff") -> list[FoundState]:
        """Return the states whose names begin with *prefix* and are before *end*."""
        return await asyncio.to_thread(self._read, prefix, end)

    def _read(self, prefix: str, end: str) -> list[FoundState]:
        states = []
        with self._lock:
            self._reader = self._reader or self._store.reader()
            for session_id, row in self._reader.states_like(prefix):
                if row.name >= end:
                    break
                if row.body is not None:
                    states.append(FoundState(session_id, row.name, row.body))
        return states

    def close(self) -> None:
        """Close the reader; before the store."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
