"""The concurrent calls of one answer, and their results in order."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from toolbus.bus.grace import CURRENT, Grace
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_AFTER
from toolbus.messages.fields import replace_unchecked
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import ToolMessage
from toolbus.tasks.shield import EXITS, ContainedTask, outlast
from toolbus.transcript.admission import admit
from toolbus.transcript.transcript import ToolAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from toolbus.events.catalogue import ToolCallOutcome
    from toolbus.messages.records import Message
    from toolbus.tools.calls.call import CallInProgress
    from toolbus.tools.calls.runner import ToolRunner

Appended: TypeAlias = "Message | BaseException | None"
"""A message as it was appended, or the error that prevented it; None: it would have no reader."""

_inside: ContextVar[bool] = ContextVar("toolbus_inside_call", default=False)
"""Whether this context is inside a call."""

logger = logging.getLogger("toolbus")


class CallBatch:
    """Takes *calls* of *runner* to their ends, each in a task, and answers them in order.

    The messages of all calls that are ready at the same time are appended together, if the runner
    can do so. *nested* calls are answered to the tool that made them, without any append. A call
    that waits for a person delays no other call if the gate keeps questions: the later calls are
    answered first.

    A stopped call has the grace period to end; then it is answered all the same, and its task is
    left behind.
    """

    def __init__(
        self, runner: ToolRunner, calls: Sequence[CallInProgress], *, nested: bool = False
    ) -> None:
        self._runner, self._calls, self._nested = runner, calls, nested
        self._append_one = None if nested else runner.append
        self._append_all = None if nested else runner.append_all
        self._passes_waiting = runner.gate is not None and runner.gate.keeps_questions
        self._remaining = list(calls)
        self._ended: dict[CallInProgress, ToolCallOutcome] = {}
        self._answered: dict[CallInProgress, ToolCallOutcome] = {}
        self._errors: list[BaseException] = []
        self._grace = CURRENT.get() or Grace()
        # For all tasks: context variables set by a tool do not leak into the answers of others.
        self._context = copy_context()
        self._tasks: list[ContainedTask[None]] = []
        self._all_answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_answering = False
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> tuple[ToolCallOutcome, ...]:
        """Return the outcomes of all calls, in order, once each call has its answer.

        A cancellation stops the calls, and is raised when they are answered.
        """
        if not self._calls:
            return ()
        # Eager tasks inside each other's first step would grow the stack.
        is_outermost = not _inside.get()
        self._context.run(_inside.set, True)  # noqa: FBT003 - the value of the variable
        self._context.run(CURRENT.set, self._grace)
        for call in self._calls:
            self._begin(partial(self._run_call, call), eager=is_outermost)
        cancelled = await outlast(self._all_answered, self.stop)
        if self._timer is not None:
            self._timer.cancel()
        self._tasks.clear()  # They refer to this batch, which refers to all data of the calls.
        if cancelled is not None:
            raise cancelled
        if self._errors:
            self._raise_first()
        return tuple([self._answered[call] for call in self._calls])

    def stop(self) -> None:
        """Cancel the calls; after the grace period, leave the unfinished ones behind."""
        for call in self._calls:
            call.stop()
        self._grace.begin()
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._grace.remaining, self._leave_behind)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]], *, eager: bool) -> None:
        # A copy, since an eager task may begin another one.
        context = self._context.copy()
        self._tasks.append(context.run(ContainedTask, work, eager=eager))

    async def _run_call(self, call: CallInProgress) -> None:
        """Take *call* to its end despite cancellation, and have it answered."""
        if len(self._calls) > 1:
            call.on_waiting = self._answer_soon
        try:
            await call.advance()
            if not call.is_left_behind:
                self._end(call)
        except GeneratorExit:
            raise  # Its loop was closed: nothing can be awaited.
        except BaseException as error:  # noqa: BLE001 - its siblings are answered first
            if not call.is_left_behind:
                self._fail(error)
                self._mark_answered(call)
        call.on_waiting = None  # It refers to this batch, too.
        if call.is_left_behind:
            return
        if len(self._calls) == 1:
            await self._answer_ready()
        else:
            self._answer_soon()

    def _end(self, call: CallInProgress) -> None:
        """Store the outcome of the ended *call*, and notify the observers, once."""
        outcome, call_id, runner = call.outcome, call.requested.id, self._runner
        if call.is_left_open:
            self._answered[call] = outcome
            self._mark_answered(call)
            return
        if call_id not in runner.reported:
            if runner.may_be_told is not None and runner.may_be_told(call_id):
                outcome = replace_unchecked(outcome, again=True)
            if not self._nested:
                runner.reported[call_id] = outcome
            if runner.bus.has_listeners(TOOL_CALL_AFTER):
                try:
                    runner.bus.do(TOOL_CALL_AFTER, outcome, scope=runner.scope)
                except BaseException as error:  # noqa: BLE001 - raised when the call has its answer
                    call.error = call.error or error
        self._ended[call] = outcome

    def _answer_soon(self) -> None:
        """Start a task that answers the calls that are ready, unless one is running."""
        if not self._is_answering:
            self._is_answering = True
            # Not eager: calls that end at the same time are answered together.
            self._begin(self._answer_ready, eager=False)

    async def _answer_ready(self) -> None:
        """Answer each ended call, once the calls before it are answered."""
        self._is_answering = True
        try:
            while self._remaining and (ready := self._ready()):
                messages = await self._append(ready)
                for call, message in zip(ready, messages, strict=True):
                    await self._answer(call, message)
        finally:
            self._is_answering = False

    def _ready(self) -> list[CallInProgress]:
        """Return the calls to answer now: all calls before them are answered, or wait."""
        ready = []
        for call in self._remaining:
            if call in self._ended:
                ready.append(call)
            elif not (self._passes_waiting and call.waits):
                break
        return ready[:1] if self._append_all is None else ready

    async def _append(self, calls: Sequence[CallInProgress]) -> list[Appended]:
        """Append the messages of *calls*; skip that without a transcript and without handlers."""
        runner, scope = self._runner, self._runner.scope
        is_kept = self._append_one is not None or self._append_all is not None
        if not (is_kept or runner.bus.has_listeners(MESSAGE_APPEND_BEFORE)):
            return [None] * len(calls)
        answers = []
        try:
            for call in calls:
                outcome = self._ended[call]
                message = ToolMessage(
                    id=runner.ids(),
                    tool_call_id=outcome.requested.id,
                    tool_name=outcome.response.tool_name or outcome.requested.name,
                    tool_response=outcome.response,
                )
                answers.append(ToolAnswer(message, call.spec))
            if self._append_all is not None:
                return [*await self._append_all(answers, scope)]
            append = self._append_one or partial(admit, runner.bus)
            ((message, tool),) = answers
            return [await append(message, scope, tool)]
        except GeneratorExit:
            raise  # As above.
        except BaseException as error:  # noqa: BLE001 - as above
            return [error] * len(calls)

    async def _answer(self, call: CallInProgress, message: Appended) -> None:
        """Answer *call* with its *message* as it was appended, or fail with its error."""
        runner, outcome = self._runner, self._ended[call]
        try:
            if isinstance(message, BaseException):
                raise message  # noqa: TRY301 - it ends this call's answer alone
            runner.reported.pop(call.requested.id, None)
            if call.permit is not None:
                await call.permit.end()
            if message is not None:
                if runner.answered is not None and not self._nested:
                    runner.answered(outcome, message)
                outcome = _as_read(outcome, message)
            self._answered[call] = outcome
        except GeneratorExit:
            raise  # As above.
        except BaseException as error:  # noqa: BLE001 - as above
            self._fail(error)
        self._mark_answered(call)

    def _mark_answered(self, call: CallInProgress) -> None:
        """Count *call* as answered; the last one ends the batch."""
        if call.error is not None:
            self._fail(call.error)
        self._remaining.remove(call)
        if not self._remaining:
            self._all_answered.set_result(None)

    def _leave_behind(self) -> None:
        """End the calls that ignore their cancellation, so that they are answered."""
        left_behind = [call for call in self._calls if call.leave_behind()]
        for call in left_behind:
            self._end(call)
        if left_behind:
            self._answer_soon()

    def _fail(self, error: BaseException) -> None:
        """Keep *error* until all calls are answered; an exit stops them."""
        if all(error is not other for other in self._errors):
            self._errors.append(error)
        if isinstance(error, EXITS):
            self.stop()

    def _raise_first(self) -> None:
        """Raise the first error for the caller, exits before others, and log the rest."""
        self._errors.sort(key=lambda error: isinstance(error, Exception))
        for other in self._errors[1:]:
            logger.error("one more error of the same tool calls", exc_info=other)
        raise self._errors[0]


def _as_read(outcome: ToolCallOutcome, message: Message) -> ToolCallOutcome:
    """Return *outcome* with the model's text of *message*, which a handler may have changed."""
    response = outcome.response
    if not isinstance(message, ToolMessage) or message.tool_response is None:
        read = replace(response.with_text(message.text), metadata=EMPTY)
    elif message.tool_response is response:
        return outcome
    else:
        read = message.tool_response
    return replace_unchecked(outcome, response=read)
