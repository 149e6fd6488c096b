"""Approvals in a store: an answer may come from any process, at any time.

A guard's `Ask` becomes a `Question`, answered by `toolbus.approvals.answer` in this process or
another one. The call waits for *wait* seconds, and then ends as pending; the same call, made again,
attaches to the question.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from copy import copy
from functools import partial
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING

from toolbus.approvals import sub_sessions
from toolbus.approvals.answer_wait import AnswerWait
from toolbus.approvals.attachment import Attachment, QuestionDraft, attach, note_hosted
from toolbus.approvals.bound_calls import BoundCall, bind, filled_paths
from toolbus.approvals.channels import Notices
from toolbus.approvals.limits import DENIALS, HOURLY, OPEN, QuestionLimits
from toolbus.approvals.permits import FAILED, StoredPermit, refusal_of, released_permit
from toolbus.approvals.recovery import find_open, withdraw
from toolbus.approvals.steps import deliver
from toolbus.errors import DecodeError, RegistrationError, StoreError
from toolbus.events.catalogue import Deny
from toolbus.settings.user_key import value_key
from toolbus.tasks.loops import LoopLock
from toolbus.tasks.shield import shield_until_done
from toolbus.tools.calls.approver import check_approver
from toolbus.tools.calls.gate import OpenCalls, Pending, ResumeGate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Self

    from toolbus.approvals.answer_wait import QuestionAsker
    from toolbus.approvals.channels import Notifier
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import ApprovalRequest, CallGate, Permit

DAY = 86_400.0
LONGEST = 3_650 * DAY
"""The most seconds until a question expires."""

SHORTEST_KEY = 32
"""The least bytes of a key."""

_PURPOSE = b"toolbus: calls with hidden values"

logger = logging.getLogger("toolbus")


class StoredApprovals(ResumeGate):
    """An approver that stores questions, so that a person can answer them from other processes.

    Args:
        approver: one more channel, which asks a person at once, as an `Agent`'s approver does. The
            call waits for it. Any answer but True is a no; an error is logged and is no answer.
        store: the store of the questions, by default the agent's.
        wait: seconds that a call waits for an answer before it ends as pending.
        expires_after: seconds after which a question, or an unused approval, expires.
        notify: channels that are notified of each new question.
        max_open, max_hourly: the most pending questions, and questions within an hour, of a session
            with its sub-agents; beyond them calls are denied, and the channels notified once.
        max_denials: the refusals of a call after which its session does not ask about it again.
            Questions answered by grants do not count. None: no limit.
        host: the asking program: "agent", or the name of a coding agent or proxy.
        key: 32 random bytes that recognize a call with values outside the store; by default the
            user's key, see `toolbus.settings.user_key`.
        clock: returns nanoseconds since the epoch, UTC.

    Raises `RegistrationError` for invalid arguments.

    >>> agent = Agent(ScriptedModel(["hi"]), store=MemoryStore(), approver=StoredApprovals(wait=30))
    """

    def __init__(
        self,
        approver: Approver | None = None,
        *,
        store: Store | None = None,
        wait: float = 0.0,
        expires_after: float = DAY,
        notify: Sequence[Notifier] = (),
        max_open: int | None = OPEN,
        max_hourly: int | None = HOURLY,
        max_denials: int | None = DENIALS,
        host: str = "agent",
        key: bytes | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        if approver is not None:
            check_approver(approver)
        self._has_host_store = False
        _check_arguments(wait, expires_after, notify, key)
        self._store, self._expires_after = store, expires_after
        self._host, self._clock = host, clock
        self._given_key, self._own_key = key, os.urandom(SHORTEST_KEY)
        self._notices = Notices(notify)
        # By session, the open calls of an earlier run, with the ids of their questions.
        self._reopened: dict[str, Mapping[str, str]] = {}
        self._limits = QuestionLimits(max_open, max_hourly, max_denials, self._notices.send_limit)
        _check_limits(max_open=max_open, max_hourly=max_hourly, max_denials=max_denials)
        self._answers = AnswerWait(approver, LoopLock(), wait, clock)

    keeps_questions = True

    @property
    def store(self) -> Store | None:
        """The store of the questions; None until an agent gives its own."""
        return self._store

    def below(self, above: CallGate | None) -> Self:
        """Return these approvals for a sub-agent of the agent with the gate *above*.

        Its questions are in the store of *above*, unless these have a store of their own.
        """
        store = above.store if isinstance(above, ResumeGate) else None
        return self._bound(store) if store is not None and self._has_host_store else self

    def for_host(self, store: Store) -> Self:
        """Return these approvals, with *store* unless they have a store of their own."""
        if self._store is not None:
            return self
        return self._bound(store)

    def for_caller(
        self,
        asker: QuestionAsker | None,
        *,
        name: str = "approver",
        wait: float | None = None,
        gone: asyncio.Event | None = None,
    ) -> Self:
        """Return these approvals for one caller: *asker* is called in place of an approver.

        It gets the stored question and the request; its answer is recorded as given by *name*.
        *wait* are the seconds for this caller, None for the default. When *gone* is set its calls
        stop waiting, and their questions stay.
        """
        bound = copy(self)
        bound._answers = self._answers.for_caller(asker, name, wait, gone)  # noqa: SLF001 - a copy of its own
        return bound

    def stop_waiting(self) -> bool:
        """End all waiting calls as pending within about a second, before the program stops.

        Their questions stay; a cancellation would withdraw them. Returns whether any call waits.
        May be called by a signal handler.
        """
        return self._answers.stop()

    def _bound(self, store: Store) -> Self:
        bound = copy(self)
        bound._store, bound._has_host_store = store, True  # noqa: SLF001 - a copy of its own
        return bound

    async def find_open(
        self, session_id: str, call_ids: Collection[str], is_answered: Callable[[str], bool]
    ) -> OpenCalls:
        """Repair the questions after a killed process; return the open calls that can continue."""
        if self._store is None:
            return OpenCalls()
        open_calls = await find_open(self._store, session_id, call_ids, is_answered, self._clock())
        self._reopened.pop(session_id, None)
        if open_calls.waiting:
            self._reopened[session_id] = open_calls.waiting
        return open_calls

    async def find_pending(self, session_id: str) -> tuple[str, ...]:
        """Return the ids of the pending questions of a session and of those below it."""
        return (
            () if self._store is None else await sub_sessions.find_pending(self._store, session_id)
        )

    async def link(self, session_id: str, call_id: str, below: str) -> None:
        """Record that a call runs a sub-agent in the session *below*."""
        if self._store is not None:
            await sub_sessions.link(self._store, session_id, call_id, below)

    async def linked(self, session_id: str, call_id: str) -> str | None:
        """Return the recorded session of a call's sub-agent."""
        if self._store is None:
            return None
        return (await sub_sessions.find_linked(self._store, session_id, [call_id])).get(call_id)

    async def withdraw(self, session_id: str, call_ids: Collection[str] | None = None) -> None:
        """Withdraw the questions about *call_ids* and below them; None: all of the session."""
        if self._store is not None:
            await withdraw(self._store, session_id, call_ids, self._clock())

    async def hold(self, session_id: str, call_id: str) -> Permit | Deny | None:
        """Return the result of an earlier question about a call, when no guard asks any more."""
        question_id = self._reopened.get(session_id, {}).get(call_id)
        if question_id is None or self._store is None:
            return None
        try:
            return await released_permit(self._store, session_id, call_id, question_id, self._clock)
        except (StoreError, DecodeError) as error:
            logger.error("question %s: %s", question_id, error)  # noqa: TRY400 - it says all
            return Deny(FAILED, str(error))

    async def delegate_to_host(self, request: ApprovalRequest) -> str | None:
        """Record that the host asks its own user; return the id of the record, "" without one.

        None: the host need not ask, because `ask` has a grant or a refusal. The recorded question
        has no answer here, no call attaches to it, and no approval of it is ever taken.
        """
        store = self._store
        if store is None:
            return ""
        filled = await filled_paths(request)
        if isinstance(filled, Deny):
            return None
        binding = await bind(request, filled, partial(self._key_for, store))
        if isinstance(binding, Deny):
            return ""  # The host shows a call that cannot be stored, or is too large.
        return await note_hosted(store, binding, self._draft(request))

    async def ask(self, request: ApprovalRequest) -> Permit | Pending | Deny:
        """Return the approval of *request*, a refusal, or that the question is pending."""
        store = self._store
        if store is None:
            reason = "they have no store; use `StoredApprovals(store=...)`"
            raise RegistrationError("approvals", reason)
        if not request.scope.session_id:
            reason = "a question is kept with a session; use `scope=Scope(session_id=...)`"
            raise RegistrationError("approvals", reason)
        try:
            filled = await filled_paths(request)
            if isinstance(filled, Deny):
                return filled
            binding = await bind(request, filled, partial(self._key_for, store))
            if isinstance(binding, Deny):
                return binding
            return await self._decide(store, binding, request)
        except (StoreError, DecodeError) as error:
            logger.error("a question could not be asked: %s", error)  # noqa: TRY400 - it says all
            return Deny(FAILED, str(error))

    def _key_for(self, store: Store) -> bytes:
        """Return the key for hidden values in *store*, this process's own if none persists."""
        if self._given_key is not None:
            return self._given_key
        key = value_key(durable=store.durable)
        return self._own_key if key is None else blake2b(_PURPOSE, key=key).digest()

    async def _decide(
        self, store: Store, binding: BoundCall, request: ApprovalRequest
    ) -> Permit | Pending | Deny:
        with self._answers.counted() as stops:
            attached = await self._attach(store, binding, self._draft(request))
            if isinstance(attached, Deny):
                return attached
            question = attached.question
            waits = question.state == "pending"
            if waits:
                if attached.is_new:
                    self._notices.send(store, question)
                question = await self._answers.wait_for_answer(store, question, request, stops)
        match question.state:
            case "pending":
                await self._notices.settle(question.id)
                withdraw = partial(self._answers.withdraw, store, question)
                return Pending(question.id, _pending_text(question.id, binding), withdraw)
            case "approved" | "taken":
                return StoredPermit(store, question, binding, self._clock, came_later=waits)
            case "denied" | "expired":
                await deliver(store, question)
        return refusal_of(question, stays_open=binding.stays_open)

    def _draft(self, request: ApprovalRequest) -> QuestionDraft:
        now = self._clock()
        expires = now + round(self._expires_after * 1e9)
        return QuestionDraft(
            request.scope, self._host, now, expires, request.continued, self._limits
        )

    async def _attach(
        self, store: Store, binding: BoundCall, draft: QuestionDraft
    ) -> Attachment | Deny:
        """Do as `attach`, and apply a grant; a cancellation withdraws a new question."""
        results: list[Attachment | Deny] = []

        async def work() -> None:
            attached = await attach(store, binding, draft)
            if isinstance(attached, Attachment):
                question = await self._answers.granted(store, attached.question)
                attached = attached._replace(question=question)
            results.append(attached)

        try:
            await shield_until_done(work)
        except asyncio.CancelledError:
            for attached in results:
                is_new = isinstance(attached, Attachment) and attached.is_new
                if isinstance(attached, Attachment) and is_new and not self._answers.has_left:
                    withdraw = partial(self._answers.withdraw, store, attached.question)
                    await shield_until_done(withdraw)
            raise
        return results[0]


def _pending_text(question_id: str, binding: BoundCall) -> str:
    waits = f"a person must approve this call; question {question_id} waits"
    if binding.stays_open:
        return f"{waits}, and `resume` continues"
    return f"{waits}. Call it again with the same arguments to learn the answer"


def _check_limits(**limits: object) -> None:
    """Raise `RegistrationError` unless each limit is None or a positive number."""
    for name, limit in limits.items():
        if limit is not None and not (type(limit) is int and limit > 0):
            raise RegistrationError(name, f"expected a positive number or None, not {limit!r}")


def _check_arguments(
    wait: object, expires_after: object, notify: Sequence[Notifier], key: object
) -> None:
    """Raise `RegistrationError` for invalid arguments of `StoredApprovals`."""
    if not (type(wait) in {int, float} and 0 <= wait < inf):  # type: ignore[operator]  # a number
        raise RegistrationError("wait", f"expected seconds to wait, not {wait!r}")
    if not (type(expires_after) in {int, float} and 0 < expires_after <= LONGEST):  # type: ignore[operator]  # as above
        reason = f"expected a number of seconds from 0 to {LONGEST:.0f}, not {expires_after!r}"
        raise RegistrationError("expires_after", reason)
    for channel in notify:
        if isinstance(channel, type) or not callable(getattr(channel, "notify", None)):
            reason = "it has no method `async def notify(question)`"
            raise RegistrationError(f"channel {channel!r}", reason)
    if key is not None and not (isinstance(key, bytes) and len(key) >= SHORTEST_KEY):
        # The value is left out of the error: a short key is still a secret.
        raise RegistrationError("key", f"expected at least {SHORTEST_KEY} bytes")
