"""One tool call on its way through the table of states."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, cast

from toolbus.errors import DeadlineError, HandlerError
from toolbus.events.catalogue import (
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    Ask,
    Deny,
    Retry,
    ToolCallOutcome,
)
from toolbus.messages.fields import with_sound
from toolbus.messages.records import ToolResponse
from toolbus.tasks.shielding import EXITS
from toolbus.tools.calls.execution import execute, failure
from toolbus.tools.calls.filling import fill, fillers_of, fit_filled
from toolbus.tools.calls.recovery import failure_of, may_retry
from toolbus.tools.calls.table import ENDS, TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from toolbus.events.catalogue import ToolSpec, ToolStatus
    from toolbus.messages.records import ToolCall
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.calls.environment import CallEnvironment
    from toolbus.tools.calls.filling import ArgumentsFiller
    from toolbus.tools.calls.table import Signal, State
    from toolbus.tools.definitions import Tool

_NO_RESPONSE, _NO_QUESTION = ToolResponse(), Ask("")


class CallInProgress:
    """One call: `walk` takes it to its end, `outcome` tells what became of it.

    *passed* is set once it asks nobody any more, *earlier* are those of the calls before it;
    *error* is what a handler with the policy "raise" raised, for the caller to raise when every
    call has its answer.
    """

    def __init__(
        self,
        requested: ToolCall,
        environment: CallEnvironment,
        advertised: AdvertisedTools | None,
        *,
        passed: asyncio.Event | None = None,
        earlier: Sequence[asyncio.Event] = (),
    ) -> None:
        self.requested = self.call = requested
        self.executed: ToolCall | None = None
        self.error: BaseException | None = None
        self._environment, self._advertised = environment, advertised
        self._passed, self._earlier = passed, earlier
        self._state: State | ToolStatus = "requested"
        self._response = _NO_RESPONSE
        self._answer: ToolResponse | None = None
        self._ask = _NO_QUESTION
        self._tool: Tool | None = None
        self._values: dict[str, Any] = {}
        self._fillers: tuple[ArgumentsFiller, ...] = ()
        self._attempts, self._started = 0, environment.clock()
        self._walker: asyncio.Task[Any] | None = None
        self._stopped = self._again = False

    async def walk(self) -> None:
        """Take every step until an end is reached; stopped, it ends as cancelled."""
        task = self._walker = asyncio.current_task()
        try:
            if self._stopped and self._state not in ENDS:
                raise asyncio.CancelledError  # noqa: TRY301 - it was stopped before it began
            while self._state not in ENDS:
                state = cast("State", self._state)
                signal = self._steps[state](self)
                if not isinstance(signal, str):
                    signal = await signal
                self._state = TRANSITIONS[state][signal]
        except asyncio.CancelledError:
            self._fail("the call was cancelled", "cancelled")
            self._state = "cancelled"
        except (*EXITS, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised when the call has its answer
            self.error = error
            self._break_off(error)
        finally:
            self._walker = None
            self._pass()
            # What the task does next is none of the call's: there it is one that nobody cancelled.
            while task is not None and task.cancelling():
                task.uncancel()

    def stop(self) -> None:
        """Cancel it until its walk has ended; what comes after that is not reached."""
        self._stopped = True
        if self._walker is not None:
            self._walker.cancel()

    def interrupt(self, *, again: bool = False) -> None:
        """End it as one that was left open; *again*: a former process may have told of it."""
        self._again = again
        text = "the call was interrupted, and may have had effects; it was not run again"
        self._fail(text, "interrupted")
        self._state = "interrupted"

    @property
    def spec(self) -> ToolSpec | None:
        """What its tool says of itself; None if the caller knows no such tool."""
        if self.executed is not None:
            return cast("Tool", self._tool).spec
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
            again=self._again,
        )

    async def _judge(self) -> Signal:
        environment, advertised = self._environment, self._advertised
        spec = advertised.specs.get(self.call.name) if advertised else None
        if spec or not advertised:
            self.call = environment.check.converted(self.call, spec)
        if not environment.bus.hears(TOOL_CALL_BEFORE):
            return self._allowed()
        tool = environment.toolset.get(self.call.name)
        context = await environment.bus.apply(
            TOOL_CALL_BEFORE,
            self.call,
            scope=environment.scope,
            tool=spec or (tool.spec if tool else None),
            check=environment.check,
            signatures=advertised.spec_for if advertised else None,
        )
        self.call, self._answer = context.value, context.answer
        self._fillers = fillers_of(context) if context.steps else ()
        if context.rejected:
            blame, reason = context.rejected.handler, context.rejected.reason
            self._fail(f"handler {blame!r} broke the arguments: {reason}", "invalid_arguments")
            return "rejected"
        if context.denied:
            self._fail(context.denied.reason, "denied")
            return "denied"
        if context.asked:
            self._ask = context.asked
            return "asked"
        return self._allowed()

    async def _ask_person(self) -> Signal:
        scope, approvals = self._environment.scope, self._environment.approvals
        refusal = await approvals.refusal(self._ask, self.call, scope, self._earlier)
        if refusal is not None:
            self._fail(refusal.reason, "denied")
            return "denied"
        return self._allowed()

    def _pass(self) -> None:
        if self._passed is not None:
            self._passed.set()

    def _allowed(self) -> Signal:
        self._pass()
        if self._answer is None:
            return "allowed"
        self._response = self._answer
        return "answered"

    def _find(self) -> Signal:
        self._tool = self._look_up(self.call.name)
        if self._tool is not None:
            return "known"
        names = [spec.name for spec in self._environment.toolset.specs if self._look_up(spec.name)]
        text = f"no tool named {self.call.name!r}; known tools: {', '.join(names) or 'none'}"
        self._fail(text, "unknown_tool")
        return "unknown"

    def _validate(self) -> Signal | Awaitable[Signal]:
        return self._fill() if self._fillers else self._fit(self.call)

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
        context = self._environment.context_of(self.call)
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
        self._response = ending.response
        return "failed" if self._response.is_error else "returned"

    async def _is_still_valid(self) -> bool:
        signal = self._validate()
        return (signal if isinstance(signal, str) else await signal) == "valid"

    async def _recover(self) -> Signal:
        tool, environment = cast("Tool", self._tool), self._environment
        failed = failure_of(self.outcome)
        bus, scope = environment.bus, environment.scope
        context = await bus.apply(TOOL_CALL_ERROR, failed, scope=scope, tool=tool.spec)
        if context.denied is not None:
            return "settled"
        match context.answer:
            case ToolResponse() as fallback:
                self._response = fallback
            case Retry(delay=delay) if may_retry(tool, self._attempts, environment.max_attempts):
                await asyncio.sleep(delay)
                return "again"
            case _:
                self._response = context.value.response
        return "settled"

    def _look_up(self, name: str) -> Tool | None:
        """Return the tool *name*, if it was offered to whoever calls."""
        if self._advertised is not None and name not in self._advertised.specs:
            return None
        return self._environment.toolset.get(name)

    def _break_off(self, error: BaseException) -> None:
        """End it because a handler raised *error*; what the tool did stands."""
        if self._state in {"failed", "overdue"}:
            self._state = TRANSITIONS[cast("State", self._state)]["settled"]
            return
        blame = f"handler {error.handler!r}" if isinstance(error, HandlerError) else "a handler"
        self._fail(f"{blame} failed, and the call with it", type(error).__name__)
        self._state = "denied"

    def _fail(self, text: str, error_type: str) -> None:
        self._response = failure(text, error_type)

    _steps: ClassVar[dict[State, Callable[[CallInProgress], Signal | Awaitable[Signal]]]] = {
        "requested": _judge,
        "asking": _ask_person,
        "permitted": _find,
        "known": _validate,
        "running": _run,
        "failed": _recover,
        "overdue": _recover,
    }
