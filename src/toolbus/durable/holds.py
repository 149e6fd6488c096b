"""Held runs, and their next segments after an answer.

A run is the awaiter of its session from its submission on, so that each answer leaves a marker
before it counts. A held run leaves markers of its own, named by the time when questions expire.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.approvals.records import ANSWERED, AWAITER, find_question, read_question
from toolbus.durable.runs import OPEN_WORDS, read_run, swap_run, workflow_of
from toolbus.errors import DecodeError, SessionBusyError
from toolbus.messages.codec import decoder, encode

if TYPE_CHECKING:
    from toolbus.approvals.questions import Question
    from toolbus.durable.engine import WorkflowEngine
    from toolbus.durable.runs import DurableRun, FoundState, RunIndex
    from toolbus.store.protocol import Store


logger = logging.getLogger("toolbus.durable")

EXPIRES = "durable-expires:"
"""The prefix of markers of held runs, before NANOSECONDS:QUESTION, in the question's session."""


class Awaiter(Struct, frozen=True):
    """The run to go on after the answers to a session's questions."""

    session_id: str
    run_id: str


_decode_awaiter = decoder(Awaiter)


async def open_run(store: Store, session_id: str) -> DurableRun | None:
    """Return the run of a session that has not ended, None if there is none."""
    body = await store.read_state(session_id, AWAITER)
    if body is None:
        return None
    awaiter = _decode_awaiter(body)
    run = await read_run(store, awaiter.session_id, awaiter.run_id)
    return run if run is not None and run.word in OPEN_WORDS else None


async def await_answers(store: Store, run: DurableRun) -> None:
    """Make *run* the awaiter of its session; raises `SessionBusyError` beside another open run."""
    body = encode(Awaiter(run.session_id, run.id))
    while (old := await store.read_state(run.session_id, AWAITER)) != body:
        before = await open_run(store, run.session_id)
        if before is not None:
            reason = f"its run {before.id} has not ended; wait for its end, or cancel it"
            raise SessionBusyError(run.session_id, reason)
        await store.swap_state(run.session_id, AWAITER, old, body)


async def hold(store: Store, run: DurableRun) -> None:
    """Leave a marker for the end of each question of the held *run*; repeated, it does nothing."""
    body = encode(Awaiter(run.session_id, run.id))
    for question_id in run.questions:
        question = await read_question(store, run.session_id, question_id)
        if question is None:  # It is in a session below.
            question = await find_question(store, question_id)
        if question is not None:
            await store.swap_state(question.session_id, _expiry(question), None, body)


def _expiry(question: Question) -> str:
    return f"{EXPIRES}{question.expires_ns:020d}:{question.id}"


async def wake(store: Store, engine: WorkflowEngine, index: RunIndex) -> int:
    """Queue the next segment of each held run with an answer; return their number.

    It takes two indexed queries, however many runs are held; several workers may do so at once.
    """
    now = f"{EXPIRES}{time.time_ns():020d}"
    states = [*await index.states(ANSWERED), *await index.states(EXPIRES, now)]
    return sum([await _wake(store, engine, state) for state in states])


async def _wake(store: Store, engine: WorkflowEngine, state: FoundState) -> bool:
    """Queue the next segment of the run behind a marker, unless its question has no answer."""
    question_id = state.name.rpartition(":")[2]
    try:
        awaiter = _decode_awaiter(state.body)
        run = await read_run(store, awaiter.session_id, awaiter.run_id)
        question = await read_question(store, state.session_id, question_id)
    except DecodeError:
        logger.warning("marker %s cannot be read, and is deleted", state.name)
        run = question = None
    if run is not None and run.word == "queued" and question_id not in run.questions:
        return False  # The segment is running, and may come to wait for this question.
    is_woken = False
    if run is not None and question_id in run.questions:
        if run.word == "held":
            run = await _begin_next(store, run, question)
            if run is None:
                return False
            is_woken = True
        if run.word == "queued":
            await engine.enqueue(workflow_of(run))
    await _forget(store, state, question)
    return is_woken


async def _begin_next(
    store: Store, run: DurableRun, question: Question | None
) -> DurableRun | None:
    """Record the next segment of *run*; None: *question* is open, or another process was first."""
    # The marker is written before the answer counts.
    if question is not None and question.state == "pending" and _lasts(question):
        return None
    queued = replace(run, segment=run.segment + 1, word="queued")
    return queued if await swap_run(store, run, queued) else None


def _lasts(question: Question) -> bool:
    return time.time_ns() < question.expires_ns


async def _forget(store: Store, state: FoundState, question: Question | None) -> None:
    """Delete the markers of a question, last the marker *state*."""
    names = [state.name] if question is None else [_expiry(question), state.name]
    for name in dict.fromkeys(names):
        body = await store.read_state(state.session_id, name)
        await store.swap_state(state.session_id, name, body, None)
