"""One tool call on its way through the table of states."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from toolbus.dispatch.deadlines import in_thread, within
from toolbus.errors import DeadlineError
from toolbus.events import (
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    Ask,
    Retry,
    ToolCallFailure,
    ToolCallOutcome,
)
from toolbus.immutable import escape_surrogates
from toolbus.lifecycle.offers import ArgumentsCheck
from toolbus.lifecycle.table import ENDS, TRANSITIONS
from toolbus.messages import ToolResponse
from toolbus.tools import ToolContext, to_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from concurrent.futures import Future

    from toolbus.bus import EventBus
    from toolbus.events import Scope, ToolSpec, ToolStatus
    from toolbus.lifecycle.approvals import Approvals
    from toolbus.lifecycle.offers import Offer
    from toolbus.lifecycle.table import Signal, State
    from toolbus.messages import JsonObject, ToolCall
    from toolbus.tools import Progress, Tool, Toolset

logger = logging.getLogger("toolbus")


class Means:
    """What all calls of one runner share."""

    def __init__(
        self,
        bus: EventBus,
        toolset: Toolset,
        scope: Scope,
        approvals: Approvals,
        *,
        max_attempts: int,
        progress: Progress,
        nested: Callable[[str, JsonObject], Awaitable[ToolResponse]],
        clock: Callable[[], int],
    ) -> None:
        self.bus, self.toolset, self.scope, self.approvals = bus, toolset, scope, approvals
        self.max_attempts, self.progress, self.nested = max_attempts, progress, nested
        self.check, self.clock = ArgumentsCheck(toolset), clock


class CallInProgress:
    """One call: `walk` takes it to its end, `outcome` tells what became of it.

    *earlier* are the `passed` events of the calls before it; *error* is what a handler with the
    policy "raise" raised, for the caller to raise when every call has its answer.
    """

    def __init__(
        self,
        requested: ToolCall,
        means: Means,
        offer: Offer | None,
        earlier: Sequence[asyncio.Event] = (),
    ) -> None:
        self.requested = self.call = requested
        self.executed: ToolCall | None = None
        self.error: Exception | None = None
        self.passed = asyncio.Event()
        self.spec: ToolSpec | None = None
        self._means, self._offer, self._earlier = means, offer, earlier
        self._state: State | ToolStatus = "requested"
        self._response = ToolResponse()
        self._answer: ToolResponse | None = None
        self._ask = Ask("")
        self._tool: Tool | None = None
        self._attempts, self._started = 0, means.clock()

    async def walk(self) -> None:
        """Take every step until an end is reached."""
        try:
            while self._state not in ENDS:
                state = cast("State", self._state)
                signal = await _STEPS[state](self)
                self._state = TRANSITIONS[state][signal]
        except Exception as error:  # noqa: BLE001 - it is raised when the call has its answer
            self.error = error
            self._fail("a handler failed, and the call with it", "HandlerError")
            self._state = "denied" if self.executed is None else "error"
        finally:
            self.passed.set()

    def cancel(self) -> None:
        """End it where it stands."""
        self._fail("the call was cancelled", "cancelled")
        self._state = "cancelled"

    def interrupt(self) -> None:
        """End it as one that a former process began, perhaps ran, and never answered."""
        self._fail(
            "the call was interrupted, and may have had effects; it was not run again",
            "interrupted",
        )
        self._state = "interrupted"

    @property
    def outcome(self) -> ToolCallOutcome:
        """What became of it; the response carries the facts of the execution."""
        duration = max(1, self._means.clock() - self._started)
        shown = self.executed or self.requested
        return ToolCallOutcome(
            requested=self.requested,
            executed=self.executed,
            response=replace(
                self._response,
                tool_name=shown.name,
                tool_call_id=shown.id,
                parameters=shown.arguments,
                duration_ns=duration,
            ),
            status=cast("ToolStatus", self._state),
            attempts=self._attempts,
            duration_ns=duration,
        )

    async def _judge(self) -> Signal:
        means, offer = self._means, self._offer
        tool = means.toolset.get(self.call.name)
        spec = offer.specs.get(self.call.name) if offer else None
        context = await means.bus.apply(
            TOOL_CALL_BEFORE,
            self.requested,
            scope=means.scope,
            tool=spec or (tool.spec if tool else None),
            check=means.check,
            signatures=offer.given if offer else None,
        )
        self.call, self._answer = context.value, context.answer
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
        means = self._means
        refusal = await means.approvals.refusal(self._ask, self.call, means.scope, self._earlier)
        if refusal is not None:
            self._fail(refusal.reason, "denied")
            return "denied"
        return self._allowed()

    def _allowed(self) -> Signal:
        self.passed.set()
        if self._answer is None:
            return "allowed"
        self._response = self._answer
        return "answered"

    async def _find(self) -> Signal:
        name, offered = self.call.name, self._offer
        if offered is None or name in offered.specs:
            self._tool = self._means.toolset.get(name)
        if self._tool is not None:
            self.spec = self._tool.spec
            return "known"
        known = [one.spec.name for one in self._means.toolset]
        known = [one for one in known if offered is None or one in offered.specs]
        text = f"no tool named {name!r}; known tools: {', '.join(known) or 'none'}"
        self._fail(text, "unknown_tool")
        return "unknown"

    async def _validate(self) -> Signal:
        problem = self._means.check.problem(self.call)
        if problem is None:
            return "valid"
        self._fail(f"invalid arguments: {problem}", "invalid_arguments")
        return "invalid"

    async def _run(self) -> Signal:
        self._attempts += 1
        self.executed = self.call
        try:
            self._response = to_response(await self._execute())
        except DeadlineError as error:
            self._fail(f"the tool {error}", "timeout")
            return "timed_out"
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            self._fail_with(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool's failure is data
            self._fail_with(error)
        return "failed" if self._response.is_error else "returned"

    async def _execute(self) -> Any:
        tool, means = cast("Tool", self._tool), self._means
        context = ToolContext(means.scope, self.call.id, means.nested, means.progress)
        function = tool.bind(self.call.arguments, context)
        if tool.is_async:
            return await within(tool.timeout, function())
        return await in_thread(function, seconds=tool.timeout, stuck=Late(self.call.name))

    async def _recover(self) -> Signal:
        tool, means = cast("Tool", self._tool), self._means
        failure = ToolCallFailure(
            call=self.call,
            response=self.outcome.response,
            error_type=self._response.error_type or "error",
            error_text=self._response.text,
            attempts=self._attempts,
        )
        context = await means.bus.apply(
            TOOL_CALL_ERROR, failure, scope=means.scope, tool=tool.spec
        )
        match context.answer:
            case ToolResponse() as fallback if context.denied is None:
                self._response = fallback
            case Retry(delay=delay) if context.denied is None:
                if tool.idempotent and self._attempts < means.max_attempts:
                    await asyncio.sleep(delay)
                    return "again"
                logger.warning(
                    "no retry of tool %r: %s",
                    tool.spec.name,
                    f"{self._attempts} attempts were made"
                    if tool.idempotent
                    else "it is not marked idempotent",
                )
            case _ if context.denied is None:
                self._response = context.value.response
        return "settled"

    def _fail(self, text: str, error_type: str) -> None:
        self._response = ToolResponse.from_text(text, is_error=True, error_type=error_type)

    def _fail_with(self, error: BaseException) -> None:
        text = escape_surrogates(str(error))
        self._fail(text or type(error).__name__, type(error).__name__)


class Late:
    """Says so when a tool that nobody waits for any more comes to its end."""

    def __init__(self, name: str) -> None:
        self._name = name

    def watch(self, work: Future[Any]) -> None:
        """Log the end of *work*, whose result is dropped."""
        work.add_done_callback(
            lambda _: logger.warning("tool %r ended too late; its result is dropped", self._name)
        )


_STEPS: dict[State, Callable[[CallInProgress], Awaitable[Signal]]] = {
    "requested": CallInProgress._judge,
    "asking": CallInProgress._ask_person,
    "permitted": CallInProgress._find,
    "known": CallInProgress._validate,
    "running": CallInProgress._run,
    "failed": CallInProgress._recover,
    "overdue": CallInProgress._recover,
}


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
