"""The runner: every tool call, single, parallel, nested or direct, takes this way."""

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
    """Log the progress of a call, where a program takes it nowhere else."""
    logger.debug("tool call %s: %s (%s)", call_id, text, part)


class ToolRunner:
    """Runs tool calls past the handlers of *bus*, for an agent or for a program without one.

    Args:
        bus, toolset, scope: whose handlers see the calls; the tools; who calls.
        approver: a function that decides what guards ask, or a `CallGate`; without one, every call
            that a guard asks about is denied.
        append: takes each tool message into a transcript and returns it as it was appended, in
            a task that no cancellation reaches; without one, a result passes
            `MESSAGE_APPEND_BEFORE` and is kept nowhere.
        append_all: appends the results that are ready at the same time, in place of *append*, and
            returns for each the message as it was appended, or the error that kept it out.
        reported: the outcomes of calls whose `TOOL_CALL_AFTER` was fired, and no message appended
            yet, by their ids; None where the outcome is not at hand.
        may_be_told: says of the id of a call whether another process may have told of it.
        leaves_pending: says that a call which waits for a person stays open, without a message,
            until it is called again; else the message says so, and a later call is another one.
        max_attempts: how often an idempotent tool runs at most, for handlers that say `Retry`.
        deps: what the tools get as `ToolContext.deps`: any object, which goes nowhere else.
        progress: gets what tools tell of their progress.
        answered: gets each outcome and its message, when that was appended.
        ids, clock: makes the ids of calls and messages; counts nanoseconds, for durations.

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
        self._under_way: list[CallBatch] = []

    async def call(self, name: str, arguments: JsonObject = EMPTY) -> ToolCallOutcome:
        """Call a tool as a program does, which sees all tools; return what became of it.

        It waits first while an async observer is too far behind. The outcome's response is what
        a model would read. A tool's failure is in the outcome, never raised; raises
        `HandlerError` for a handler that fails with the policy "raise", and `FreezeError` for
        *arguments* that are no JSON.
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
        """Run *calls* at the same time; append their messages in the order of the calls.

        Where questions are kept, those of calls that wait for a person come behind.

        *advertised* is what the model was told, None for a program, which sees all. Cancelling this
        cancels the tools; every call still gets its message before `CancelledError` goes on.
        Those whose ids are in *continued* have begun before, and were approved then.
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
        """Take *call* to where its tool, which runs elsewhere, may run, or to an end.

        With *asks* it stops at the `question` of a guard, which is asked there as well. One that
        has ended is to be finished; of another the result is, by a call that takes its `resume`.
        """
        judged = self._begin(call)
        await judged.walk({PERMITTED, ASKED} if asks else {PERMITTED})
        if not judged.has_ended and judged.question is None:
            # A handler has an answer, so whoever would ask there cannot go on by it.
            await judged.walk({PERMITTED})
        return judged

    async def finish(self, call: CallInProgress) -> ToolCallOutcome:
        """Take *call*, judged or resumed, to its end, and append its message."""
        (outcome,) = await self._finish([call])
        return outcome

    def stop(self) -> None:
        """Cancel the tools of all calls under way; every call still gets its message."""
        for batch in self._under_way:
            batch.stop()

    async def close_interrupted(self, calls: Sequence[ToolCall]) -> None:
        """Answer *calls*, which were left open, and run none of them.

        A call whose message could not be written gets it now; another one is interrupted.
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
        """Take *calls* to their ends, and answer each, whatever is cancelled meanwhile."""
        batch = CallBatch(self, calls)
        self._under_way.append(batch)
        try:
            return await batch.run()
        finally:
            self._under_way.remove(batch)

    async def nested(self, name: str, arguments: JsonObject) -> ToolResponse:
        """Run a call for a tool, which reads the result as a model would.

        Its message passes `MESSAGE_APPEND_BEFORE` and is kept nowhere, since no model asked.
        """
        call = self._begin(ToolCall(id=self.ids(), name=name, arguments=arguments))
        try:
            (outcome,) = await CallBatch(self, [call], nested=True).run()
        finally:
            if isinstance(call, GatedCall):
                await call.give_up()
        return outcome.response

    def context_of(self, call: ToolCall, *, continued: bool) -> ToolContext:
        """Return the context of the tool of *call*; *continued*: the call began before."""
        return ToolContext(self.scope, call.id, self, deps=self._deps, continued=continued)

    def report(self, call_id: str, text: str, part: float | None) -> None:
        """Tell of the progress of a call; a failure of that does not reach the tool."""
        try:
            self._progress(call_id, text, part)
        except Exception:
            logger.exception("the progress of tool call %s could not be told", call_id)
