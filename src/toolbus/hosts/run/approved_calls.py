"""Calls that a host was let run by a yes, or asks about itself, until it tells what became."""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.approvals.records import canonical, digest_of, read_question
from toolbus.approvals.steps import transition
from toolbus.hosts.run.hook_sessions import ApprovedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from toolbus.approvals.questions import Question, QuestionSignal
    from toolbus.approvals.stored import StoredApprovals
    from toolbus.events.catalogue import Ask, Deny
    from toolbus.hosts.run.event_log import EventLog
    from toolbus.hosts.run.hook_sessions import HookSessions
    from toolbus.messages.records import ToolCall
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.gate import Permit
    from toolbus.tools.calls.gated_call import GatedCall

_LIMIT = 100
"""Calls of a session that may be without an end; the end of the oldest is unknown then."""

_RESULT = "toolbus: the host told of its result"


class ApprovedCalls:
    """The calls of the host's session *root* whose yes is used up; *known* are those from before.

    *clock* tells nanoseconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        sessions: HookSessions,
        root: str,
        known: Mapping[str, ApprovedCall],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._sessions, self._root = store, sessions, root
        self._known, self._clock = known, clock

    async def is_retry(self, call: ToolCall, ask: Ask, event_id: str) -> bool:
        """Return whether the same event has taken the yes to *call* before, and nobody heard so.

        A worker may be killed before it answers; then its client has the event handled once more.
        """
        question = await self._question(call.id, event_id)
        if question is None or question.state != "taken":
            return False
        if question.hidden:
            live = self._known[call.id].live
            is_same = bool(live) and live == self._live(call)
        else:
            is_same = question.digest == digest_of(call.name, call.arguments)
        return is_same and (question.rule, question.rules) == (ask.rule, ask.rules)

    async def delegate_to_host(
        self, judged: GatedCall, approvals: StoredApprovals, log: EventLog
    ) -> bool:
        """Note that the host asks about *judged*; False: it need not, for a grant says yes.

        The answer of its person is not told: only that a result came, or that none did.
        """
        call_id, event_id = judged.requested.id, log.message_id
        before = await self._question(call_id, event_id)
        if before is not None and before.state == "hosted":
            return True  # The same event has done so before.
        question_id = await approvals.hand_over(judged.approval_request())
        if question_id:
            session_id = log.scope.session_id
            handed = ApprovedCall(session_id=session_id, question_id=question_id, event_id=event_id)
            await self.add(call_id, handed)
        return question_id is not None

    async def take(
        self,
        permit: Permit | None,
        call_id: str,
        session_id: str,
        event_id: str = "",
        *,
        call: ToolCall | None = None,
    ) -> Deny | None:
        """Use up the yes to *call*, under its id; return why it may not run after all."""
        if permit is None:
            return None
        if not permit.question_id:
            return await permit.take(call)
        question = await read_question(self._store, session_id, permit.question_id)
        # Not where the question holds all of the call, and tells by itself that it is the same.
        hides = call is not None and question is not None and question.hidden
        approved = ApprovedCall(
            session_id=session_id,
            question_id=permit.question_id,
            event_id=event_id,
            live=self._live(call) if call is not None and hides else "",
        )
        # Before the yes is used up: a process that is killed in between leaves a name too many.
        await self.add(call_id, approved)
        refusal = await permit.take(call)
        if refusal is not None:
            await self._keep_without([call_id])
        return refusal

    async def add(self, call_id: str, approved: ApprovedCall) -> None:
        """Let the host's result of a call end its question; of too many the oldest are lost."""
        oldest = [*self._known][: max(0, len(self._known) - _LIMIT)]
        await self._mark_unknown(oldest)
        await self._keep_without([*oldest, call_id], {call_id: approved})

    async def end(self, call_id: str) -> None:
        """Say that the host has told the result of a call: it ran."""
        if call_id not in self._known:
            return
        if not await self._step(call_id, "end", ended_ns=self._clock()):
            # The session went on before, so that its end was unknown.
            ended = {"ended_ns": self._clock(), "settled_by": _RESULT}
            await self._step(call_id, "settle_ran", **ended)
        await self._keep_without([call_id])

    async def mark_unknown(self, session_id: str | None) -> None:
        """Say that *session_id*, None for all of them, went on without results of its calls.

        A result that comes later settles its call.
        """
        await self._mark_unknown(
            [key for key, each in self._known.items() if session_id in {None, each.session_id}]
        )

    async def _mark_unknown(self, call_ids: Collection[str]) -> None:
        for call_id in call_ids:
            await self._step(call_id, "lose")

    async def _question(self, call_id: str, event_id: str) -> Question | None:
        """Return the question that the same event has put about a call before, None if none."""
        approved = self._known.get(call_id)
        if approved is None or approved.event_id != event_id:
            return None
        return await read_question(self._store, approved.session_id, approved.question_id)

    def _live(self, call: ToolCall) -> str:
        """Return a digest of *call* that no other process can make without the key, else ""."""
        key = self._sessions.digest_key(self._root)
        if key is None:
            return ""
        return blake2b(canonical([call.name, call.arguments]), key=key, digest_size=32).hexdigest()

    async def _step(self, call_id: str, signal: QuestionSignal, **fields: Any) -> bool:
        approved = self._known[call_id]
        question = await read_question(self._store, approved.session_id, approved.question_id)
        if question is None:
            return False
        return await transition(self._store, question, signal, **fields) is not None

    async def _keep_without(
        self, call_ids: Collection[str], added: Mapping[str, ApprovedCall] | None = None
    ) -> None:
        """Keep the calls of the session but those of *call_ids*, and *added* behind them."""

        def changed(calls: Mapping[str, ApprovedCall]) -> dict[str, ApprovedCall]:
            others = {key: each for key, each in calls.items() if key not in call_ids}
            return {**others, **(added or {})}

        await self._sessions.update(
            self._root, lambda session: replace(session, approved=changed(session.approved))
        )
