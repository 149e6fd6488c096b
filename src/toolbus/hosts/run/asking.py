"""Who asks a person about the events of a host: the host itself, or a question of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from toolbus.hosts.run.hook_sessions import TakenCall
from toolbus.tools.calls.call import PERMITTED
from toolbus.tools.calls.gate import Pending, ask_about_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.approvals.stored import StoredApprovals
    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import RunStart
    from toolbus.hosts.dialects.hook_events import HookDecision, HookEvent, HookKind
    from toolbus.hosts.dialects.host_dialect import HostDialect
    from toolbus.hosts.run.taken_calls import TakenCalls
    from toolbus.tools.calls.gated_call import GatedCall


class HookAsking(NamedTuple):
    """Who decides: the host's person where *host_asks* and it can, else *approvals*.

    Of calls that these let run, or that the host asks about, *taken* knows which have not ended.
    """

    approvals: StoredApprovals
    taken: TakenCalls
    host_asks: bool

    def by_host(
        self, event: HookEvent, dialect: HostDialect, decision: HookDecision, prompt: str
    ) -> HookDecision | None:
        """Return *decision* with the question *prompt*, if the host asks that itself."""
        if not self.host_asks or dialect.facts.abilities["ask"] != "yes":
            return None
        asking = replace(decision, asked=prompt)
        return None if "ask" in dialect.encode(event, asking).undelivered else asking

    async def hand_over(self, judged: GatedCall, session_id: str, event_id: str) -> bool:
        """Note that the host asks about *judged*; False: it need not, for a grant says yes.

        What its person says nobody hears: only that a result came, or that none did.
        """
        call_id = judged.requested.id
        if await self.taken.is_handed_over(call_id, event_id):
            return True
        question_id = await self.approvals.hand_over(judged.approval_request())
        if question_id:
            facts = {"session_id": session_id, "event_id": event_id}
            await self.taken.add(call_id, TakenCall(question_id=question_id, **facts))
        return question_id is not None

    async def by_us(
        self,
        judged: GatedCall,
        session_id: str,
        event_id: str,
        decide: Callable[[GatedCall], Awaitable[HookDecision | str]],
    ) -> HookDecision | str:
        """Ask by a question of ours; return what *decide* says after a yes, or why it is none.

        The yes is used up before the host hears of it. If *judged* has an end, that says why.
        """
        ask, call = judged.question, judged.call
        if ask is not None and await self.taken.is_again(call, ask, event_id):
            return await decide(judged)
        await judged.walk({PERMITTED})
        if judged.has_ended:
            return ""
        if (refusal := judged.seal()) is not None:
            return refusal.reason
        # Handlers may have judged it once more, and made another call of it.
        decision, call_id = await decide(judged), judged.requested.id
        if isinstance(decision, str):
            return decision
        refusal = await self.taken.take(
            judged.permit, call_id, session_id, event_id, call=judged.call
        )
        return decision if refusal is None else refusal.reason

    async def about_run(self, bus: EventBus, start: EventContext[RunStart]) -> str | None:
        """Ask whether a run begins; return why it does not, None if it does."""
        decision = await ask_about_run(self.approvals, bus, start)
        if decision is None:
            return None
        return decision.text if isinstance(decision, Pending) else decision.reason

    async def note(self, kind: HookKind, call_id: str, session_id: str) -> None:
        """Note what an event of this *kind* tells of calls that were let run."""
        match kind:
            case "result":
                await self.taken.end(call_id)
            case "prompt" | "answer":
                await self.taken.lose(session_id)
            case "session_start" | "session_end":
                await self.taken.lose(None)
