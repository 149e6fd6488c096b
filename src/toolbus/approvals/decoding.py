"""How questions and grants are read from what a store keeps of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from toolbus.approvals.questions import PREFIX, Grant, Question
from toolbus.errors import DecodeError
from toolbus.messages.codec import decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.reading import StateRow, StoreReader

logger = logging.getLogger("toolbus")

decode_question, decode_grant = decoder(Question), decoder(Grant)


def readable_questions(reader: StoreReader, session_id: str) -> Iterator[Question]:
    """Give the questions of a session; those that cannot be read are logged, and left out.

    One of them harms its own call alone, of which then nobody knows whether it has run.
    """
    session = reader.session(session_id)
    for row in () if session is None else reader.states(session.key):
        question = _readable(row, session_id) if row.name.startswith(PREFIX) else None
        if question is not None:
            yield question


def _readable(row: StateRow, session_id: str) -> Question | None:
    if row.body is None:
        return None
    try:
        return question_at(row.body, session_id, row.name.removeprefix(PREFIX))
    except DecodeError as error:
        logger.error("%s of session %r cannot be read: %s", row.name, session_id, error)  # noqa: TRY400 - it says all
        return None


def question_at(body: bytes, session_id: str, question_id: str) -> Question:
    """Return the question that *body* is; raises `DecodeError` unless it is that very one."""
    question = decode_question(body)
    if (question.session_id, question.id) != (session_id, question_id):
        reason = f"it says that it is {question.id!r} of session {question.session_id!r}"
        raise DecodeError(reason, "$")
    return question
