"""Held runs, and their next segments after an answer.

A run is the awaiter of its session from its submission on, so that each answer to its questions
leaves a marker before it counts. A run that is held leaves a marker of its own, whose name has the
time when its first question expires, or the run itself; it stays until then.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from toolbus.approvals.records import ANSWERED, AWAITER, find_question, read_question
from toolbus.durable.runs import OPEN_WORDS, begin_next, read_run, workflow_of
from toolbus.errors import DecodeError, SessionBusyError
from toolbus.messages.codec import decoder, encode

if TYPE_CHECKING:
    from toolbus.durable.engine import WorkflowEngine
    from toolbus.durable.runs import DurableRun, FoundState, RunIndex
    from toolbus.store.protocol import Store

logger = logging.getLogger("toolbus.durable")

EXPIRES = "durable-expires:"
"""The prefix of the names of markers of held runs, before NANOSECONDS:SEGMENT."""


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


async def mark_expiry(store: Store, run: DurableRun) -> None:
    """Leave a marker for the first end of a question of *run*, which is to be held, or its own."""
    # A question may be in a session below.
    questions = [await find_question(store, question_id) for question_id in run.questions]
    ends = [question.expires_ns for question in questions if question is not None]
    if run.ends_ns:
        ends.append(run.ends_ns)
    name = f"{EXPIRES}{min(ends, default=0):020d}:{run.segment}"
    await store.swap_state(run.session_id, name, None, encode(Awaiter(run.session_id, run.id)))


async def wake(store: Store, engine: WorkflowEngine, index: RunIndex) -> int:
    """Queue the next segment of each held run with an answer; return their number.

    It takes two indexed queries, however many runs are held; several workers may do so at once.
    """
    now = f"{EXPIRES}{time.time_ns():020d}"
    markers = [*await index.states(ANSWERED), *await index.states(EXPIRES, now)]
    return sum([await _wake(store, engine, marker) for marker in markers])


async def _wake(store: Store, engine: WorkflowEngine, marker: FoundState) -> bool:
    """Queue the next segment of the run behind *marker* if it is due, and delete a used marker."""
    try:
        awaiter = _decode_awaiter(marker.body)
        run = await read_run(store, awaiter.session_id, awaiter.run_id)
        state = "over" if run is None else await _state_of(store, run, marker)
    except DecodeError:
        logger.warning("marker %s cannot be read, and is deleted", marker.name)
        run, state = None, "over"
    if state == "early":
        return False
    if run is not None and state == "due":
        changes = {"woken_by": marker.name, "deaths": 0}
        if await begin_next(store, engine, run, **changes) is None:
            return False  # Another process was first.
    elif run is not None and state == "used":
        await engine.enqueue(workflow_of(run))  # A kill may have come before that.
    await store.swap_state(marker.session_id, marker.name, marker.body, None)
    return state == "due"


async def _state_of(
    store: Store, run: DurableRun, marker: FoundState
) -> Literal["early", "due", "used", "over"]:
    """Return what *marker* means for *run*."""
    if run.word == "queued":
        # The segment may yet come to wait for the question.
        return "used" if run.woken_by == marker.name else "early"
    if run.word != "held":
        return "over"
    name = marker.name.rpartition(":")[2]
    if marker.name.startswith(EXPIRES):
        return "due" if run.segment == int(name) else "over"
    if name not in run.questions:
        return "over"
    # The marker is written before the answer counts.
    question = await read_question(store, marker.session_id, name)
    if question is None or question.state != "pending":
        return "due"
    return "early" if time.time_ns() < question.expires_ns else "due"
