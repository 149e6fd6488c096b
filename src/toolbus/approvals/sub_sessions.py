"""The sessions of sub-agents: which one a call of their caller goes on with.

The session of the caller keeps it as `below:CALL`, written before the sub-agent begins.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from toolbus.approvals.questions import PREFIX, Question

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.store.protocol import Store
    from toolbus.store.reading import StoreReader

LINK_PREFIX = "below:"
_DEEPEST = 64
"""Sessions below one another; more than that is no chain that agents have made."""


async def link(store: Store, session_id: str, call_id: str, below: str) -> None:
    """Note that the call of a session runs the session *below*, the latest if it is run again."""
    name, body = f"{LINK_PREFIX}{call_id}", msgspec.json.encode(below)
    while not await store.swap_state(
        session_id, name, await store.read_state(session_id, name), body
    ):
        pass


async def find_linked(store: Store, session_id: str, call_ids: Iterable[str]) -> dict[str, str]:
    """Return the sessions that these calls of a session have begun, by the ids of the calls."""
    linked = {}
    for call_id in call_ids:
        body = await store.read_state(session_id, f"{LINK_PREFIX}{call_id}")
        if body is not None:
            linked[call_id] = msgspec.json.decode(body, type=str)
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
    row = reader.session(session_id)
    if row is None or not depth:
        return
    for state in reader.states(row.key):
        if state.body is not None and state.name.startswith(PREFIX):
            question = msgspec.json.decode(state.body, type=Question)
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
        if state.body is not None and state.name.startswith(LINK_PREFIX):
            yield state.name, msgspec.json.decode(state.body, type=str)
