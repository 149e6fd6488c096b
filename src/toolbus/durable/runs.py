"""Runs: their records in the store, and the workflow ids of their segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from toolbus.agent.agent import Agent
    from toolbus.durable.engine import WorkflowCall
    from toolbus.store.protocol import Store

    AgentFactory: TypeAlias = Callable[[str, Store], Agent[Any]]
    """Returns the agent of a session in a store: `def agent(session_id, store): ...`."""

KIND = "toolbus-run"
VERSION = "toolbus-1"
"""The version of the loop over steps; a workflow of another one cannot be replayed."""


class Run(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record `run:ID` of a session; *segment* counts the workflows of the run.

    *word* is "queued", "held" or the word at its end (`ok`, `denied`, `error`, `max_turns`,
    `cancelled`, `busy`, `store`); *failure* explains it. *questions* are those of a held run.
    """

    id: str
    session_id: str
    queue: str
    partition: str = ""
    context: Mapping[str, Any] = {}
    timeout: float | None = None
    segment: int = 1
    word: str = "queued"
    questions: tuple[str, ...] = ()
    failure: str = ""
    submitted_ns: int = 0


async def find_run(store: Store, run_id: str) -> Run | None:
    """Return the run with this id, in any session, by one indexed query."""
    raise NotImplementedError


async def swap_run(store: Store, old: Run | None, new: Run) -> bool:
    """Replace the record *old* by *new*; return False if the stored record is another one."""
    raise NotImplementedError


def workflow_of(run: Run) -> WorkflowCall:
    """Return the workflow of the present segment of *run*."""
    raise NotImplementedError
