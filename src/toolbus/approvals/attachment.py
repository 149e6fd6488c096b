"""The attachment of a call to a question: the latest about the same call, or a new one.

The pointer is written before the record. A process killed between the two leaves a pointer without
a record, and the next process writes the record at that id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from toolbus.approvals.grants import find_grant
from toolbus.approvals.limits import QuestionLimits, admit, release
from toolbus.approvals.permits import refusal_of
from toolbus.approvals.questions import Question
from toolbus.approvals.records import (
    Pointer,
    decode_pointer,
    last_unfinished_call,
    pointer_name,
    question_name,
    read_question,
)
from toolbus.approvals.steps import transition
from toolbus.events.catalogue import Deny
from toolbus.messages.codec import encode
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from toolbus.approvals.bound_calls import BoundCall
    from toolbus.events.catalogue import Scope
    from toolbus.store.protocol import Store

TOOL_CHANGED = "toolbus: the tool has changed since this was asked"
TOOL_NOT_NOTED = "toolbus: an older version asked this without a digest of the tool"
VALUE_GONE = Deny("a value of the call that was never stored is lost; make the call again")


class QuestionDraft(NamedTuple):
    """The facts of a new question besides its call; times are nanoseconds since the epoch.

    *continued*: the call was started before and continues.
    """

    scope: Scope
    host: str
    now_ns: int
    expires_ns: int
    continued: bool = False
    limits: QuestionLimits = QuestionLimits()


class Attachment(NamedTuple):
    """The *question* that a call attaches to, and whether it is new."""

    question: Question
    is_new: bool


async def attach(store: Store, binding: BoundCall, draft: QuestionDraft) -> Attachment | Deny:
    """Return the question about the call of *binding*, a new one if none fits.

    A denial is returned if the call cannot be approved, or if the limits are reached.
    """
    admitted: list[Question] = []
    attached = await _attach(store, binding, draft, admitted)
    attached_id = attached.question.id if isinstance(attached, Attachment) else ""
    for question in admitted:
        if question.id != attached_id:
            await release(store, question)
    return attached


async def note_hosted(store: Store, binding: BoundCall, draft: QuestionDraft) -> str | None:
    """Record that the host itself asks about the call of *binding*; return the question's id.

    None: a grant approves the call. No call attaches to a recorded question.
    """
    question = replace(_new_question(new_id(), binding, draft), state="hosted")
    question = replace(question, may_have_run_ns=await last_unfinished_call(store, question))
    if await find_grant(store, question, draft.now_ns) is not None:
        return None
    name = question_name(question.id)
    await store.swap_state(question.session_id, name, None, encode(question))
    return question.id


async def _attach(
    store: Store, binding: BoundCall, draft: QuestionDraft, admitted: list[Question]
) -> Attachment | Deny:
    """Do as `attach`; *admitted* collects the counted questions."""
    # Another process may write the pointer or question first, and then the search begins anew.
    name = pointer_name(binding.key)
    while True:
        body = await store.read_state(binding.session_id, name)
        pointer = None if body is None else decode_pointer(body)
        question_id = ""
        if pointer is not None:
            question = await read_question(store, binding.session_id, pointer.id)
            if question is not None:
                known = await _known(store, binding, question, pointer, draft)
                if known is not None:
                    return known
            elif pointer.live == binding.live:
                question_id = pointer.id
        is_pointed_to = bool(question_id)
        question_id = question_id or (admitted[0].id if admitted else new_id())
        question = _new_question(question_id, binding, draft)
        if (refusal := await _admit(store, question, draft, admitted)) is not None:
            return refusal
        if not is_pointed_to:
            fresh = encode(Pointer(question_id, binding.live))
            if not await store.swap_state(binding.session_id, name, body, fresh):
                continue
        earlier = await last_unfinished_call(store, question)
        question = replace(question, may_have_run_ns=earlier)
        where = question_name(question_id)
        if await store.swap_state(binding.session_id, where, None, encode(question)):
            return Attachment(question, is_new=True)


async def _admit(
    store: Store, question: Question, draft: QuestionDraft, admitted: list[Question]
) -> Deny | None:
    """Count *question*, unless it is *admitted* already; return a refusal at a limit."""
    if question.id in [each.id for each in admitted]:
        return None
    # A grant answers it, so no person is asked.
    if await find_grant(store, question, draft.now_ns) is not None:
        return None
    refusal = await admit(store, question, draft.limits)
    if refusal is None:
        admitted.append(question)
    return refusal


async def _known(
    store: Store, binding: BoundCall, question: Question, pointer: Pointer, draft: QuestionDraft
) -> Attachment | Deny | None:
    """Return the attachment to the earlier *question*, or a refusal; None: ask a new question."""
    if binding.stays_open and question.state in {"taken", "unknown", "done"}:
        continues = draft.continued and question.state == "taken" and binding.fits(question)
        if continues:
            return Attachment(question, is_new=False)
        return refusal_of(question, stays_open=True)
    if question.state not in {"pending", "approved"}:
        # The answer of an open call was never delivered: its process was killed before.
        is_undelivered = binding.stays_open or not question.delivered
        is_refusal = question.state in {"denied", "expired"} and binding.fits(question)
        return Attachment(question, is_new=False) if is_refusal and is_undelivered else None
    if not binding.fits(question):
        await transition(store, question, "withdraw", settled_by=_reason_of(binding, question))
        return None
    is_lost = question.hidden and (not binding.hidden or pointer.live != binding.live)
    if is_lost or not set(question.filled) <= set(binding.filled):
        await transition(store, question, "withdraw")
        return VALUE_GONE
    if (question.hidden, question.filled) != (binding.hidden, binding.filled):
        await transition(store, question, "withdraw")
        return None
    return Attachment(question, is_new=False)


def _reason_of(binding: BoundCall, question: Question) -> str:
    if binding.definition == question.definition:
        return ""
    return TOOL_CHANGED if question.definition else TOOL_NOT_NOTED


def _new_question(question_id: str, binding: BoundCall, draft: QuestionDraft) -> Question:
    requested, scope = binding.requested, draft.scope
    return Question(
        id=question_id,
        session_id=binding.session_id,
        call_id=binding.call_id,
        tool=binding.tool,
        arguments=binding.arguments,
        digest=binding.digest,
        prompt=binding.prompt,
        guard=binding.guard,
        rule=binding.rule,
        rules=binding.rules,
        definition=binding.definition,
        requested_tool="" if requested is None else requested.name,
        requested_arguments=None if requested is None else requested.arguments,
        hidden=binding.hidden,
        filled=binding.filled,
        agent_id=scope.agent_id,
        root_session_id=scope.root_session_id,
        host=draft.host,
        asked_ns=draft.now_ns,
        expires_ns=draft.expires_ns,
    )
