"""Calls that were approved, or that the host asks its user about, until their results arrive."""

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
"""The most calls of a session that wait for a result; beyond it the oldest becomes unknown."""

_RESULT = "toolbus: the host reported its result"


class ApprovedCalls:
    """The calls of the host's session *root* whose approval was used; *known* are earlier ones.

    *clock* returns nanoseconds since the epoch.
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
        """Return whether the same event used the approval of *call* before, without an answer.

        A worker may be killed before it answers; then its client sends the event again.
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
        """Record that the host asks about *judged*; return False if a grant approves the call.

        The user's answer is not reported to hooks: only a result, or its absence, shows it.
        """
        call_id, event_id = judged.requested.id, log.message_id
        before = await self._question(call_id, event_id)
        if before is not None and before.state == "hosted":
            return True  # The same event was delegated before.
        question_id = await approvals.delegate_to_host(judged.approval_request())
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
        """Use the approval of the call *call_id*; return the denial if it may not run after all."""
        if permit is None:
            return None
        if not permit.question_id:
            return await permit.take(call)
        question = await read_question(self._store, session_id, permit.question_id)
        # A question without redacted arguments identifies the call itself.
        hides = call is not None and question is not None and question.hidden
        approved = ApprovedCall(
            session_id=session_id,
            question_id=permit.question_id,
            event_id=event_id,
            live=self._live(call) if call is not None and hides else "",
        )
        # Before the approval is used: a process killed in between leaves one entry too many.
        await self.add(call_id, approved)
        refusal = await permit.take(call)
        if refusal is not None:
            await self._keep_without([call_id])
        return refusal

    async def add(self, call_id: str, approved: ApprovedCall) -> None:
        """Wait for the host's result of a call; beyond the limit the oldest become unknown."""
        oldest = [*self._known][: max(0, len(self._known) - _LIMIT)]
        await self._mark_unknown(oldest)
        await self._keep_without([*oldest, call_id], {call_id: approved})

    async def end(self, call_id: str) -> None:
        """Mark a call as completed: the host reported its result."""
        if call_id not in self._known:
            return
        if not await self._step(call_id, "end", ended_ns=self._clock()):
            # The session went on before, so the question is in the state "unknown".
            ended = {"ended_ns": self._clock(), "settled_by": _RESULT}
            await self._step(call_id, "settle_ran", **ended)
        await self._keep_without([call_id])

    async def mark_unknown(self, session_id: str | None) -> None:
        """Mark the calls of *session_id* (None: of all sessions) unknown: it went on without them.

        A later result settles its call.
        """
        await self._mark_unknown(
            [key for key, each in self._known.items() if session_id in {None, each.session_id}]
        )

    async def _mark_unknown(self, call_ids: Collection[str]) -> None:
        for call_id in call_ids:
            await self._step(call_id, "lose")

    async def _question(self, call_id: str, event_id: str) -> Question | None:
        """Return the question that the same event asked about a call before, None if none."""
        approved = self._known.get(call_id)
        if approved is None or approved.event_id != event_id:
            return None
        return await read_question(self._store, approved.session_id, approved.question_id)

    def _live(self, call: ToolCall) -> str:
        """Return a keyed digest of *call*, "" without a key."""
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
        """Remove *call_ids* from the calls of the session, and append *added*."""

        def changed(calls: Mapping[str, ApprovedCall]) -> dict[str, ApprovedCall]:
            others = {key: each for key, each in calls.items() if key not in call_ids}
            return {**others, **(added or {})}

        await self._sessions.update(
            self._root, lambda session: replace(session, approved=changed(session.approved))
        )
