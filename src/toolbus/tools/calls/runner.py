"""The runner of all tool calls: single, parallel, nested or direct."""

from __future__ import annotations

import logging
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.events.catalogue import Scope
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import ToolCall, ToolMessage
from toolbus.tools.calls.advertised import ArgumentsCheck
from toolbus.tools.calls.approver import gate_of
from toolbus.tools.calls.batch import CallBatch
from toolbus.tools.calls.call import PERMITTED, CallInProgress
from toolbus.tools.calls.gated_call import ASKED, GatedCall
from toolbus.tools.contexts import NO_DEPS, ToolContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import ToolCallOutcome, ToolSpec
    from toolbus.messages.records import JsonObject, Message, ToolResponse
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import CallGate
    from toolbus.tools.contexts import Progress
    from toolbus.tools.toolset import Toolset
    from toolbus.transcript.transcript import ToolAnswer

Answered: TypeAlias = "Callable[[ToolCallOutcome, Message], object]"
AppendAll: TypeAlias = (
    "Callable[[Sequence[ToolAnswer], Scope], Awaitable[list[Message | BaseException]]]"
)
logger = logging.getLogger("toolbus")


def log_progress(call_id: str, text: str, part: float | None) -> None:
    """Log the progress of a call, the default of programs."""
    logger.debug("tool call %s: %s (%s)", call_id, text, part)


class ToolRunner:
    """Runs tool calls through the handlers of *bus*, for an agent or for a program without one.

    Args:
        bus, toolset, scope: the bus of the handlers; the tools; the caller.
        approver: a function that decides the questions of guards, or a `CallGate`; without one,
            every call with a question is denied.
        append: takes each tool message into a transcript and returns it as it was appended, in
            a task that no cancellation reaches; without one, a result only passes
            `MESSAGE_APPEND_BEFORE`.
        append_all: appends the results that are ready at the same time, in place of *append*;
            returns for each the message as it was appended, or the error that prevented it.
        reported: by call id, the outcomes whose `TOOL_CALL_AFTER` was dispatched, and whose
            messages are not appended yet; None for an outcome that is not known here.
        may_be_told: returns whether another process may have reported the call of an id.
        leaves_pending: leave a call that waits for a person open, without a message, until it is
            called again; else its message says so, and a later call is a new one.
        max_attempts: the maximum of runs of an idempotent tool, for handlers that return `Retry`.
        deps: any object, for `ToolContext.deps` alone.
        progress: receives the tools' reports of progress.
        answered: receives each outcome with its appended message.
        ids, clock: creates the ids of calls and messages; counts nanoseconds, for durations.

    >>> runner = ToolRunner(EventBus(), Toolset([greet]))
    >>> asyncio.run(runner.call("greet", {"name": "Jane"})).response.text
    'hello Jane'
    """

    def __init__(
        self,
        bus: EventBus,
        toolset: Toolset,
        scope: Scope | None = None,
        *,
        approver: Approver | CallGate | None = None,
        append: Callable[[ToolMessage, Scope, ToolSpec | None], Awaitable[Message]] | None = None,
        append_all: AppendAll | None = None,
        reported: dict[str, ToolCallOutcome | None] | None = None,
        may_be_told: Callable[[str], bool] | None = None,
        deps: Any = NO_DEPS,
        leaves_pending: bool = False,
        max_attempts: int = 3,
        progress: Progress = log_progress,
        answered: Answered | None = None,
        ids: Callable[[], str] = new_id,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self.bus, self.toolset, self.scope = bus, toolset, scope or Scope()
        self.gate = None if approver is None else gate_of(approver)
        self.check, self.clock, self.max_attempts = ArgumentsCheck(toolset), clock, max_attempts
        self._progress, self._deps = progress, deps
        self.append, self.append_all = append, append_all
        self.ids, self.answered = ids, answered
        self.reported = {} if reported is None else reported
        self.may_be_told = may_be_told
        self._leaves_pending = leaves_pending
        self._running_batches: list[CallBatch] = []

    async def call(self, name: str, arguments: JsonObject = EMPTY) -> ToolCallOutcome:
        """Call a tool as a program, which may call every tool; return the outcome.

        It first waits while an async observer is too far behind. The outcome's response is the
        model's text. A tool's failure is in the outcome, never raised; raises `HandlerError` for
        a handler that fails with the policy "raise", and `FreezeError` for *arguments* that are
        not JSON.
        """
        call = ToolCall(id=self.ids(), name=name, arguments=arguments)
        await self.bus.catch_up()
        (outcome,) = await self._finish([self._begin(call, stays_open=self._leaves_pending)])
        return outcome

    async def call_all(
        self,
        calls: Sequence[ToolCall],
        advertised: AdvertisedTools | None = None,
        *,
        continued: Collection[str] = (),
    ) -> tuple[ToolCallOutcome, ...]:
        """Run *calls* concurrently; append their messages in the order of the calls.

        If the gate keeps questions, messages of calls that wait for a person come last.

        *advertised* has the specs for the model, None for a program, which may call all. A
        cancellation cancels the tools; every call still gets its message before `CancelledError`
        is raised. The calls with ids in *continued* have begun before, and were approved then.
        """
        under_way: list[CallInProgress] = []
        for call in calls:
            started = self._begin(
                call,
                advertised,
                earlier=under_way,
                continued=call.id in continued,
                stays_open=self._leaves_pending,
            )
            under_way.append(started)
        return await self._finish(under_way)

    def _begin(
        self,
        call: ToolCall,
        advertised: AdvertisedTools | None = None,
        *,
        earlier: Sequence[CallInProgress] = (),
        continued: bool = False,
        stays_open: bool = False,
    ) -> CallInProgress:
        if self.gate is None:
            return CallInProgress(call, self, advertised, continued=continued)
        return GatedCall(
            call,
            self,
            advertised,
            gate=self.gate,
            earlier=[each.passed for each in earlier if isinstance(each, GatedCall)],
            continued=continued,
            stays_open=stays_open,
        )

    async def judge(self, call: ToolCall, *, asks: bool = False) -> CallInProgress:
        """Take *call* to the start of its tool, which runs in another process, or to an end.

        With *asks* it stops at the `question` of a guard, for the other process to ask. An ended
        call must be passed to `finish`, and any other one once `resume` has given it a result.
        """
        judged = self._begin(call)
        await judged.advance({PERMITTED, ASKED} if asks else {PERMITTED})
        if not judged.has_ended and judged.question is None:
            # A handler has an answer, which an approval in the other process could not use.
            await judged.advance({PERMITTED})
        return judged

    async def finish(self, call: CallInProgress) -> ToolCallOutcome:
        """Take *call*, judged or resumed, to its end, and append its message."""
        (outcome,) = await self._finish([call])
        return outcome

    def stop(self) -> None:
        """Cancel the tools of all running calls; every call still gets its message."""
        for batch in self._running_batches:
            batch.stop()

    async def close_interrupted(self, calls: Sequence[ToolCall]) -> None:
        """Answer *calls*, which were left open, without running any.

        A call whose message could not be appended gets it now; any other is interrupted.
        """
        under_way = [self._begin(call) for call in calls]
        for call in under_way:
            ended = self.reported.get(call.requested.id)
            if ended is not None:
                call.restore(ended)
            else:
                call.interrupt()
        await self._finish(under_way)

    async def close_refused(self, calls: Sequence[ToolCall], reason: str) -> None:
        """Answer *calls*, which wait for a person, as denied for this *reason*."""
        under_way = [self._begin(call) for call in calls]
        for call in under_way:
            call.refuse(reason)
        await self._finish(under_way)

    async def _finish(self, calls: Sequence[CallInProgress]) -> tuple[ToolCallOutcome, ...]:
        """Take *calls* to their ends, and answer each, despite cancellation."""
        batch = CallBatch(self, calls)
        self._running_batches.append(batch)
        try:
            return await batch.run()
        finally:
            self._running_batches.remove(batch)

    async def nested(self, name: str, arguments: JsonObject) -> ToolResponse:
        """Run a call for a tool, and return the response as a model would read it.

        Its message only passes `MESSAGE_APPEND_BEFORE`, because the model did not make the call.
        """
        call = self._begin(ToolCall(id=self.ids(), name=name, arguments=arguments))
        try:
            (outcome,) = await CallBatch(self, [call], nested=True).run()
        finally:
            if isinstance(call, GatedCall):
                await call.abandon()
        return outcome.response

    def context_of(self, call: ToolCall, *, continued: bool) -> ToolContext:
        """Return the context of the tool of *call*; *continued*: the call began before."""
        return ToolContext(self.scope, call.id, self, deps=self._deps, continued=continued)

    def report(self, call_id: str, text: str, part: float | None) -> None:
        """Report the progress of a call; a failed report does not reach the tool."""
        try:
            self._progress(call_id, text, part)
        except Exception:
            logger.exception("the progress of tool call %s could not be reported", call_id)
