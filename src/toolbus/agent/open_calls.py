"""Calls of a session that have no answer yet: those that wait for a person, and those left open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.approvals import sub_sessions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.agent.sessions import AgentSession
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolCall

WITHDRAWN = "the question about this call was withdrawn: the conversation went on"
"""What a model reads of a call that waited when somebody else said something."""


class OpenCalls(NamedTuple):
    """Open calls: of *waiting* none has run; *continued* are sub-agents that wait below them.

    Both have the ids of calls, with the question or the session that they wait for.
    """

    waiting: Mapping[str, str]
    continued: Mapping[str, str]

    def has(self, call: ToolCall) -> bool:
        """Tell whether *call* waits for a person, itself or below."""
        return call.id in self.waiting or call.id in self.continued


async def find_open(session: AgentSession) -> OpenCalls:
    """Return what waits in *session*, after putting right what a killed process left there."""
    approvals, transcript = session.config.approvals, session.transcript
    if approvals.store is None:
        return OpenCalls({}, {})
    session_id = session.scope.session_id
    ids = [call.id for call in transcript.unanswered]
    continued = await sub_sessions.find_waiting(approvals.store, session_id, ids)
    open_ids = set(ids)

    def is_answered(call_id: str) -> bool:
        return transcript.has_call(call_id) and call_id not in open_ids

    waiting = await approvals.repair(session_id, ids, is_answered, continued)
    return OpenCalls(waiting, continued)


async def settle(session: AgentSession, scope: Scope) -> None:
    """Answer the calls that a former process, a failed store or a cancellation left open.

    What waits for a person is withdrawn.
    """
    calls = session.transcript.unanswered
    open_calls = await find_open(session)
    if waiting := [call for call in calls if open_calls.has(call)]:
        await session.config.approvals.withdraw(scope.session_id, [call.id for call in waiting])
        await session.runner(scope).close_refused(waiting, WITHDRAWN)
    await interrupt(session, scope, [call for call in calls if not open_calls.has(call)])


async def interrupt(session: AgentSession, scope: Scope, calls: list[ToolCall]) -> None:
    """Answer *calls* as interrupted."""
    if calls:
        transcript = session.transcript
        await session.runner(scope).close_interrupted(calls, transcript.left_open)
        # From here on the id of one of them is that of a new call.
        transcript.left_open = frozenset()
