"""A segment of a run: an agent goes on from its transcript, until it ends or waits for a person."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.approvals.recovery import withdraw
from toolbus.durable.holds import mark_expiry
from toolbus.durable.runs import RunIndex, make_agent_of, swap_run
from toolbus.durable.steps import RunSteps
from toolbus.errors import SessionBusyError, StoreError
from toolbus.events.catalogue import MODEL_CALL_BEFORE
from toolbus.tasks.shield import EXITS

if TYPE_CHECKING:
    from toolbus.agent.agent import Agent
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.durable.engine import Steps, Workflow
    from toolbus.durable.runs import AgentFactory, DurableRun
    from toolbus.events.catalogue import ModelRequest, RunResult
    from toolbus.store.protocol import Store

PATIENCE_SECONDS = 300.0
_AGAIN_SECONDS = 1.0
_LONGEST = 500

logger = logging.getLogger("toolbus.durable")


def durable(
    make_agent: AgentFactory,
    store: Store,
    *,
    patience: float = PATIENCE_SECONDS,
    running: set[tuple[str, ...]] | None = None,
) -> Workflow:
    """Return the workflow of segments of the agents of *make_agent* in *store*.

    *patience* are the seconds for which it waits for a session in use, or for a failing store. The
    arguments of the workflows of this process are in *running* meanwhile.
    """
    index, here = RunIndex(store), set() if running is None else running

    async def workflow(steps: Steps, arguments: tuple[str, ...]) -> str:
        here.add(arguments)
        try:
            segment = RunSegment(make_agent, store, steps, patience)
            return await segment.run(index, arguments[0], int(arguments[1]))
        finally:
            here.discard(arguments)

    return workflow


class RunSegment:
    """A segment of a run in this process."""

    def __init__(
        self, make_agent: AgentFactory, store: Store, steps: Steps, patience: float
    ) -> None:
        self._make_agent, self._store, self._steps = make_agent, store, steps
        self._patience = patience
        self._failing_since: float | None = None

    async def run(self, index: RunIndex, run_id: str, number: int) -> str:
        """Return the word at the end of the segment *number* of a run; no error leaves it."""
        while True:
            run, began = None, time.monotonic()
            try:
                run = await index.find(run_id)
                if run is None:
                    return "gone"
                return await self._go_on(run) if run.segment == number else "superseded"
            except (SessionBusyError, StoreError) as error:
                # A run that cannot be read cannot be ended either.
                if self._has_lost_patience(began) and run is not None:
                    word = "busy" if isinstance(error, SessionBusyError) else "store"
                    return await self._fail(run, word, error)
            except (Exception, *EXITS) as error:  # noqa: BLE001 - it is recorded
                # An exit would end the loop of the engine, and leave all runs of the worker there.
                return await self._fail(run, "failed", error)
            await asyncio.sleep(_AGAIN_SECONDS)

    def _has_lost_patience(self, began: float) -> bool:
        """Note the failure of an attempt that *began* then; return whether it is one too many."""
        now = time.monotonic()
        # A long attempt has worked, so its failure is the first in a row.
        if self._failing_since is None or now - began > self._patience:
            self._failing_since = now
        return now - self._failing_since > self._patience

    async def _go_on(self, run: DurableRun) -> str:
        """Return the word at the end of the segment, which another process may have ended."""
        if run.word != "queued":
            return run.word
        new = await self._attempt(run)
        if new.word == "held":
            await mark_expiry(self._store, new)
        return await self._record(new, run)

    async def _attempt(self, run: DurableRun) -> DurableRun:
        """Run the agent to its end, and return the next record of *run*."""
        async with make_agent_of(self._make_agent, run.session_id, self._store) as agent:
            # A handler at all times would leave a record of each model call in the ledger.
            leave = partial(
                agent.on,
                MODEL_CALL_BEFORE,
                partial(_leave, run.session_id),
                name="stop of the worker",
            )
            recorded = RunSteps(run.session_id, self._steps, leave)
            try:
                recorded.follow(agent.bus)
                new = _after(run, await _resume(agent, run))
                if new.word == "timeout":
                    await withdraw(self._store, run.session_id, None, time.time_ns())
                await recorded.close(new.word)
            finally:
                recorded.cancel()
        return new

    async def _fail(self, run: DurableRun | None, word: str, error: BaseException) -> str:
        # Its text may quote the session, so it is in the store alone.
        logger.warning("a run ends as %r: %s", word, type(error).__name__)
        if run is None:
            return word
        failure = f"{type(error).__name__}: {error}"[:_LONGEST]
        return await self._record(replace(run, word=word, failure=failure), run)

    async def _record(self, new: DurableRun, old: DurableRun) -> str:
        """Record *new*, also after failures of the store; return its word, or "superseded"."""
        while True:
            try:
                return new.word if await swap_run(self._store, old, new) else "superseded"
            except StoreError as error:
                logger.warning("run %s is not recorded yet: %s", new.id, type(error).__name__)
            await asyncio.sleep(_AGAIN_SECONDS)


async def _leave(session_id: str, ctx: EventContext[ModelRequest]) -> None:
    """End a segment before a model call of its session: nothing else of it is under way."""
    task = asyncio.current_task()
    if ctx.scope.session_id == session_id and task is not None:
        task.cancel()
        await asyncio.sleep(0)


def _after(run: DurableRun, result: RunResult[Any] | None) -> DurableRun:
    """Return the record of *run* after the *result* of its segment, None at its deadline."""
    if result is None:
        return replace(run, word="timeout")
    if result.status == "pending":
        return replace(run, word="held", questions=tuple(sorted(result.pending)))
    return replace(run, word=result.status, failure=(result.reason or "")[:_LONGEST])


async def _resume(agent: Agent[Any], run: DurableRun) -> RunResult[Any] | None:
    """Return the result of *agent*, None at the deadline of *run*."""
    limit = asyncio.timeout((run.ends_ns - time.time_ns()) / 1e9 if run.ends_ns else None)
    try:
        async with limit:
            return await agent.resume(context=run.context)
    except TimeoutError:
        if limit.expired():
            return None
        raise
