"""Questions and grants in a store: the names of their states, their reading and listing."""

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
    from toolbus.store.store_reader import StoreReader

logger = logging.getLogger("toolbus")

decode_question, decode_grant = decoder(Question), decoder(Grant)
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


AWAITER, ANSWERED = "awaiter:", "awaited-answer:"
"""The name of the state of a session with the program that goes on after answers, and the prefix of
the markers that it finds: each has the same body, beside an answered question."""


class Pointer(Struct, frozen=True, omit_defaults=True):
    """The id of the latest question about a call.

    *live* is the digest of the call's values outside the store, keyed by the asking program.
    """

    id: str
    live: str = ""


decode_pointer = decoder(Pointer)


def canonical(value: Any) -> bytes:
    """Return *value* as JSON with sorted keys."""
    return _encode_sorted(value)


def digest_of(tool: str, arguments: JsonObject) -> str:
    """Return the digest of a call: 64 hexadecimal digits (SHA-256) of tool and arguments."""
    return hashlib.sha256(canonical([tool, arguments])).hexdigest()


def matches_digest(question: Question) -> bool:
    """Return whether *question* has the digest of its call; if not, its record was changed."""
    return question.digest == digest_of(question.tool, question.arguments)


def call_key(call_id: str) -> str:
    """Return the key that finds the latest question of a call that stays open."""
    return hashlib.sha256(canonical(("call", call_id))).hexdigest()


def question_name(question_id: str) -> str:
    """Return the name of the state with the question."""
    return f"{PREFIX}{question_id}"


def pointer_name(key: str) -> str:
    """Return the name of the state with the pointer to the latest question about a call."""
    return f"{ATTACH_PREFIX}{key}"


async def announce_answer(store: Store, question: Question) -> None:
    """Leave a marker beside *question* if a program goes on after its answer."""
    body = await store.read_state(question.root_session_id or question.session_id, AWAITER)
    if body is not None:
        await store.swap_state(question.session_id, f"{ANSWERED}{question.id}", None, body)


async def read_question(store: Store, session_id: str, question_id: str) -> Question | None:
    """Return the current question with this id, None if the session has none.

    Raises `DecodeError` if the record is not a question, or another question.
    """
    body = await store.read_state(session_id, question_name(question_id))
    return None if body is None else question_at(body, session_id, question_id)


async def find_question(
    store: Store, question_id: str, session_id: str | None = None
) -> Question | None:
    """Return the question with this id, None if there is none; pass its *session_id* if known.

    Raises `DecodeError` as `read_question` does.
    """
    if session_id is not None:
        return await read_question(store, session_id, question_id)
    return await asyncio.to_thread(_find, store, question_id)


def readable_questions(reader: StoreReader, session_id: str) -> Iterator[Question]:
    """Yield the readable questions of a session; the unreadable ones are logged.

    An unreadable question affects only its own call, which may have run.
    """
    session = reader.session(session_id)
    for row in () if session is None else reader.states(session.key):
        if row.body is None or not row.name.startswith(PREFIX):
            continue
        try:
            question = question_at(row.body, session_id, row.name.removeprefix(PREFIX))
        except DecodeError as error:
            logger.error("%s of session %r cannot be read: %s", row.name, session_id, error)  # noqa: TRY400 - it says all
        else:
            yield question


def question_at(body: bytes, session_id: str, question_id: str) -> Question:
    """Return the question in *body*; raises `DecodeError` if its ids differ."""
    question = decode_question(body)
    if (question.session_id, question.id) != (session_id, question_id):
        reason = f"the record is question {question.id!r} of session {question.session_id!r}"
        raise DecodeError(reason, "$")
    return question


async def questions_of(store: Store, session_id: str) -> tuple[Question, ...]:
    """Return the readable questions of a session, the oldest first."""

    def read() -> list[Question]:
        with store.reader() as reader:
            return list(readable_questions(reader, session_id))

    questions = await asyncio.to_thread(read)
    return tuple(sorted(questions, key=lambda question: (question.asked_ns, question.id)))


def _find(store: Store, question_id: str) -> Question | None:
    """Return the question with exactly this id, in any session."""
    name = question_name(question_id)
    with store.reader() as reader:
        places = [(key, row.body) for key, row in reader.states_like(name) if row.name == name]
    for session_id, body in reversed(places):
        if body is not None:
            return question_at(body, session_id, question_id)
    return None


async def last_unfinished_call(store: Store, question: Question) -> int:
    """Return the time of the last start of a call like that of *question* without an end, or 0.

    Such a call has the same tool and the same stored arguments.
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
    """Replace *old* by *new*; return False if the stored question is not *old* any more."""
    name = question_name(old.id)
    body = await store.read_state(old.session_id, name)
    if body is None or encode(decode_question(body)) != encode(old):
        return False
    return await store.swap_state(old.session_id, name, body, encode(new))
