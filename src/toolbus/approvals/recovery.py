"""After a kill: what is known of the calls of a session, and of their questions."""

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
from toolbus.approvals.sub_sessions import (
    find_below,
    find_linked,
    find_pending,
    waits_for_call,
)
from toolbus.errors import DecodeError
from toolbus.messages.records import ToolMessage
from toolbus.tools.calls.gate import OpenCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from toolbus.approvals.questions import Question
    from toolbus.store.protocol import Store


NEVER_RAN = frozenset({"pending", "approved", "denied", "expired", "withdrawn"})
"""The states in which the call has surely not run."""

logger = logging.getLogger("toolbus")


async def find_open(
    store: Store,
    session_id: str,
    call_ids: Collection[str],
    is_answered: Callable[[str], bool],
    now_ns: int,
) -> OpenCalls:
    """Put right what a killed process left in a session; return which of *call_ids* can go on.

    A question whose yes was taken is done if *is_answered* says so of its call; if its call goes
    on, it stays as it is, and otherwise its end is unknown. The question of a call that is answered
    is withdrawn. In `waiting`, "" stands for a run.
    """
    continued = await find_linked(store, session_id, call_ids)
    latest: dict[str, Question] = {}
    heard = set()
    for question in await questions_of(store, session_id):
        latest[question.call_id] = question
        if not waits_for_call(question):
            heard.add(question.id)
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
    untold = {call_id for call_id, question_id in waiting.items() if question_id not in heard}
    for call_id, below in continued.items():
        if await find_pending(store, below):
            untold.add(call_id)
    return OpenCalls(waiting, continued, frozenset(untold))


async def withdraw(
    store: Store, session_id: str, call_ids: Collection[str] | None, now_ns: int
) -> None:
    """Withdraw the questions of a session, if not None those about *call_ids* and below them."""
    if call_ids is not None and not call_ids:
        return
    for question in await questions_of(store, session_id):
        if call_ids is None or question.call_id in call_ids:
            await transition(store, question, "withdraw", ended_ns=now_ns)
    for below in await find_below(store, session_id, call_ids or ()):
        messages = await store.read(below)
        answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
        # No agent will write that session any more.
        await find_open(store, below, (), answered.__contains__, now_ns)
        await withdraw(store, below, None, now_ns)


async def find_unwritten(store: Store, session_id: str, call_ids: Iterable[str]) -> dict[str, str]:
    """Return those of some open calls whose question was about to be written, and was not.

    With the ids of the questions. The pointer to it is written before it, and it before the call
    may run, so these have not run.
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
    """Say of *question*, whose taker has ended: the call is done if it *is_answered*, else unknown.

    Returns it as it is after that, None if somebody else has said so.
    """
    if is_answered(question.call_id):
        return await transition(store, question, "end", ended_ns=now_ns)
    return await transition(store, question, "lose")


def with_effective_state(
    question: Question, now_ns: int, *, taker_is_gone: bool = False
) -> Question:
    """Return *question* as it will be once somebody touches it: for who only looks.

    What is past its time is expired, or unheard if a host asked its person itself; what was taken
    by a process that ended (*taker_is_gone*) has an unknown end.
    """
    if question.state in {"pending", "approved"} and now_ns >= question.expires_ns:
        return replace(question, state="expired")
    if question.state == "hosted" and now_ns >= question.expires_ns:
        return replace(question, state="unheard")
    if question.state == "taken" and taker_is_gone:
        return replace(question, state="unknown")
    return question
