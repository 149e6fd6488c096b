"""Questions and grants in a store: the names of their states, and how they are read and listed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from toolbus.approvals.questions import ATTACH_PREFIX, PREFIX, Grant, Question
from toolbus.errors import DecodeError
from toolbus.messages.codec import decoder, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.messages.immutable import JsonObject
    from toolbus.store.protocol import Store
    from toolbus.store.store_reader import StateRow, StoreReader

logger = logging.getLogger("toolbus")

decode_question, decode_grant = decoder(Question), decoder(Grant)
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class Pointer(Struct, frozen=True, omit_defaults=True):
    """Which question is the latest about a call.

    *live* is a keyed digest of what the store does not hold of it; the key stays with who asked.
    """

    id: str
    live: str = ""


decode_pointer = decoder(Pointer)


def canonical(value: Any) -> bytes:
    """Return *value* as JSON in which the order of the keys of objects says nothing."""
    return _encode_sorted(value)


def digest_of(tool: str, arguments: JsonObject) -> str:
    """Return the digest of a call: 64 hexadecimal digits (SHA-256) of tool and arguments."""
    return hashlib.sha256(canonical([tool, arguments])).hexdigest()


def call_key(call_id: str) -> str:
    """Return the key of a call that stays open, by which its latest question is known."""
    return hashlib.sha256(canonical(("call", call_id))).hexdigest()


def question_name(question_id: str) -> str:
    """Return the name under which the question is kept."""
    return f"{PREFIX}{question_id}"


def pointer_name(key: str) -> str:
    """Return the name under which the latest question about a call is kept."""
    return f"{ATTACH_PREFIX}{key}"


async def read_question(store: Store, session_id: str, question_id: str) -> Question | None:
    """Return the question as it stands now; None if the session has none of this id.

    Raises `DecodeError` for what is no question, or another one.
    """
    body = await store.read_state(session_id, question_name(question_id))
    return None if body is None else question_at(body, session_id, question_id)


async def find_question(
    store: Store, question_id: str, session_id: str | None = None
) -> Question | None:
    """Return the question of this id, None if there is none; *session_id* is its, if known.

    Raises `DecodeError` as `read_question` does.
    """
    if session_id is not None:
        return await read_question(store, session_id, question_id)
    return await asyncio.to_thread(_find, store, question_id)


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


async def questions_of(store: Store, session_id: str) -> tuple[Question, ...]:
    """Return all questions of one session that can be read, the oldest first."""

    def read() -> list[Question]:
        with store.reader() as reader:
            return list(readable_questions(reader, session_id))

    questions = await asyncio.to_thread(read)
    return tuple(sorted(questions, key=lambda question: (question.asked_ns, question.id)))


def _find(store: Store, question_id: str) -> Question | None:
    """Return the question of this very id, in whatever session it is."""
    name = question_name(question_id)
    with store.reader() as reader:
        places = [(key, row.body) for key, row in reader.states_like(name) if row.name == name]
    for session_id, body in reversed(places):
        if body is not None:
            return question_at(body, session_id, question_id)
    return None


async def last_unfinished_call(store: Store, question: Question) -> int:
    """Return when a call like that of *question* was last begun of which no end is known; or 0.

    Such a call has the same tool and the same arguments, as far as they are stored.
    """
    facts = (question.tool, question.digest)
    return max(
        (
            each.taken_ns
            for each in await questions_of(store, question.session_id)
            if each.state in {"taken", "unknown"} and (each.tool, each.digest) == facts
        ),
        default=0,
    )


async def swap_question(store: Store, old: Question, new: Question) -> bool:
    """Put *new* in the place of *old*; return False if that is not what stands there any more."""
    name = question_name(old.id)
    body = await store.read_state(old.session_id, name)
    if body is None or encode(decode_question(body)) != encode(old):
        return False
    return await store.swap_state(old.session_id, name, body, encode(new))
