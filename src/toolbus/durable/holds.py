"""Held runs: markers beside their questions, and the next segment after an answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.approvals.records import (
    ANSWERED,
    AWAITED,
    announce_answer,
    awaited_name,
    find_question,
    read_question,
)
from toolbus.durable.runs import read_run, swap_run, workflow_of
from toolbus.errors import DecodeError
from toolbus.messages.codec import decoder, encode

if TYPE_CHECKING:
    from toolbus.approvals.questions import Question
    from toolbus.durable.engine import Engine
    from toolbus.durable.runs import FoundState, Run, RunIndex
    from toolbus.store.protocol import Store


class Marker(Struct, frozen=True):
    """The run that waits for a question, in the session of the question."""

    session_id: str
    run_id: str


_decode_marker = decoder(Marker)


async def hold(store: Store, run: Run) -> None:
    """Leave a marker beside each question of the held *run*; repeated, it changes nothing."""
    body = encode(Marker(run.session_id, run.id))
    for question_id in run.questions:
        question = await _find(store, run, question_id)
        if question is None:
            continue
        await store.swap_state(question.session_id, awaited_name(question), None, body)
        current = await read_question(store, question.session_id, question_id)
        # The answer may have come before the marker.
        if current is not None and current.state != "pending":
            await announce_answer(store, current)


async def wake(store: Store, engine: Engine, index: RunIndex) -> int:
    """Queue the next segment of each held run with an answer; return their number.

    It takes two indexed queries, however many runs are held; several workers may do so at once.
    """
    # Names of awaited questions begin with the time at which they expire.
    now = f"{AWAITED}{time.time_ns():020d}"
    states = [*await index.states(ANSWERED), *await index.states(AWAITED, now)]
    return sum([await _wake(store, engine, state) for state in states])


async def _wake(store: Store, engine: Engine, state: FoundState) -> bool:
    """Queue the next segment of the run that waits for a question, unless it has no answer."""
    question_id = state.name.rpartition(":")[2]
    marker = _decode_marker(state.body)
    try:
        run = await read_run(store, marker.session_id, marker.run_id)
        question = await read_question(store, state.session_id, question_id)
    except DecodeError:
        run = question = None
    is_awaited = run is not None and question_id in run.questions
    held, is_woken = run, False
    if run is not None and run.word == "held" and is_awaited:
        # The marker of an answer is written before the answer counts.
        if question is not None and question.state == "pending" and _lasts(question):
            return False
        run, is_woken = replace(run, segment=run.segment + 1, word="queued"), True
        if not await swap_run(store, held, run):
            return False  # Another process was first, and may yet be killed before it is done.
    if run is not None and run.word == "queued":
        if not is_awaited:
            return False  # The segment is running, and may come to wait for this question.
        await engine.enqueue(workflow_of(run))
    await _forget(store, state, question)
    return is_woken


def _lasts(question: Question) -> bool:
    return time.time_ns() < question.expires_ns


async def _forget(store: Store, state: FoundState, question: Question | None) -> None:
    """Delete the markers of a question; that of the answer last, by which they are found."""
    names = [state.name] if question is None else [awaited_name(question), state.name]
    for name in dict.fromkeys(names):
        body = await store.read_state(state.session_id, name)
        await store.swap_state(state.session_id, name, body, None)


async def _find(store: Store, run: Run, question_id: str) -> Question | None:
    """Return a question of *run*, in its session or in one below it."""
    own = await read_question(store, run.session_id, question_id)
    return await find_question(store, question_id) if own is None else own
