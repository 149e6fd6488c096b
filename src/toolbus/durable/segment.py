"""A segment of a run: an agent goes on from its transcript, step by step.

The workflow is a loop over the words of steps (see `toolbus.durable.gates`), so that a replay meets
the same steps whatever the transcript says. A sub-agent has a workflow of its own, below that of
its caller and in the same process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import Context
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.durable.gates import AGENT, TOOL, Gates, Pulse
from toolbus.durable.holds import hold
from toolbus.durable.runs import RunIndex, child_of, make_agent_of, read_run, swap_run
from toolbus.errors import SessionBusyError, StoreError
from toolbus.events.catalogue import MESSAGE_APPEND_AFTER, MODEL_CALL_BEFORE, TOOL_CALL_BEFORE

if TYPE_CHECKING:
    from toolbus.agent.agent import Agent
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.durable.engine import Steps, Workflow, WorkflowCall
    from toolbus.durable.runs import AgentFactory, DurableRun
    from toolbus.events.catalogue import ModelRequest, RunResult, Scope
    from toolbus.messages.records import Message, ToolCall
    from toolbus.store.protocol import Store

PATIENCE_SECONDS = 300.0
_AGAIN_SECONDS = 1.0
_LAST = -1_000_000  # After all other handlers, so that a step covers the call alone.
_LONGEST = 500

logger = logging.getLogger("toolbus.durable")


def durable(
    make_agent: AgentFactory, store: Store, *, patience: float = PATIENCE_SECONDS
) -> Workflow:
    """Return the workflow of segments of the agents of *make_agent* in *store*.

    *patience* are the seconds for which it waits for a session in use, or for a failing store.
    """
    index = RunIndex(store)
    running: dict[tuple[str, str], RunSegment] = {}

    async def workflow(steps: Steps, arguments: tuple[str, ...]) -> str:
        run_id, number, *path = arguments
        if path:
            above = running.get((run_id, number))
            gates = None if above is None else above.below.get(path[0])
            # Without its caller, whose segment decides what becomes of the call.
            return (
                "gone"
                if above is None or gates is None
                else await above.drive(steps, gates, path[0])
            )
        segment = RunSegment(make_agent, store, index, (run_id, int(number)), patience)
        running[run_id, number] = segment
        try:
            return await segment.drive(steps, segment.gates)
        finally:
            if running[run_id, number] is segment:
                del running[run_id, number]
            await segment.close()

    return workflow


class RunSegment:
    """A segment in this process; *place* is the id of its run, and its number."""

    def __init__(
        self,
        make_agent: AgentFactory,
        store: Store,
        index: RunIndex,
        place: tuple[str, int],
        patience: float,
    ) -> None:
        self._make_agent, self._store, self._index = make_agent, store, index
        (self._run_id, self._number), self._patience = place, patience
        self._task: asyncio.Task[str] | None = None
        self._agent: Agent[Any] | None = None
        self._pulse = Pulse()
        self.gates = Gates(self._pulse, self._begin, self._word, self._kind_of)
        self.below: dict[str, Gates] = {}
        self._expected: dict[tuple[str, str], Gates] = {}
        self._by_session: dict[str, Gates] = {}

    async def drive(self, steps: Steps, gates: Gates, path: str = "") -> str:
        """Return the word at the end of the session of *gates*, step by step."""
        children = count(1)
        while True:
            steps.leave()
            word, _, rest = (await steps.step("model", gates.model)).partition(" ")
            if word == "end":
                return rest
            if word == "tools":
                works = []
                for number, kind in enumerate(rest):
                    if kind == AGENT:
                        child = self._child(gates, number, f"{path}.{next(children)}")
                        works.append(steps.child(child))
                    else:
                        works.append(steps.step("tool", partial(gates.tool, number)))
                await _all(works)

    def _child(self, gates: Gates, number: int, path: str) -> WorkflowCall:
        """Return the workflow of a call's sub-agent, and await its session."""
        is_begun = False

        async def begin() -> None:
            nonlocal is_begun
            if not is_begun:
                is_begun = True
                call_id = await gates.open_call(number)
                if call_id is not None:
                    self._expected[gates.session_id, call_id] = below

        def end() -> str | None:
            return "done" if gates.has_answer(number) else None

        self.below[path] = below = Gates(self._pulse, begin, end, self._kind_of)
        return child_of(self._run_id, self._number, path)

    async def close(self) -> None:
        """Stop the agent, if it still runs; its open calls are answered as cancelled."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _begin(self) -> None:
        if self._task is None:
            # In a context of its own: the agent is no part of the step that began it.
            self._task = asyncio.create_task(self._run_to_end(), context=Context())
            self._task.add_done_callback(lambda _: self._pulse.beat())

    def _word(self) -> str | None:
        return self._task.result() if self._task is not None and self._task.done() else None

    async def _run_to_end(self) -> str:
        """Return the word at the end of the segment; no error leaves it."""
        deadline = time.monotonic() + self._patience
        while True:
            run = None
            try:
                run = await self._index.find(self._run_id)
                return "gone" if run is None else await self._go_on(run)
            except (SessionBusyError, StoreError) as error:
                if time.monotonic() > deadline:
                    word = "busy" if isinstance(error, SessionBusyError) else "store"
                    return await self._fail(run, word, error)
            except Exception as error:  # noqa: BLE001 - it is recorded
                return await self._fail(run, "failed", error)
            await asyncio.sleep(_AGAIN_SECONDS)
            self.gates.reset()
            self._by_session.clear()

    async def _go_on(self, run: DurableRun) -> str:
        """Return the word at the end of the segment, which another process may have ended."""
        if run.segment != self._number:
            return "superseded"
        if run.word == "held":
            await hold(self._store, run)  # A killed process may have left it at half.
        return await self._attempt(run) if run.word == "queued" else run.word

    async def _attempt(self, run: DurableRun) -> str:
        """Run the agent to its end, and record it; an error may leave room for another attempt."""
        async with make_agent_of(self._make_agent, run.session_id, self._store) as agent:
            self._attach(agent)
            result = await _resume(agent, run)
        if result is None:
            return await self._record(replace(run, word="timeout"), run)
        if result.status == "pending":
            held = replace(run, word="held", questions=tuple(sorted(result.pending)))
            word = await self._record(held, run)
            await hold(self._store, held)
            return word
        failure = (result.reason or "")[:_LONGEST]
        return await self._record(replace(run, word=result.status, failure=failure), run)

    async def _fail(self, run: DurableRun | None, word: str, error: Exception) -> str:
        # Its text may quote the session, so it is in the store alone.
        logger.warning("run %s ends as %r: %s", self._run_id, word, type(error).__name__)
        if run is None:
            return word
        failure = f"{type(error).__name__}: {error}"[:_LONGEST]
        return await self._record(replace(run, word=word, failure=failure), run)

    async def _record(self, new: DurableRun, old: DurableRun) -> str:
        """Record *new*, also after failures of the store; return its word, or "superseded"."""
        while True:
            try:
                if await swap_run(self._store, old, new):
                    return new.word
                current = await read_run(self._store, new.session_id, new.id)
            except StoreError as error:
                logger.warning("run %s is not recorded yet: %s", new.id, type(error).__name__)
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                # The answer to the first write may have been lost.
                return new.word if current == new else "superseded"

    def _attach(self, agent: Agent[Any]) -> None:
        """Hold *agent* and its sub-agents before their calls."""
        self._agent, self._by_session = agent, {agent.scope.session_id: self.gates}
        self.gates.know(agent.scope.session_id, agent.messages)
        agent.on(MODEL_CALL_BEFORE, self._before_model, priority=_LAST)
        agent.guard(TOOL_CALL_BEFORE, self._before_call, priority=_LAST)
        # Not a handler, which would leave a record in the ledger for each message.
        agent.bus.signal(MESSAGE_APPEND_AFTER).connect(self._after_append)

    async def _before_model(self, ctx: EventContext[ModelRequest]) -> None:
        if (gates := self._gates_of(ctx.scope)) is not None:
            await gates.hold_model()

    async def _before_call(self, ctx: EventContext[ToolCall]) -> None:
        if (gates := self._gates_of(ctx.scope)) is not None:
            await gates.hold_call(ctx.value.id)

    def _after_append(self, _: object, ctx: EventContext[Message]) -> None:
        if (gates := self._gates_of(ctx.scope)) is not None:
            gates.note(ctx.value)

    def _gates_of(self, scope: Scope) -> Gates | None:
        """Return the gates of a session, None if no workflow runs it."""
        caller = scope.parent_session_id, scope.parent_call_id
        if (below := self._expected.pop(caller, None)) is not None:
            self._by_session[scope.session_id] = below
            below.know(scope.session_id)
        return self._by_session.get(scope.session_id)

    def _kind_of(self, name: str) -> str:
        tool = None if self._agent is None else self._agent.tools.get(name)
        return AGENT if tool is not None and tool.delegates else TOOL


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


async def _all(works: list[Any]) -> None:
    """Wait for all *works*; the first error cancels the rest."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
