"""The sessions of sub-agents: which one a call of their caller goes on with.

The session of the caller keeps it as `below:CALL`, written before the sub-agent begins.
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
"""Sessions below one another; more than that is no chain that agents have made."""

_decode_id = decoder(str)


async def link(store: Store, session_id: str, call_id: str, below: str) -> None:
    """Note that the call of a session runs the session *below*, the latest if it is run again."""
    name, body = f"{LINK_PREFIX}{call_id}", encode(below)
    while not await store.swap_state(
        session_id, name, await store.read_state(session_id, name), body
    ):
        pass


async def find_linked(store: Store, session_id: str, call_ids: Iterable[str]) -> dict[str, str]:
    """Return the sessions that these calls of a session have begun, by the ids of the calls."""
    linked = {}
    for call_id in call_ids:
        name = f"{LINK_PREFIX}{call_id}"
        below = _linked(session_id, name, await store.read_state(session_id, name))
        if below is not None:
            linked[call_id] = below
    return linked


async def find_below(store: Store, session_id: str, call_ids: Iterable[str]) -> list[str]:
    """Return the sessions that these calls of a session run, and all below those."""
    names = {f"{LINK_PREFIX}{call_id}" for call_id in call_ids}

    def read() -> list[str]:
        with store.reader() as reader:
            links = list(_links(reader, session_id))
            tops = [below for name, below in links if name in names]
            return [each for top in tops for each in (top, *_below(reader, top, _DEEPEST))]

    return await asyncio.to_thread(read)


async def find_pending(store: Store, session_id: str) -> tuple[str, ...]:
    """Return the ids of the questions that wait in a session and in those below it."""

    def read() -> tuple[str, ...]:
        with store.reader() as reader:
            return tuple(_pending(reader, session_id, _DEEPEST))

    return await asyncio.to_thread(read)


def _pending(reader: StoreReader, session_id: str, depth: int) -> Iterator[str]:
    """Give the questions that wait in a session or below it; too deep, nothing does."""
    if not depth:
        return
    for question in readable_questions(reader, session_id):
        if waits_for_call(question):
            yield question.id
    for _, below in list(_links(reader, session_id)):
        yield from _pending(reader, below, depth - 1)


def _below(reader: StoreReader, session_id: str, depth: int) -> Iterator[str]:
    for _, below in list(_links(reader, session_id)) if depth else ():
        yield below
        yield from _below(reader, below, depth - 1)


def waits_for_call(question: Question) -> bool:
    """Tell whether the call of *question* has not ended: it waits, or has not heard the answer."""
    if question.state in {"pending", "approved"}:
        return True
    return question.state in {"denied", "expired"} and not question.delivered


def _links(reader: StoreReader, session_id: str) -> Iterator[tuple[str, str]]:
    row = reader.session(session_id)
    for state in () if row is None else reader.states(row.key):
        if state.name.startswith(LINK_PREFIX):
            below = _linked(session_id, state.name, state.body)
            if below is not None:
                yield state.name, below


def _linked(session_id: str, name: str, body: bytes | None) -> str | None:
    """Return the session that a link leads to; one that cannot be read is logged, and is none."""
    try:
        return None if body is None else _decode_id(body)
    except DecodeError as error:
        logger.error("%s of session %r cannot be read: %s", name, session_id, error)  # noqa: TRY400 - it says all
        return None
