"""One tool call on its way through the table of states."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, cast

from toolbus.errors import DeadlineError
from toolbus.events.catalogue import (
    TOOL_CALL_ERROR,
    Deny,
    Retry,
    ToolCallOutcome,
)
from toolbus.messages.fields import with_sound
from toolbus.messages.records import ToolResponse
from toolbus.tools.calls.approvals import PERMIT, ApprovalPendingError
from toolbus.tools.calls.call_judging import CallJudging
from toolbus.tools.calls.execution import execute
from toolbus.tools.calls.filling import fill, fit_filled
from toolbus.tools.calls.recovery import failure_of, may_retry
from toolbus.tools.calls.table import TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from toolbus.events.call_values import ToolStatus
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.calls.environment import CallEnvironment
    from toolbus.tools.calls.table import Signal, State
    from toolbus.tools.definitions import Tool


class CallInProgress(CallJudging):
    """One call: `walk` takes it to its end, `outcome` tells what became of it.

    The tool of one may run elsewhere, out of reach: `walk` stops where it is `PERMITTED`, and
    perhaps in another process another one takes the `resume` of what came back to its end.
    """

    def __init__(
        self,
        requested: ToolCall,
        environment: CallEnvironment,
        advertised: AdvertisedTools | None,
        *,
        passed: asyncio.Event | None = None,
        earlier: Sequence[asyncio.Event] = (),
        stays_open: bool = False,
        continued: bool = False,
    ) -> None:
        super().__init__(
            requested,
            environment,
            advertised,
            passed=passed,
            earlier=earlier,
            stays_open=stays_open,
            continued=continued,
        )
        self.executed: ToolCall | None = None
        self._tool: Tool | None = None
        self._values: dict[str, Any] = {}
        self._attempts, self._started = 0, environment.clock()

    def interrupt(self) -> None:
        """End it as one that was left open."""
        text = "the call was interrupted, and may have had effects; it was not run again"
        self._fail(text, "interrupted")
        self._state = "interrupted"

    def restore(self, ended: ToolCallOutcome) -> None:
        """End it as it has *ended* before, when its message could not be written."""
        self.call, self.executed = ended.executed or self.requested, ended.executed
        self._tool, self._attempts = self._look_up(self.call.name), ended.attempts
        self._started -= ended.duration_ns
        self._response, self._state = ended.response, ended.status

    def resume(self, executed: ToolCall, response: ToolResponse) -> None:
        """Go on behind the run of a tool out of reach: *executed* is what ran there."""
        self.call = self.executed = executed
        self._tool, self._attempts = self._look_up(executed.name), 1
        self._response = response
        self._state = TRANSITIONS["running"]["failed" if response.is_error else "returned"]

    @property
    def spec(self) -> ToolSpec | None:
        """What its tool says of itself; None if the caller knows no such tool."""
        if self.executed is not None:
            return None if self._tool is None else self._tool.spec
        if self._state == "answered":
            tool = self._environment.toolset.get(self.call.name)
        else:
            tool = self._look_up(self.requested.name)
        return tool.spec if tool else None

    @property
    def _answered_for(self) -> ToolCall:
        """The call whose result it is: as it ran, as a handler answered it, or as requested."""
        if self.executed is not None:
            return self.executed
        return self.call if self._state == "answered" else self.requested

    @property
    def outcome(self) -> ToolCallOutcome:
        """What became of it; the response carries the facts of the execution."""
        duration = max(1, self._environment.clock() - self._started)
        shown = self._answered_for
        return ToolCallOutcome(
            requested=self.requested,
            executed=self.executed,
            response=with_sound(
                self._response,
                tool_name=shown.name,
                tool_call_id=shown.id,
                parameters=shown.arguments,
                duration_ns=duration,
            ),
            status=cast("ToolStatus", self._state),
            attempts=self._attempts,
            duration_ns=duration,
            pending=self._pending,
        )

    def _find(self) -> Signal:
        self._tool = self._look_up(self.call.name)
        if self._tool is not None:
            return "known"
        names = [spec.name for spec in self._environment.toolset.specs if self._look_up(spec.name)]
        text = f"no tool named {self.call.name!r}; known tools: {', '.join(names) or 'none'}"
        self._fail(text, "unknown_tool")
        return "unknown"

    def _validate(self) -> Signal | Awaitable[Signal]:
        if self.permit is not PERMIT:
            return self._take()
        return self._fill() if self._fillers else self._fit(self.call)

    async def _take(self) -> Signal:
        """Make ready, and use up the approval: the last step before the tool runs.

        Run once more, it is compared with the approval once more.
        """
        refusal = self.hold()
        if refusal is None:
            signal = await self._fill() if self._fillers else self._fit(self.call)
            if signal != "valid" or (refusal := await self.take_permit(self._tool)) is None:
                return signal
        self._fail(refusal.reason, "denied")
        return "denied"

    async def _fill(self) -> Signal:
        """Let fillers put in what the tool alone gets, and validate that."""
        spec = cast("Tool", self._tool).spec
        filled = await fill(self._fillers, self.call, self._environment.scope, spec)
        if not isinstance(filled, Deny):
            return self._fit(filled)
        self._fail(filled.reason, "denied")
        return "denied"

    def _fit(self, call: ToolCall) -> Signal:
        self._values, problem = fit_filled(self._environment.check, call, self.call)
        if problem is None:
            return "valid"
        self._fail(f"invalid arguments: {problem}", "invalid_arguments")
        return "invalid"

    async def _run(self) -> Signal:
        tool = cast("Tool", self._tool)
        self._attempts += 1
        self.executed = self.call
        # What it got the first time it may have changed.
        if self._attempts > 1 and not await self._is_still_valid():
            return "failed"
        is_continued = self._continued and self._attempts == 1
        context = self._environment.context_of(self.call, continued=is_continued)
        try:
            ending = await execute(
                f"tool {tool.spec.name!r}",
                tool.bind(self._values, context),
                is_async=tool.is_async,
                seconds=tool.timeout,
                in_place=tool.in_place,
            )
        except DeadlineError as error:
            self._fail(f"the tool {error}", "timeout")
            return "timed_out"
        if isinstance(ending.error, ApprovalPendingError):
            self._pending = ending.error.pending
            self._fail(str(ending.error), "pending")
            return "waits"
        self._response = ending.response
        return "failed" if self._response.is_error else "returned"

    async def _is_still_valid(self) -> bool:
        signal = self._validate()
        return (signal if isinstance(signal, str) else await signal) == "valid"

    async def _recover(self) -> Signal:
        environment, failed = self._environment, failure_of(self.outcome)
        bus, scope = environment.bus, environment.scope
        context = await bus.apply(TOOL_CALL_ERROR, failed, scope=scope, tool=self.spec)
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
        attempts, limit = self._attempts, self._environment.max_attempts
        return self._tool is not None and may_retry(self._tool, attempts, limit)

    def _look_up(self, name: str) -> Tool | None:
        """Return the tool *name*, if it was offered to whoever calls."""
        if self._advertised is not None and name not in self._advertised.specs:
            return None
        return self._environment.toolset.get(name)

    steps: ClassVar[Mapping[State, Callable[[Any], Signal | Awaitable[Signal]]]] = {
        **CallJudging.steps,
        "permitted": _find,
        "known": _validate,
        "running": _run,
        "failed": _recover,
        "overdue": _recover,
    }
