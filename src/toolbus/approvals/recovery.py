"""After a kill: what is known of a call whose approval was used up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.approvals.steps import take_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.approvals.questions import Question
    from toolbus.store.protocol import Store


async def settle_taken(
    store: Store, question: Question, is_answered: Callable[[str], bool], now_ns: int
) -> Question | None:
    """Say of *question*, whose taker has ended: the call is done if it *is_answered*, else unknown.

    Returns it as it is after that, None if somebody else has said so.
    """
    if is_answered(question.call_id):
        return await take_step(store, question, "end", ended_ns=now_ns)
    return await take_step(store, question, "lose")


def as_known(question: Question, now_ns: int, *, taker_is_gone: bool = False) -> Question:
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
