"""A segment of a run: an agent that goes on from its transcript, one step at a time.

The agent runs as ever, in a task, held by two handlers: before each model call and each tool call
it waits for the step of the workflow that stands for it. The workflow is a loop over the words of
steps, so that a replay meets the same steps whatever the transcript says:

| step | word | next |
|---|---|---|
| model | `tools N` | N steps `tool`, at the same time, then `model` |
| model | `model` | `model`: the answer did not fit, or was replaced |
| model | `end WORD` | the segment has ended as WORD |
| tool | `done` | |

A step of a new process begins with `resume`, which answers open calls as interrupted. If the run
is then past the step, the step does nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.durable.holds import hold
from toolbus.durable.runs import RunIndex, read_run, swap_run
from toolbus.errors import RegistrationError, SessionBusyError, StoreError
from toolbus.events.catalogue import MESSAGE_APPEND_AFTER, MODEL_CALL_BEFORE, TOOL_CALL_BEFORE
from toolbus.messages.records import AssistantMessage, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.agent.agent import Agent
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.durable.engine import Steps, Workflow
    from toolbus.durable.runs import AgentFactory, Run
    from toolbus.events.catalogue import ModelRequest
    from toolbus.messages.records import Message, ToolCall
    from toolbus.store.protocol import Store

PATIENCE_SECONDS = 300.0

_AGAIN_SECONDS = 1.0
_LAST = -1_000_000  # After all other handlers, so that a step covers the call alone.
_LONGEST = 500
_DONE = "done"

logger = logging.getLogger("toolbus")


def durable(
    make_agent: AgentFactory, store: Store, *, patience: float = PATIENCE_SECONDS
) -> Workflow:
    """Return the workflow that runs segments of the agents of *make_agent* in *store*.

    *patience* are the seconds for which it waits for a session in use, or for a failing store.
    """
    index = RunIndex(store)

    async def workflow(steps: Steps, arguments: tuple[str, ...]) -> str:
        run_id, number = arguments
        find = partial(index.find, run_id)
        segment = Segment(make_agent, store, find, int(number), patience)
        try:
            return await _drive(steps, segment)
        finally:
            await segment.close()

    return workflow


async def _drive(steps: Steps, segment: Segment) -> str:
    """Return the word at the end of *segment*."""
    while True:
        steps.leave()
        word, _, rest = (await steps.step("model", segment.model)).partition(" ")
        if word == "end":
            return rest
        if word == "tools":
            await _all([steps.step("tool", partial(segment.tool, n)) for n in range(int(rest))])


async def _all(works: list[Any]) -> None:
    """Wait for all *works*; the first error cancels the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


class Segment:
    """Segment *number* of the run that *find* returns, in this process."""

    def __init__(
        self,
        make_agent: AgentFactory,
        store: Store,
        find: Callable[[], Any],
        number: int,
        patience: float,
    ) -> None:
        self._make_agent, self._store, self._find = make_agent, store, find
        self._number, self._patience = number, patience
        self._task: asyncio.Task[str] | None = None
        self._moved = asyncio.Event()
        self._session_id = ""
        self._reset()

    def _reset(self) -> None:
        self._model_gate: asyncio.Future[None] | None = None
        self._call_gates: dict[str, asyncio.Future[None]] = {}
        self._calls: tuple[str, ...] = ()
        self._is_asked = self._is_attached = False
        self._passed: set[str] = set()
        self._answered: set[str] = set()

    async def model(self) -> str:
        """Let the agent call its model; return the word for the next steps."""
        task = self._begin()
        await self._until(lambda: task.done() or self._model_gate or self._call_gates)
        if not task.done() and self._model_gate is not None:
            self._is_asked = False
            _open(self._model_gate)
            self._model_gate = None
            await self._until(lambda: task.done() or self._model_gate or self._is_asked)
        if task.done():
            return f"end {task.result()}"
        return f"tools {len(self._calls)}" if self._model_gate is None else "model"

    async def tool(self, number: int) -> str:
        """Let the agent run a call of its latest answer; return once it has its answer."""
        task = self._begin()

        def is_over() -> bool:
            return task.done() or self._model_gate is not None or self._has_answer(number)

        await self._until(lambda: is_over() or self._gate_of(number))
        if not is_over():
            call_id = self._calls[number]
            self._passed.add(call_id)
            _open(self._call_gates.pop(call_id))
            await self._until(is_over)
        return _DONE

    async def close(self) -> None:
        """Stop the agent, if it still runs; its open calls are answered as cancelled."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    def _begin(self) -> asyncio.Task[str]:
        if self._task is None:
            # In a context of its own: the agent is no part of the step that began it.
            self._task = asyncio.create_task(self._run_to_end(), context=Context())
            self._task.add_done_callback(lambda _: self._notify())
        return self._task

    async def _run_to_end(self) -> str:
        """Return the word at the end of the segment; no error leaves it."""
        deadline, run = time.monotonic() + self._patience, None
        while True:
            try:
                run = await self._find()
                if run is None:
                    return "gone"
                if run.segment != self._number:
                    return "superseded"
                if run.word == "held":
                    await hold(self._store, run)  # A killed process may have left it at half.
                return await self._attempt(run) if run.word == "queued" else run.word
            except (SessionBusyError, StoreError) as error:
                if time.monotonic() > deadline:
                    word = "busy" if isinstance(error, SessionBusyError) else "store"
                    return word if run is None else await self._fail(run, word, error)
            except Exception as error:  # noqa: BLE001 - it is recorded
                return "failed" if run is None else await self._fail(run, "failed", error)
            await asyncio.sleep(_AGAIN_SECONDS)
            self._reset()

    async def _attempt(self, run: Run) -> str:
        """Run the agent to its end, and record it; an error may leave room for another attempt."""
        agent = self._make_agent(run.session_id, self._store)
        if agent.scope.session_id != run.session_id:
            raise RegistrationError("agent", "its factory must pass on `session_id`")
        self._session_id = run.session_id
        async with agent:
            self._attach(agent)
            result = await agent.resume(context=run.context)
        if result.status == "pending":
            held = replace(run, word="held", questions=tuple(sorted(result.pending)))
            word = await self._record(held, run)
            await hold(self._store, held)
            return word
        failure = (result.reason or "")[:_LONGEST]
        return await self._record(replace(run, word=result.status, failure=failure), run)

    async def _fail(self, run: Run, word: str, error: Exception) -> str:
        # Its text may quote the session, so it is in the store alone.
        logger.warning("run %s ends as %r: %s", run.id, word, type(error).__name__)
        failure = f"{type(error).__name__}: {error}"[:_LONGEST]
        return await self._record(replace(run, word=word, failure=failure), run)

    async def _record(self, new: Run, old: Run) -> str:
        """Record *new*, however long the store fails; return its word, or that it came too late."""
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
        """Hold *agent* before its calls, and note the calls that its latest answer has."""
        asked = [each for each in agent.messages if isinstance(each, AssistantMessage)]
        self._calls = tuple([call.id for call in asked[-1].tool_calls]) if asked else ()
        answers = [each for each in agent.messages if isinstance(each, ToolMessage)]
        self._answered, self._is_attached = {each.tool_call_id for each in answers}, True
        agent.on(MODEL_CALL_BEFORE, self._before_model, priority=_LAST)
        agent.guard(TOOL_CALL_BEFORE, self._before_call, priority=_LAST)
        agent.on(MESSAGE_APPEND_AFTER, self._after_append, priority=_LAST)

    async def _before_model(self, ctx: EventContext[ModelRequest]) -> None:
        # A sub-agent's calls belong to the step of the call that started it.
        if ctx.scope.session_id == self._session_id:
            self._model_gate = gate = asyncio.get_running_loop().create_future()
            self._notify()
            await gate

    async def _before_call(self, ctx: EventContext[ToolCall]) -> None:
        call_id = ctx.value.id
        # So do calls that a tool makes; and an approved call is judged twice.
        is_own = ctx.scope.session_id == self._session_id and call_id in self._calls
        if is_own and call_id not in self._passed:
            self._call_gates[call_id] = gate = asyncio.get_running_loop().create_future()
            self._notify()
            await gate

    def _after_append(self, ctx: EventContext[Message]) -> None:
        message = ctx.value
        if ctx.scope.session_id != self._session_id:
            return
        if isinstance(message, AssistantMessage) and message.tool_calls:
            self._calls, self._is_asked = tuple([call.id for call in message.tool_calls]), True
        elif isinstance(message, ToolMessage):
            self._answered.add(message.tool_call_id)
        self._notify()

    def _has_answer(self, number: int) -> bool:
        return self._is_attached and (
            number >= len(self._calls) or self._calls[number] in self._answered
        )

    def _gate_of(self, number: int) -> object:
        return number < len(self._calls) and self._call_gates.get(self._calls[number])

    def _notify(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _until(self, is_so: Callable[[], object]) -> None:
        while not is_so():
            await self._moved.wait()


def _open(gate: asyncio.Future[None]) -> None:
    """Open *gate*; a cancelled agent waits at it no more."""
    if not gate.done():
        gate.set_result(None)
