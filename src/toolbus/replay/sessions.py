"""A session during its replay, and its calls between request and result."""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import force_setattr, replace

from toolbus.components.state import temporary_place
from toolbus.tools.calls.execution import failure

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse


class ReplayedCall(NamedTuple):
    """A call as it would run, or as it was requested if a *response* replaces its result.

    *changed* says that handlers changed it, *dropped* that the request itself was removed, and
    *unjudged* that no handler saw it, since the recording lacks some of its arguments.
    """

    call: ToolCall
    changed: bool = False
    response: ToolResponse | None = None
    dropped: bool = False
    unjudged: bool = False


class ReplaySession:
    """One session during its replay: its scope, and the calls without a result by id."""

    __slots__ = ("outcomes", "scope", "state_place", "waiting")

    def __init__(self, scope: Scope) -> None:
        self.scope, self.state_place = scope, temporary_place(scope.session_id)
        self.waiting: dict[str, ReplayedCall] = {}
        self.outcomes: Counter[str] = Counter()

    def advance(self, run_id: str, turn: int) -> None:
        """Move to another run or turn."""
        # Not `replace`, which is slow: it would convert each frozen field again.
        self.scope = copy(self.scope)
        force_setattr(self.scope, "run_id", run_id)
        force_setattr(self.scope, "turn", turn)


def outcome_of(call: ToolCall, context: EventContext[ToolCall]) -> ReplayedCall:
    """Return the call as a runner would treat it after the dispatch."""
    response = context.answer
    if context.rejected:
        text = f"handler {context.rejected.handler!r} made the arguments invalid: "
        response = failure(text + context.rejected.reason, "invalid_arguments")
    elif context.denied:
        response = failure(context.denied.reason, "denied")
    # For a call that does not run, the runner reports the model's own arguments.
    if response is not None:
        return ReplayedCall(call, response=response)
    return ReplayedCall(context.value, changed=context.value is not call)


def with_call_facts(message: ToolMessage, replayed: ReplayedCall) -> ToolMessage:
    """Return a result with the facts of its call, from which adapters rebuild the call.

    The recorded facts stay unless the handlers changed the call or gave its result.
    """
    response = replayed.response or message.tool_response
    if response is None:
        return message
    if replayed.response is None and response.parameters is not None and not replayed.changed:
        return message
    call = replayed.call
    response = replace(
        response,
        tool_name=call.name,
        tool_call_id=call.id,
        parameters=call.arguments,
        duration_ns=None if message.tool_response is None else message.tool_response.duration_ns,
    )
    return replace(message, tool_name=call.name, tool_response=response)
