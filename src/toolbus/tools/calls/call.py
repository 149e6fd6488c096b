"""One tool call on its way through the table of states."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from toolbus.errors import DeadlineError, HandlerError
from toolbus.events.catalogue import (
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    Ask,
    Deny,
    Retry,
    ToolCallFailure,
    ToolCallOutcome,
)
from toolbus.messages.fields import replace_unchecked
from toolbus.messages.records import ToolResponse
from toolbus.tasks.shield import EXITS
from toolbus.tools.calls.advertised import ArgumentsFiller, fitted
from toolbus.tools.calls.execution import end_of, execute, failure, log_late
from toolbus.tools.calls.gate import deny_without_approver
from toolbus.tools.calls.table import ENDS, TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.call_values import ToolStatus
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.calls.execution import Ending
    from toolbus.tools.calls.gate import Permit
    from toolbus.tools.calls.runner import ToolRunner
    from toolbus.tools.calls.table import Signal, State
    from toolbus.tools.definitions import Tool

PERMITTED = "permitted"
"""The state before the tool: a call stops there if its tool runs in another process."""

_NO_RESPONSE = ToolResponse()

logger = logging.getLogger("toolbus")


class CallInProgress:
    """One call: `advance` takes it to its end, `outcome` describes the end.

    The tool may run in another process: then `advance` stops at `PERMITTED`, and the result comes
    back, perhaps to a third process, where a new object for the same call does `resume`.

    *error* is the exception of a handler with the policy "raise", for the caller to raise when
    every call has its answer. *permit*, *question*, *is_left_open* and *waits* belong to a
    `GatedCall`, which calls *on_waiting* when it begins to wait for a person.
    """

    transitions: ClassVar[Mapping[State, Mapping[Signal, State | ToolStatus]]] = TRANSITIONS
    permit: Permit | None = None
    question: Ask | None = None
    is_left_open = waits = False
    on_waiting: Callable[[], object] | None = None

    def __init__(
        self,
        requested: ToolCall,
        runner: ToolRunner,
        advertised: AdvertisedTools | None = None,
        *,
        continued: bool = False,
    ) -> None:
        self.requested = self.call = requested
        self.executed: ToolCall | None = None
        self.error: BaseException | None = None
        self.is_left_behind = False
        self._runner, self._advertised = runner, advertised
        self._continued = continued
        # Either a `State` or a `ToolStatus`, which is an end.
        self._state: Any = "requested"
        self._tool: Tool | None = None
        self._values: dict[str, Any] = {}
        self._fillers: tuple[ArgumentsFiller, ...] = ()
        self._answer: ToolResponse | None = None
        self._response = _NO_RESPONSE
        self._pending: tuple[str, ...] = ()
        self._attempts, self._started = 0, runner.clock()
        self._task: asyncio.Task[Any] | None = None
        self._stopped = False

    # --- the way through the table -------------------------------------------------------------

    async def advance(self, until: Collection[str] = ()) -> None:
        """Take every step until an end is reached, or a state of *until*.

        Once stopped, the call ends as cancelled. Once left behind, it changes its state no more.
        """
        task = self._task = asyncio.current_task()
        try:
            if self._stopped and not self.has_ended:
                raise asyncio.CancelledError  # noqa: TRY301 - it was stopped before it began
            while (state := self._state) not in ENDS and state not in until:
                signal = self.steps[state](self)
                if type(signal) is not str:
                    signal = await signal
                if self._stopped:
                    raise asyncio.CancelledError  # noqa: TRY301 - the step ignored the cancellation
                self._state = self.transitions[state][signal]
        except asyncio.CancelledError:
            self._end("cancelled", "the call was cancelled")
            # A pending cancellation is the call's as well: a tool may cancel its own task.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        except (*EXITS, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - raised when the call has its answer
            self.error = error
            self._break_off(error)
        finally:
            self._task = None
            # The cancellation was the call's; the next work of the same task is not cancelled.
            while task is not None and task.cancelling():
                task.uncancel()

    def stop(self) -> None:
        """Cancel the call; no later step is taken."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    def leave_behind(self) -> bool:
        """End the call as cancelled although `advance` goes on; return False if it has ended.

        This is for a tool or a handler that ignores its cancellation.
        """
        if self.has_ended:
            return False
        self._end("cancelled", "the call was cancelled")
        self.is_left_behind = True
        return True

    def _end(self, status: ToolStatus, text: str, error_type: str = "") -> None:
        """End the call from outside the table, unless it was left behind."""
        if self.is_left_behind:
            return
        self._response = failure(text, error_type or status)
        self._state = status

    def _break_off(self, error: BaseException) -> None:
        """End the call because a handler raised *error*; the tool's effect is not undone."""
        if self._state in {"failed", "overdue"}:
            self._state = self.transitions[self._state]["settled"]
            return
        blame = f"handler {error.handler!r}" if isinstance(error, HandlerError) else "a handler"
        self._end("denied", f"{blame} failed, and the call with it", type(error).__name__)

    # --- other ways to an end, and the outcome -------------------------------------------------

    def refuse(self, reason: str) -> None:
        """End the call as denied, before its tool runs."""
        self._end("denied", reason)

    def interrupt(self) -> None:
        """End the call as left open by a former process."""
        text = "the call was interrupted, and may have had effects; it was not run again"
        self._end("interrupted", text)

    def restore(self, ended: ToolCallOutcome) -> None:
        """End the call as it has *ended* before, when its message could not be appended."""
        self.call, self.executed = ended.executed or self.requested, ended.executed
        self._tool, self._attempts = self._look_up(self.call.name), ended.attempts
        self._started -= ended.duration_ns
        self._response = ended.response
        self._state = ended.status

    def resume(self, executed: ToolCall, response: ToolResponse) -> None:
        """Go on after the tool has run in another process: *executed* is the call as it ran."""
        self.call = self.executed = executed
        self._tool, self._attempts = self._look_up(executed.name), 1
        self._response = response
        self._state = self.transitions["running"]["failed" if response.is_error else "returned"]

    @property
    def has_ended(self) -> bool:
        """Whether the call is at an end of the table."""
        return self._state in ENDS

    @property
    def spec(self) -> ToolSpec | None:
        """The tool's spec; None if the caller has no such tool."""
        if self.executed is not None:
            return None if self._tool is None else self._tool.spec
        if self._state == "answered":
            tool = self._runner.toolset.get(self.call.name)
        else:
            tool = self._look_up(self.requested.name)
        return tool.spec if tool else None

    @property
    def outcome(self) -> ToolCallOutcome:
        """The end of the call; the response carries the facts of the execution."""
        duration = max(1, self._runner.clock() - self._started)
        # The call as it ran, as a handler answered it, or as it was requested.
        shown = self.executed or (self.call if self._state == "answered" else self.requested)
        return ToolCallOutcome(
            requested=self.requested,
            executed=self.executed,
            response=replace_unchecked(
                self._response,
                tool_name=shown.name,
                tool_call_id=shown.id,
                parameters=shown.arguments,
                duration_ns=duration,
            ),
            status=self._state,
            attempts=self._attempts,
            duration_ns=duration,
            pending=self._pending,
        )

    # --- the steps -----------------------------------------------------------------------------

    def _fail(self, signal: Signal, text: str, error_type: str) -> Signal:
        self._response = failure(text, error_type)
        return signal

    def _judge(self) -> Signal | Awaitable[Signal]:
        runner, advertised = self._runner, self._advertised
        spec = advertised.specs.get(self.call.name) if advertised else None
        if spec or not advertised:
            self.call = runner.check.converted(self.call, spec)
        if runner.bus.has_listeners(TOOL_CALL_BEFORE):
            return self._pass_handlers(spec)
        return self._allow()

    async def _pass_handlers(self, spec: ToolSpec | None) -> Signal:
        runner, advertised = self._runner, self._advertised
        tool = runner.toolset.get(self.call.name)
        context = await runner.bus.apply(
            TOOL_CALL_BEFORE,
            self.call,
            scope=runner.scope,
            tool=spec or (tool.spec if tool else None),
            check=runner.check,
            signatures=advertised.spec_for if advertised else None,
        )
        self.call, self._answer = context.value, context.answer
        # From the steps: senders, predicates and switches apply to fillers as to handlers.
        self._fillers = tuple(
            [
                step.actor
                for step in context.steps
                if isinstance(step.actor, ArgumentsFiller) and step.actor.fills
            ]
        )
        if context.ends(judging=True):
            return self._refused(context)
        if asked := context.asked:
            return self._asked(asked, context)
        signal = self._allow()
        return signal if isinstance(signal, str) else await signal

    def _refused(self, context: EventContext[ToolCall]) -> Signal:
        if rejected := context.rejected:
            text = f"handler {rejected.handler!r} made the arguments invalid: {rejected.reason}"
            return self._fail("rejected", text, "invalid_arguments")
        return self._fail("denied", context.denied.reason if context.denied else "", "denied")

    def _asked(self, ask: Ask, _: EventContext[ToolCall]) -> Signal:
        """Deny the call: without a gate no person can be asked."""
        return self._fail("denied", deny_without_approver(ask).reason, "denied")

    def _allow(self) -> Signal | Awaitable[Signal]:
        """Let the call continue: every guard has allowed it without a question."""
        if self._answer is None:
            return "allowed"
        self._response = self._answer
        return "answered"

    def _find(self) -> Signal | Awaitable[Signal]:
        """Look up the tool, and validate the arguments as the tool gets them."""
        self._tool = self._look_up(self.call.name)
        if self._tool is not None:
            return self._validate()
        names = [spec.name for spec in self._runner.toolset.specs if self._look_up(spec.name)]
        text = f"no tool named {self.call.name!r}; known tools: {', '.join(names) or 'none'}"
        return self._fail("unknown", text, "unknown_tool")

    def _validate(self) -> Signal | Awaitable[Signal]:
        """Validate the arguments; fillers first add the values for the tool alone."""
        return self._fill_in() if self._fillers else self._fit(self.call)

    async def _fill_in(self) -> Signal:
        filled = await self._filled(cast("Tool", self._tool))
        if isinstance(filled, Deny):
            return self._fail("denied", filled.reason, "denied")
        return self._fit(filled)

    async def _filled(self, tool: Tool) -> ToolCall | Deny:
        """Return the call as *tool* gets it, filled by each filler in turn."""
        call = self.call
        for filler in self._fillers:
            filled = await filler.fill(call, self._runner.scope, tool.spec)
            if isinstance(filled, Deny):
                return filled
            call = filled
        return call

    def _fit(self, call: ToolCall) -> Signal:
        self._values, problem = fitted(self._tool, call)
        if problem is None:
            return "valid"
        if call is not self.call:
            # The problem may quote the filled-in values.
            problem = fitted(self._tool, self.call)[1] or "the filled-in arguments do not fit"
        return self._fail("invalid", f"invalid arguments: {problem}", "invalid_arguments")

    async def _run(self) -> Signal:
        tool = cast("Tool", self._tool)
        self._attempts += 1
        self.executed = self.call
        if self._attempts > 1 and not await self._is_still_valid():
            return "failed"
        is_continued = self._continued and self._attempts == 1
        context = partial(self._runner.context_of, self.call, continued=is_continued)
        function = tool.bind(self._values, context)
        try:
            if tool.is_async and tool.timeout is None:
                ending = await end_of(function)
                if self.is_left_behind:
                    log_late(_name_of(tool))
                if self._task is not None and self._task.cancelling():
                    await _raise_missed_cancellation(self._task)
            else:
                ending = await execute(
                    _name_of(tool), function, is_async=tool.is_async, seconds=tool.timeout
                )
        except DeadlineError as error:
            return self._fail("timed_out", f"the tool {error}", "timeout")
        return self._record_ending(ending)

    async def _is_still_valid(self) -> bool:
        """Validate the arguments again: the tool's first run may have changed them."""
        signal = self._validate()
        return (signal if isinstance(signal, str) else await signal) == "valid"

    def _record_ending(self, ending: Ending) -> Signal:
        self._response = ending.response
        return "failed" if self._response.is_error else "returned"

    async def _recover(self) -> Signal:
        runner, outcome = self._runner, self.outcome
        failed = ToolCallFailure(
            call=outcome.executed or outcome.requested,
            response=outcome.response,
            error_type=outcome.response.error_type or "error",
            error_text=outcome.response.text,
            attempts=outcome.attempts,
        )
        context = await runner.bus.apply(
            TOOL_CALL_ERROR, failed, scope=runner.scope, tool=self.spec
        )
        if context.denied is not None:
            return "settled"
        match context.answer:
            case ToolResponse() as fallback:
                self._response = fallback
            case Retry(delay=delay) if self._may_retry():
                await asyncio.sleep(delay)
                return "again"
            case _:
                self._response = context.value.response
        return "settled"

    def _may_retry(self) -> bool:
        """Return whether the tool may run again; log a reason against it."""
        tool, reason = self._tool, f"{self._attempts} attempts were made"
        if tool is None:
            return False
        if not tool.idempotent:
            reason = "it is not marked idempotent"
        elif self._attempts < self._runner.max_attempts:
            return True
        logger.warning("no retry of tool %r: %s", tool.spec.name, reason)
        return False

    def _look_up(self, name: str) -> Tool | None:
        """Return the tool *name*, if the caller was offered it."""
        if self._advertised is not None and name not in self._advertised.specs:
            return None
        return self._runner.toolset.get(name)

    steps: ClassVar[Mapping[State, Callable[[Any], Any]]] = {
        "requested": _judge,
        "permitted": _find,
        "running": _run,
        "failed": _recover,
        "overdue": _recover,
    }


def _name_of(tool: Tool) -> str:
    """Return the name of *tool* for the log."""
    return f"tool {tool.spec.name!r}"


async def _raise_missed_cancellation(task: asyncio.Task[Any]) -> None:
    """Raise `CancelledError` if a tool has cancelled its own *task*, and has not seen that yet.

    The count alone is not enough: a task group of Python 3.11 leaves it above 0 afterwards.
    """
    await asyncio.sleep(0)
    while task.cancelling():
        task.uncancel()
