"""The session of a sub-agent that waits: which one a call of its caller goes on with.

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


async def find_waiting(store: Store, session_id: str, call_ids: Iterable[str]) -> dict[str, str]:
    """Return the sessions that wait for a person below a session, by the ids of their calls."""
    linked = {}
    for call_id in call_ids:
        body = await store.read_state(session_id, f"{LINK_PREFIX}{call_id}")
        if body is not None:
            linked[call_id] = msgspec.json.decode(body, type=str)
    if not linked:
        return {}
    waiting = await asyncio.to_thread(_waiting, store, list(linked.values()))
    return {call_id: below for call_id, below in linked.items() if below in waiting}


async def find_below(store: Store, session_id: str, call_ids: Iterable[str] | None) -> list[str]:
    """Return the sessions right below a session, of these calls or of all."""
    wanted = None if call_ids is None else {f"{LINK_PREFIX}{call_id}" for call_id in call_ids}

    def read() -> list[str]:
        with store.reader() as reader:
            links = _links(reader, session_id)
            return [below for name, below in links if wanted is None or name in wanted]

    return await asyncio.to_thread(read)


def _waiting(store: Store, session_ids: Iterable[str]) -> set[str]:
    with store.reader() as reader:
        return {each for each in session_ids if _waits(reader, each, _DEEPEST)}


def _waits(reader: StoreReader, session_id: str, depth: int) -> bool:
    """Tell whether a question waits in a session or below it; too deep, nothing does."""
    row = reader.session(session_id)
    if row is None or not depth:
        return False
    for state in reader.states(row.key):
        if state.body is not None and state.name.startswith(PREFIX):
            question = msgspec.json.decode(state.body, type=Question)
            if waits_for_call(question):
                return True
    return any(_waits(reader, below, depth - 1) for _, below in _links(reader, session_id))


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
