"""Links from calls to the sessions of their sub-agents, so that a call can continue with its own.

A link is the state `below:CALL` of the caller's session, written before the sub-agent starts.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from toolbus.approvals.records import readable_questions
from toolbus.errors import DecodeError
from toolbus.messages.codec import decoder, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.approvals.questions import Question
    from toolbus.store.protocol import Store
    from toolbus.store.store_reader import StoreReader

logger = logging.getLogger("toolbus")

LINK_PREFIX = "below:"
_DEEPEST = 64
"""The deepest chain of sessions that is followed."""

_decode_id = decoder(str)


async def link(store: Store, session_id: str, call_id: str, below: str) -> None:
    """Record that a call of a session runs the session *below*; a later record replaces it."""
    name, body = f"{LINK_PREFIX}{call_id}", encode(below)
    while not await store.swap_state(
        session_id, name, await store.read_state(session_id, name), body
    ):
        pass


async def find_linked(store: Store, session_id: str, call_ids: Iterable[str]) -> dict[str, str]:
    """Return the linked sessions of these calls of a session, by call id."""
    linked = {}
    for call_id in call_ids:
        name = f"{LINK_PREFIX}{call_id}"
        below = _linked(session_id, name, await store.read_state(session_id, name))
        if below is not None:
            linked[call_id] = below
    return linked


async def find_below(store: Store, session_id: str, call_ids: Iterable[str] | None) -> list[str]:
    """Return the sessions below these calls of a session, at any depth; None: below all calls."""
    names = None if call_ids is None else {f"{LINK_PREFIX}{call_id}" for call_id in call_ids}

    def read() -> list[str]:
        with store.reader() as reader:
            links = _links(reader, session_id)
            tops = [below for name, below in links if names is None or name in names]
            return [each for top in tops for each in _sessions(reader, top, _DEEPEST)]

    return await asyncio.to_thread(read)


async def find_pending(store: Store, session_id: str) -> tuple[str, ...]:
    """Return the ids of the pending questions of a session and of those below it."""

    def read() -> tuple[str, ...]:
        with store.reader() as reader:
            return tuple(
                question.id
                for each in _sessions(reader, session_id, _DEEPEST)
                for question in readable_questions(reader, each)
                if waits_for_call(question)
            )

    return await asyncio.to_thread(read)


def _sessions(reader: StoreReader, session_id: str, depth: int) -> Iterator[str]:
    """Yield a session and the sessions below it, at most *depth* levels deep."""
    if depth:
        yield session_id
        for _, below in _links(reader, session_id):
            yield from _sessions(reader, below, depth - 1)


def waits_for_call(question: Question) -> bool:
    """Return whether the call of *question* still waits: no answer, or an undelivered refusal."""
    if question.state in {"pending", "approved"}:
        return True
    return question.state in {"denied", "expired"} and not question.delivered


def _links(reader: StoreReader, session_id: str) -> list[tuple[str, str]]:
    """Return the names of the links of a session, and their sessions."""
    row = reader.session(session_id)
    links = [
        (state.name, _linked(session_id, state.name, state.body))
        for state in (() if row is None else reader.states(row.key))
        if state.name.startswith(LINK_PREFIX)
    ]
    return [(name, below) for name, below in links if below is not None]


def _linked(session_id: str, name: str, body: bytes | None) -> str | None:
    """Return the linked session; an unreadable link is logged, and None is returned."""
    try:
        return None if body is None else _decode_id(body)
    except DecodeError as error:
        logger.error("%s of session %r cannot be read: %s", name, session_id, error)  # noqa: TRY400 - it says all
        return None
