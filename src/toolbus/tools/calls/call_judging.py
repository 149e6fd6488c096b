"""The first half of a call's way: judged by handlers and by a person, until its tool may run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, cast

from toolbus.errors import FreezeError, HandlerError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Ask, Deny
from toolbus.messages.records import ToolResponse
from toolbus.tasks.shielding import EXITS
from toolbus.tools.calls.approvals import (
    CHANGED_CALL,
    PERMIT,
    ApprovalRequest,
    Pending,
    copy_of,
)
from toolbus.tools.calls.execution import failure
from toolbus.tools.calls.filling import changed_paths, fill, fillers_of
from toolbus.tools.calls.table import ENDS, TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from toolbus.events.call_values import ToolStatus
    from toolbus.messages.records import ToolCall
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.calls.environment import CallEnvironment
    from toolbus.tools.calls.filling import ArgumentsFiller
    from toolbus.tools.calls.table import Signal, State
    from toolbus.tools.definitions import Tool

PERMITTED, ASKED = "permitted", "asking"
"""Where to stop before a tool that runs elsewhere; and where a person is asked elsewhere, too."""

_NO_RESPONSE, _NO_QUESTION = ToolResponse(), Ask("")


class CallJudging:
    """One call on its way through the table of states, from where it was requested.

    *passed* is set once it asks nobody any more, *earlier* are those of the calls before it; one
    that *stays_open* has no answer while it is pending;
    *waits* is set once it waits for a person;
    *error* is what a handler with the policy "raise" raised, for the caller to raise when every
    call has its answer. *continued* says that it began before, and goes on.
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
        self.requested = self.call = requested
        self.error: BaseException | None = None
        self._environment, self._advertised = environment, advertised
        self._passed, self._earlier = passed, earlier
        self._stays_open, self._continued = stays_open, continued
        self._state: State | ToolStatus = "requested"
        self._response = _NO_RESPONSE
        self._answer: ToolResponse | None = None
        self._ask = _NO_QUESTION
        self._pending: tuple[str, ...] = ()
        self._askers: tuple[str, ...] = ()
        self.permit = PERMIT
        self._is_judged_again = False
        self._fillers: tuple[ArgumentsFiller, ...] = ()
        self.waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._walker: asyncio.Task[Any] | None = None
        self._stopped = False

    async def walk(self, until: Collection[str] = ()) -> None:
        """Take every step until an end is reached, or a state of *until*.

        Stopped, it ends as cancelled.
        """
        task = self._walker = asyncio.current_task()
        try:
            if self._stopped and not self.has_ended:
                raise asyncio.CancelledError  # noqa: TRY301 - it was stopped before it began
            while not (self.has_ended or self._state in until):
                state = cast("State", self._state)
                signal = self.steps[state](self)
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

    def refuse(self, reason: str) -> None:
        """End it as denied, before its tool ran: where that would run, it cannot run like this."""
        self._fail(reason, "denied")
        self._state = TRANSITIONS["known"]["denied"]

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing more to walk."""
        return self._state in ENDS

    @property
    def is_left_open(self) -> bool:
        """Whether it waits for a person, and is called again under its id."""
        return self._stays_open and self._state == "pending"

    @property
    def question(self) -> Ask | None:
        """What a person is to be asked before its tool may run; None if there is no question.

        Nor is it for others to ask where a handler has an answer in place of the tool's.
        """
        return self._ask if self._state == "asking" and self._answer is None else None

    async def approval_request(self) -> ApprovalRequest | Deny:
        """Return what a person is to be asked, or why nobody can be."""
        tool = self._environment.toolset.get(self.call.name)
        filled = await self._fillable()
        if isinstance(filled, Deny):
            return filled
        return ApprovalRequest(
            self._ask,
            self.call,
            self._environment.scope,
            self._environment.bus,
            requested=self.requested,
            guards=self._askers,
            earlier=self._earlier,
            filled=filled,
            stays_open=self._stays_open,
            continued=self._continued,
            tool=tool.spec if tool else None,
        )

    async def _judge(self) -> Signal:
        environment, advertised = self._environment, self._advertised
        spec = advertised.specs.get(self.call.name) if advertised else None
        if spec or not advertised:
            self.call = environment.check.converted(self.call, spec)
        if not environment.bus.hears(TOOL_CALL_BEFORE):
            return await self._unasked()
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
            self._ask, self._askers = context.asked, context.askers
            return "asked"
        return await self._unasked()

    async def _ask_person(self) -> Signal:
        asked = await self.approval_request()
        if isinstance(asked, Deny):
            self._fail(asked.reason, "denied")
            return "denied"
        if not self.waits.done():
            self.waits.set_result(None)
        decision = await self._environment.approvals.decide(asked)
        if isinstance(decision, Pending):
            self._pending = (decision.question_id,)
            self._fail(decision.text, "pending")
            return "waits"
        if not isinstance(decision, Deny):
            if decision.question_id != self.permit.question_id:
                await self.permit.end()
            self.permit = decision
            if decision.came_later and not self._is_judged_again:
                # Once: what a handler makes anew each time would be asked about for ever.
                self._is_judged_again, self.call = True, self.requested
                return "approved"
            # An answer in place of the tool's is all the effect that there is.
            tool = self._environment.toolset.get(self.call.name)
            refusal = None if self._answer is None else await self.take_permit(tool)
            if refusal is None:
                return self._allowed()
            decision = refusal
        self._fail(decision.reason, "denied")
        return "denied"

    def hold(self) -> Deny | None:
        """Go on with a copy of the call that no handler has, for the yes is compared with that.

        Return why it cannot run: a handler may have changed the arguments in place.
        """
        try:
            self.call = copy_of(self.call)
        except FreezeError as error:
            return Deny(CHANGED_CALL.reason, str(error))
        return None

    async def take_permit(self, tool: Tool | None) -> Deny | None:
        """Use up the yes to the call, for *tool*; return why it may not run after all."""
        return await self.permit.take(self.call, None if tool is None else tool.spec)

    async def _fillable(self) -> tuple[str, ...] | Deny:
        """Return which arguments its tool gets otherwise than they stand here, or why it gets none.

        It matters only to who is asked now and runs it later, perhaps in another process.
        """
        environment = self._environment
        tool = environment.toolset.get(self.call.name)
        if tool is None or self._answer is not None or environment.approvals.store is None:
            return ()
        filled = await fill(self._fillers, self.call, environment.scope, tool.spec)
        if isinstance(filled, Deny):
            return filled
        return tuple(changed_paths(self.call.arguments, filled.arguments))

    def _pass(self) -> None:
        if self._passed is not None:
            self._passed.set()

    async def _unasked(self) -> Signal:
        """Go on, for nobody asks; what a person was asked before it was left open is used up."""
        if self._stays_open and self._answer is None and self.permit is PERMIT:
            environment, call_id = self._environment, self.requested.id
            waived = await environment.approvals.waive(environment.scope.session_id, call_id)
            if isinstance(waived, Deny):
                self._fail(waived.reason, "denied")
                return "denied"
            self.permit = waived
        return self._allowed()

    def _allowed(self) -> Signal:
        self._pass()
        if self._answer is None:
            return "allowed"
        self._response = self._answer
        return "answered"

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

    steps: ClassVar[Mapping[State, Callable[[Any], Signal | Awaitable[Signal]]]] = {
        "requested": _judge,
        "asking": _ask_person,
    }
