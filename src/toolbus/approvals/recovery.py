"""Recovery after a killed process: the open calls of a session, and their questions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.approvals.records import (
    call_key,
    decode_pointer,
    pointer_name,
    question_name,
    questions_of,
)
from toolbus.approvals.steps import transition
from toolbus.approvals.sub_sessions import find_below, find_linked, find_pending, waits_for_call
from toolbus.errors import DecodeError
from toolbus.messages.records import ToolMessage
from toolbus.tools.calls.gate import OpenCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from toolbus.approvals.questions import Question
    from toolbus.store.protocol import Store

NEVER_RAN = frozenset({"pending", "approved", "denied", "expired", "withdrawn"})
"""The states in which the call has certainly not run."""

logger = logging.getLogger("toolbus")


async def find_open(
    store: Store,
    session_id: str,
    call_ids: Collection[str],
    is_answered: Callable[[str], bool],
    now_ns: int,
) -> OpenCalls:
    """Repair the questions of a session after a kill; return which of *call_ids* can continue.

    A taken question is done if its call *is_answered*; if the call continues it stays taken, else
    its end is unknown. Any other question of an answered call is withdrawn. In `waiting`, the call
    id "" is the run itself.
    """
    # A kill may fall between any two writes, so each state that it can leave has a branch.
    continued = await find_linked(store, session_id, call_ids)
    latest: dict[str, Question] = {}
    delivered = set()
    for question in await questions_of(store, session_id):
        latest[question.call_id] = question
        if not waits_for_call(question):
            delivered.add(question.id)
        if question.state == "taken" and question.call_id not in continued:
            await settle_taken(store, question, is_answered, now_ns)
        elif is_answered(question.call_id):
            await transition(store, question, "withdraw", ended_ns=now_ns)
    waiting = {
        call_id: latest[call_id].id
        for call_id in call_ids
        if call_id in latest and latest[call_id].state in NEVER_RAN
    }
    unknown = [call_id for call_id in call_ids if call_id not in latest]
    waiting |= await find_unwritten(store, session_id, unknown)
    run = latest.get("")
    if run is not None and run.state in {"pending", "approved"}:
        waiting[""] = run.id
    undelivered = {
        call_id for call_id, question_id in waiting.items() if question_id not in delivered
    }
    for call_id, below in continued.items():
        if await find_pending(store, below):
            undelivered.add(call_id)
    return OpenCalls(waiting, continued, frozenset(undelivered))


async def withdraw(
    store: Store, session_id: str, call_ids: Collection[str] | None, now_ns: int
) -> None:
    """Withdraw the questions about *call_ids* and below them; None: about all of the session."""
    if call_ids is not None and not call_ids:
        return
    await _withdraw_in(store, session_id, call_ids, now_ns)
    for below in await find_below(store, session_id, call_ids):
        messages = await store.read(below)
        answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
        # No agent writes that session any more.
        await find_open(store, below, (), answered.__contains__, now_ns)
        await _withdraw_in(store, below, None, now_ns)


async def _withdraw_in(
    store: Store, session_id: str, call_ids: Collection[str] | None, now_ns: int
) -> None:
    for question in await questions_of(store, session_id):
        if call_ids is None or question.call_id in call_ids:
            await transition(store, question, "withdraw", ended_ns=now_ns)


async def find_unwritten(store: Store, session_id: str, call_ids: Iterable[str]) -> dict[str, str]:
    """Return the ids of questions by call that have a pointer and no record.

    These calls have not run: the pointer is written before the record, and the record before the
    call may run.
    """
    unwritten = {}
    for call_id in call_ids:
        body = await store.read_state(session_id, pointer_name(call_key(call_id)))
        try:
            question_id = None if body is None else decode_pointer(body).id
        except DecodeError as error:
            logger.error("call %r of session %r: %s", call_id, session_id, error)  # noqa: TRY400 - it says all
            continue
        if question_id is not None:
            written = await store.read_state(session_id, question_name(question_id))
            if written is None:
                unwritten[call_id] = question_id
    return unwritten


async def settle_taken(
    store: Store, question: Question, is_answered: Callable[[str], bool], now_ns: int
) -> Question | None:
    """Mark a taken *question* of an ended process: done if its call *is_answered*, else unknown.

    Returns the new question, None if another process was first.
    """
    if is_answered(question.call_id):
        return await transition(store, question, "end", ended_ns=now_ns)
    return await transition(store, question, "lose")


def with_effective_state(
    question: Question, now_ns: int, *, taker_is_gone: bool = False
) -> Question:
    """Return *question* in the state that its next change would find, without writing it.

    A question past its time is expired, or unheard if it is hosted; a question taken by an ended
    process (*taker_is_gone*) has an unknown end.
    """
    if question.state in {"pending", "approved"} and now_ns >= question.expires_ns:
        return replace(question, state="expired")
    if question.state == "hosted" and now_ns >= question.expires_ns:
        return replace(question, state="unheard")
    if question.state == "taken" and taker_is_gone:
        return replace(question, state="unknown")
    return question
