"""The calls of a run as steps of its workflow, and its sub-agents as workflows below it.

Nothing waits for a step: the agent runs as ever, and its bus tells when calls begin and end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from toolbus.events.catalogue import (
    MODEL_CALL_AFTER,
    MODEL_CALL_BEFORE,
    MODEL_CALL_ERROR,
    RUN_AFTER,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.durable.engine import Steps
    from toolbus.events.catalogue import ModelRequest, RunResult, Scope, ToolCallOutcome
    from toolbus.messages.records import ToolCall

logger = logging.getLogger("toolbus.durable")

_MODEL, _RUN = "model", "run"
"""In place of a call's id: a session's model call, and its run, of which there is one at a time."""


class RunSteps:
    """The steps of the run of a session, and of the sessions below it.

    *leave* is called once, at the end of a call while the worker stops.
    """

    def __init__(self, session_id: str, steps: Steps, leave: Callable[[], object]) -> None:
        self._session_id, self._loop = session_id, asyncio.get_running_loop()
        self._above, self._leave, self._is_left = steps, leave, False
        self._steps: dict[str, asyncio.Future[Steps]] = {session_id: self._loop.create_future()}
        self._steps[session_id].set_result(steps)
        self._open: dict[tuple[str, str], asyncio.Future[str]] = {}
        self._tasks: defaultdict[str, set[asyncio.Task[Any]]] = defaultdict(set)

    def follow(self, bus: EventBus) -> None:
        """Record the calls on *bus*, until this object is gone."""
        bus.signal(MODEL_CALL_BEFORE).connect(self._before_model)
        bus.signal(MODEL_CALL_AFTER).connect(self._after_model)
        bus.signal(MODEL_CALL_ERROR).connect(self._failed_model)
        bus.signal(TOOL_CALL_BEFORE).connect(self._before_call)
        bus.signal(TOOL_CALL_AFTER).connect(self._after_call)
        bus.signal(RUN_AFTER).connect(self._after_run)

    async def close(self, word: str) -> None:
        """End the open calls with *word*, and wait until all are recorded."""
        for session_id, call_id in [*self._open]:
            self._end(session_id, call_id, word)
        await self._recorded(self._session_id)

    def cancel(self) -> None:
        """Leave the open steps without a record."""
        for call in self._open.values():
            call.cancel()
        for tasks in self._tasks.values():
            for task in tasks:
                task.cancel()

    def _before_model(self, _: object, ctx: EventContext[ModelRequest]) -> None:
        if ctx.denied is None and ctx.answer is None:
            self._begin(ctx.scope, _MODEL, "model")

    def _after_model(self, _: object, ctx: EventContext[Any]) -> None:
        self._end(ctx.scope.session_id, _MODEL, "ok")

    def _failed_model(self, _: object, ctx: EventContext[Any]) -> None:
        self._end(ctx.scope.session_id, _MODEL, "error")

    def _before_call(self, _: object, ctx: EventContext[ToolCall]) -> None:
        self._begin(ctx.scope, ctx.value.id, "tool")

    def _after_call(self, _: object, ctx: EventContext[ToolCallOutcome]) -> None:
        self._end(ctx.scope.session_id, ctx.value.requested.id, ctx.value.status)

    def _after_run(self, _: object, ctx: EventContext[RunResult[Any]]) -> None:
        self._end(ctx.scope.session_id, _RUN, ctx.value.status)

    def _begin(self, scope: Scope, call_id: str, name: str) -> None:
        """Begin a step, unless it has begun: an approved call is judged twice."""
        session_id = scope.session_id
        # Agents may share a bus.
        is_ours = self._session_id in {session_id, scope.root_session_id}
        if not is_ours or (session_id, call_id) in self._open:
            return
        if session_id not in self._steps:
            # At once, since a session that goes on may begin several calls together.
            self._steps[session_id] = self._loop.create_future()
            run = self._opened(session_id, _RUN)
            self._start(scope.parent_session_id, self._record_below(scope, run))
        self._start(session_id, self._record(session_id, name, self._opened(session_id, call_id)))

    def _end(self, session_id: str, call_id: str, word: str) -> None:
        call = self._open.pop((session_id, call_id), None)
        # The end of the engine's loop cancels all tasks, and what they wait for.
        if call is not None and not call.done():
            call.set_result(word)
        if self._above.is_leaving and not self._is_left:
            self._is_left = True
            self._leave()

    def _opened(self, session_id: str, call_id: str) -> asyncio.Future[str]:
        call: asyncio.Future[str] = self._loop.create_future()
        self._open[session_id, call_id] = call
        return call

    def _start(self, session_id: str, work: Coroutine[Any, Any, object]) -> None:
        task, tasks = self._loop.create_task(_quietly(work)), self._tasks[session_id]
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _record(self, session_id: str, name: str, call: asyncio.Future[str]) -> None:
        steps = await asyncio.shield(self._steps[session_id])
        await steps.step(name, call)

    async def _record_below(self, scope: Scope, run: asyncio.Future[str]) -> None:
        """Record the run of a session below another one as a workflow below that of the other."""
        above = await asyncio.shield(self._steps[scope.parent_session_id])
        await above.child(partial(self._below, scope.session_id, run))

    async def _below(self, session_id: str, run: asyncio.Future[str], steps: Steps) -> str:
        self._steps[session_id].set_result(steps)
        word = await run
        await self._recorded(session_id)
        return word

    async def _recorded(self, session_id: str) -> None:
        """Wait until the steps of a session are recorded."""
        while tasks := self._tasks[session_id]:
            await asyncio.wait(tasks)


async def _quietly(work: Coroutine[Any, Any, object]) -> None:
    """Await *work*; a step without a record does no harm, since the store has the truth."""
    try:
        await work
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - engines have their own; a text may quote anything
        logger.info("a step has no record: %s", type(error).__name__)
