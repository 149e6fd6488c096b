"""Calls of a session without an answer: waiting for a person, or left open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.tools.calls.gate import OpenCalls, ResumeGate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from toolbus.agent.sessions import AgentSession
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolCall

WITHDRAWN = "the question about this call was withdrawn, because the conversation went on"
"""A model's text for a waiting call after another message was appended."""


async def find_open(session: AgentSession) -> OpenCalls:
    """Return the calls of *session* that can go on, after a repair of a killed process's state."""
    gate, transcript = session.config.gate, session.transcript
    if not isinstance(gate, ResumeGate):
        return OpenCalls()
    open_ids = {call.id for call in transcript.unanswered}

    def is_answered(call_id: str) -> bool:
        return transcript.has_call(call_id) and call_id not in open_ids

    open_calls = await gate.find_open(session.scope.session_id, open_ids, is_answered)
    transcript.left_open -= open_calls.untold
    return open_calls


async def find_pending(session: AgentSession) -> tuple[str, ...]:
    """Return the ids of the open questions in *session* and below it."""
    gate = session.config.gate
    if not isinstance(gate, ResumeGate):
        return ()
    return await gate.find_pending(session.scope.session_id)


async def resume_open_calls(
    session: AgentSession, scope: Scope
) -> tuple[list[ToolCall], Mapping[str, str]]:
    """Answer the open calls of *session* that cannot go on; return the rest and those begun."""
    await _answer_ended(session, scope)
    calls, open_calls = session.transcript.unanswered, await find_open(session)
    await interrupt(session, scope, [call for call in calls if not open_calls.has(call)])
    return [call for call in calls if open_calls.has(call)], open_calls.continued


async def settle(session: AgentSession, scope: Scope) -> None:
    """Answer the calls that a former process, a failed store or a cancellation left open.

    Open questions are withdrawn.
    """
    await _answer_ended(session, scope)
    calls = session.transcript.unanswered
    open_calls = await find_open(session)
    withdrawn = {*open_calls.waiting, *open_calls.untold}
    waiting = [call for call in calls if call.id in withdrawn]
    await withdraw(session, [call.id for call in calls if open_calls.has(call)])
    if waiting:
        await session.runner(scope).close_refused(waiting, WITHDRAWN)
    await interrupt(session, scope, [call for call in calls if call not in waiting])


async def withdraw_answered(session: AgentSession, calls: Iterable[ToolCall]) -> None:
    """Withdraw the questions of *calls* that have an answer already."""
    unanswered = {call.id for call in session.transcript.unanswered}
    await withdraw(session, [call.id for call in calls if call.id not in unanswered])


async def withdraw(session: AgentSession, call_ids: Collection[str]) -> None:
    """Withdraw the questions of calls of *session*, or below them."""
    if isinstance(session.config.gate, ResumeGate):
        await session.config.gate.withdraw(session.scope.session_id, call_ids)


async def interrupt(session: AgentSession, scope: Scope, calls: list[ToolCall]) -> None:
    """Answer *calls* as they have ended here, or else as interrupted."""
    if calls:
        await session.runner(scope).close_interrupted(calls)


async def _answer_ended(session: AgentSession, scope: Scope) -> None:
    """Answer the calls that have ended here, before their questions are looked up."""
    calls = session.transcript.unanswered
    await interrupt(session, scope, [call for call in calls if session.reported.get(call.id)])
