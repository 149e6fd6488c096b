"""How questions are kept: the names of their states, and how they are read and listed."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from toolbus.approvals.questions import ATTACH_PREFIX, PREFIX, Question
from toolbus.messages.codec import decoder, encode

if TYPE_CHECKING:
    from toolbus.messages.immutable import JsonObject
    from toolbus.store.protocol import Store

decode_question = decoder(Question)
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


def question_name(question_id: str) -> str:
    """Return the name under which the question is kept."""
    return f"{PREFIX}{question_id}"


def pointer_name(key: str) -> str:
    """Return the name under which the latest question about a call is kept."""
    return f"{ATTACH_PREFIX}{key}"


async def read_question(store: Store, session_id: str, question_id: str) -> Question | None:
    """Return the question as it stands now; None if the session has none of this id."""
    body = await store.read_state(session_id, question_name(question_id))
    return None if body is None else decode_question(body)


async def find_question(
    store: Store, question_id: str, session_id: str | None = None
) -> Question | None:
    """Return the question of this id, None if there is none; *session_id* is its, if known."""
    if session_id is not None:
        return await read_question(store, session_id, question_id)
    body = await asyncio.to_thread(_body_of, store, question_name(question_id))
    return None if body is None else decode_question(body)


async def questions_of(store: Store, session_id: str) -> tuple[Question, ...]:
    """Return all questions of one session, the oldest first."""
    bodies = await asyncio.to_thread(_question_bodies, store, session_id)
    questions = [decode_question(body) for body in bodies]
    return tuple(sorted(questions, key=lambda question: (question.asked_ns, question.id)))


def _body_of(store: Store, name: str) -> bytes | None:
    """Return the newest state of this very name, in whatever session it is."""
    with store.reader() as reader:
        bodies = [row.body for _, row in reader.states_like(name) if row.name == name]
    return next((body for body in reversed(bodies) if body is not None), None)


def _question_bodies(store: Store, session_id: str) -> list[bytes]:
    with store.reader() as reader:
        session = reader.session(session_id)
        if session is None:
            return []
        rows = [row for row in reader.states(session.key) if row.name.startswith(PREFIX)]
    return [row.body for row in rows if row.body is not None]


async def swap_question(store: Store, old: Question, new: Question) -> bool:
    """Put *new* in the place of *old*; return False if that is not what stands there any more."""
    name = question_name(old.id)
    body = await store.read_state(old.session_id, name)
    if body is None or encode(decode_question(body)) != encode(old):
        return False
    return await store.swap_state(old.session_id, name, body, encode(new))
