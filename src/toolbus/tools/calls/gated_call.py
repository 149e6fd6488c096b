"""One tool call of a runner with a gate: the states of a call, and of its question."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from toolbus.errors import FreezeError
from toolbus.events.catalogue import Ask, Deny
from toolbus.tools.calls.call import CallInProgress
from toolbus.tools.calls.gate import (
    CHANGED_CALL,
    ApprovalPendingError,
    ApprovalRequest,
    Pending,
    copy_of,
)
from toolbus.tools.calls.table import GATED_TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.messages.records import ToolCall
    from toolbus.tools.calls.advertised import AdvertisedTools
    from toolbus.tools.calls.execution import Ending
    from toolbus.tools.calls.gate import CallGate, Permit
    from toolbus.tools.calls.runner import ToolRunner
    from toolbus.tools.calls.table import Signal, State
    from toolbus.tools.definitions import Tool

ASKED = "asking"
"""The state of a question: a call stops before it if its host asks the person itself."""


class GatedCall(CallInProgress):
    """One call that *gate* may stop at a question.

    A person gets the questions of concurrent calls in the order of the calls: each event of
    *earlier* is set once an earlier call has no more questions, *passed* once this call has none.
    A call that *stays_open* has no answer while pending. *waits*: it waits for a person; *permit*
    is the person's approval, *pending* the unanswered question. *fill* returns the call as its
    tool gets it, if the tool runs in another process.
    """

    transitions = GATED_TRANSITIONS
    fill: Callable[[], Awaitable[ToolCall | Deny]] | None = None

    def __init__(
        self,
        requested: ToolCall,
        runner: ToolRunner,
        advertised: AdvertisedTools | None = None,
        *,
        gate: CallGate,
        earlier: Sequence[asyncio.Event] = (),
        stays_open: bool = False,
        continued: bool = False,
    ) -> None:
        super().__init__(requested, runner, advertised, continued=continued)
        self.pending: Pending | None = None
        self.passed = asyncio.Event()
        self._gate, self._earlier, self._stays_open = gate, earlier, stays_open
        self._ask = Ask("")
        self._askers: tuple[str, ...] = ()

    async def advance(self, until: Collection[str] = ()) -> None:
        """Take every step until an end is reached, or a state of *until*."""
        try:
            await super().advance(until)
        finally:
            self.passed.set()
            self.is_left_open = self._stays_open and self._state == "pending"
            # A question about a handler's answer in place of the tool's is asked in this process.
            asks = self._state == ASKED and self._answer is None
            self.question = self._ask if asks else None

    def approval_request(self) -> ApprovalRequest:
        """Return the question about the call as it is now."""
        runner, fill = self._runner, self.fill
        tool = runner.toolset.get(self.call.name)
        if tool is not None and self._fillers and self._answer is None:
            fill = partial(self._filled, tool)
        return ApprovalRequest(
            self._ask,
            self.call,
            runner.scope,
            runner.bus,
            requested=self.requested,
            guards=self._askers,
            earlier=self._earlier,
            fill=fill,
            stays_open=self._stays_open,
            continued=self._continued,
            tool=tool.spec if tool else None,
        )

    def seal(self) -> Deny | None:
        """Replace the call with a private copy, for the comparison with the approval.

        Return a denial if it cannot run: a handler may have changed the arguments in place.
        """
        try:
            self.call = copy_of(self.call)
        except FreezeError as error:
            return Deny(CHANGED_CALL.reason, str(error))
        return None

    async def abandon(self) -> None:
        """Close the permit and withdraw the question: the call will not be repeated."""
        if self.permit is not None:
            await self.permit.end()
        if self.pending is not None:
            await self.pending.end()

    def _asked(self, ask: Ask, context: EventContext[ToolCall]) -> Signal:
        self._ask, self._askers = ask, context.askers
        return "asked"

    async def _put_question(self) -> Signal:
        self.waits = True
        if self.on_waiting is not None:
            self.on_waiting()
        decision = await self._gate.ask(self.approval_request())
        if isinstance(decision, Pending):
            self.pending, self._pending = decision, (decision.question_id,)
            return self._fail("waits", decision.text, "pending")
        if isinstance(decision, Deny):
            return self._fail("denied", decision.reason, "denied")
        return await self._approved(decision)

    async def _approved(self, permit: Permit) -> Signal:
        former, self.permit = self.permit, permit
        if former is not None and former.question_id != permit.question_id:
            await former.end()
        if permit.came_later and former is None:
            # Once only: a value that handlers create anew each time would be asked about forever.
            self.call = self.requested
            return "approved"
        if self._answer is not None:
            # An answer in place of the tool's is the whole effect.
            tool = self._runner.toolset.get(self.call.name)
            refusal = await permit.take(self.call, tool.spec if tool else None)
            if refusal is not None:
                return self._fail("denied", refusal.reason, "denied")
        return self._allow_now()

    def _allow(self) -> Signal | Awaitable[Signal]:
        if self._stays_open and self._answer is None and self.permit is None:
            return self._hold()
        return self._allow_now()

    async def _hold(self) -> Signal:
        """Use the decision of an earlier question, now that no guard asks any more."""
        held = await self._gate.hold(self._runner.scope.session_id, self.requested.id)
        if isinstance(held, Deny):
            return self._fail("denied", held.reason, "denied")
        self.permit = held
        return self._allow_now()

    def _allow_now(self) -> Signal:
        self.passed.set()
        signal = super()._allow()
        assert isinstance(signal, str)  # noqa: S101 - without this gate it never waits
        return signal

    def _validate(self) -> Signal | Awaitable[Signal]:
        return super()._validate() if self.permit is None else self._take(self.permit)

    async def _take(self, permit: Permit) -> Signal:
        """Validate, and use *permit*: the last step before the tool runs.

        If the tool runs again, the call is compared with the approval again.
        """
        refusal = self.seal()
        if refusal is None:
            signal = await self._fill_in() if self._fillers else self._fit(self.call)
            if signal != "valid":
                return signal
            refusal = await permit.take(self.call, cast("Tool", self._tool).spec)
            if refusal is None:
                return "valid"
        return self._fail("denied", refusal.reason, "denied")

    def _record_ending(self, ending: Ending) -> Signal:
        if isinstance(ending.error, ApprovalPendingError):
            self._pending = ending.error.pending
            return self._fail("waits", str(ending.error), "pending")
        return super()._record_ending(ending)

    steps: ClassVar[Mapping[State, Callable[[Any], Any]]] = {
        **CallInProgress.steps,
        "asking": _put_question,
    }
