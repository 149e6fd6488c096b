"""Calls of a session that have no answer yet: those that wait for a person, and those left open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.approvals import sub_sessions
from toolbus.messages.records import ToolMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toolbus.agent.sessions import AgentSession
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolCall

WITHDRAWN = "the question about this call was withdrawn: the conversation went on"
"""What a model reads of a call that waited when somebody else said something."""


class OpenCalls(NamedTuple):
    """Open calls: of *waiting* none has run; those of *continued* have begun sub-agents.

    Both have the ids of calls, with the question or the session below.
    """

    waiting: Mapping[str, str]
    continued: Mapping[str, str]

    def has(self, call: ToolCall) -> bool:
        """Tell whether *call* can go on."""
        return call.id in self.waiting or call.id in self.continued


async def find_open(session: AgentSession) -> OpenCalls:
    """Return what can go on in *session*, after putting right what a killed process left there."""
    approvals, transcript = session.config.approvals, session.transcript
    if approvals.store is None:
        return OpenCalls({}, {})
    session_id = session.scope.session_id
    ids = [call.id for call in transcript.unanswered]
    continued = await sub_sessions.find_linked(approvals.store, session_id, ids)
    open_ids = set(ids)

    def is_answered(call_id: str) -> bool:
        return transcript.has_call(call_id) and call_id not in open_ids

    waiting = await approvals.repair(session_id, ids, is_answered, continued)
    open_calls = OpenCalls(waiting, continued)
    if transcript.left_open:
        await _note_untold(session, open_calls)
    return open_calls


async def _note_untold(session: AgentSession, open_calls: OpenCalls) -> None:
    """Note that no process has told of calls whose question waits, here or below them."""
    from toolbus.approvals.records import questions_of  # noqa: PLC0415 - only for resumed sessions

    store, transcript = session.config.approvals.store, session.transcript
    assert store is not None  # noqa: S101 - what can go on is kept there
    questions = await questions_of(store, session.scope.session_id)
    heard = {each.id for each in questions if not sub_sessions.waits_for_call(each)}
    waiting = {key for key, question_id in open_calls.waiting.items() if question_id not in heard}
    below = [
        each for each in transcript.unanswered if await _waits_below(session, open_calls, each)
    ]
    transcript.left_open -= waiting.union([call.id for call in below])


async def find_pending(session: AgentSession) -> tuple[str, ...]:
    """Return the ids of the questions that wait in *session* and below it."""
    store = session.config.approvals.store
    if store is None:
        return ()
    return await sub_sessions.find_pending(store, session.scope.session_id)


async def take_up(session: AgentSession, scope: Scope) -> tuple[list[ToolCall], Mapping[str, str]]:
    """Return the calls of *session* that can go on, and those of them that have begun.

    All others that are open are answered, as they ended or as interrupted.
    """
    await _answer_ended(session, scope)
    calls, open_calls = session.transcript.unanswered, await find_open(session)
    await interrupt(session, scope, [call for call in calls if not open_calls.has(call)])
    return [call for call in calls if open_calls.has(call)], open_calls.continued


async def settle(session: AgentSession, scope: Scope) -> None:
    """Answer the calls that a former process, a failed store or a cancellation left open.

    What waits for a person is withdrawn.
    """
    await _answer_ended(session, scope)
    calls = session.transcript.unanswered
    open_calls = await find_open(session)
    waiting = [
        call
        for call in calls
        if call.id in open_calls.waiting or await _waits_below(session, open_calls, call)
    ]
    await withdraw(session, [call.id for call in calls if open_calls.has(call)])
    if waiting:
        await session.runner(scope).close_refused(waiting, WITHDRAWN)
    await interrupt(session, scope, [call for call in calls if call not in waiting])


async def _waits_below(session: AgentSession, open_calls: OpenCalls, call: ToolCall) -> bool:
    """Tell whether a sub-agent that *call* has begun waits for a person."""
    store, below = session.config.approvals.store, open_calls.continued.get(call.id)
    if store is None or below is None:
        return False
    return bool(await sub_sessions.find_pending(store, below))


async def withdraw_answered(session: AgentSession, calls: Iterable[ToolCall]) -> None:
    """Withdraw what waits for those of *calls* that have their answer without it."""
    unanswered = {call.id for call in session.transcript.unanswered}
    await withdraw(session, [call.id for call in calls if call.id not in unanswered])


async def withdraw(session: AgentSession, call_ids: Sequence[str]) -> None:
    """Withdraw what waits for calls of *session*, or below them."""
    approvals, session_id = session.config.approvals, session.scope.session_id
    store = approvals.store
    if store is None or not call_ids:
        return
    await approvals.withdraw(session_id, call_ids)
    for below in await sub_sessions.find_below(store, session_id, call_ids):
        messages = await store.read(below)
        answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
        # Nobody will write that session any more.
        await approvals.repair(below, (), answered.__contains__)
        await approvals.withdraw(below)


async def interrupt(session: AgentSession, scope: Scope, calls: list[ToolCall]) -> None:
    """Answer *calls* as they have ended here, or else as interrupted."""
    if calls:
        await session.runner(scope).close_interrupted(calls)


async def _answer_ended(session: AgentSession, scope: Scope) -> None:
    """Answer the calls that have ended here already: what is known of questions follows that."""
    await interrupt(session, scope, list(filter(session.has_ended, session.transcript.unanswered)))
