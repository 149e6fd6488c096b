"""The admission of a message to a session, and the replacement of a refused one."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.bus.grace import within_grace
from toolbus.errors import DeadlineError, MessageDenied
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY
from toolbus.messages.reasoning import without_broken_seals
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import JsonObject


OVERDUE = "a handler did not end, even after it was cut off"
"""The reason to withhold values that an unfinished handler may still change."""


async def admit(  # noqa: PLR0917 - the facts that a transcript has about a message
    bus: EventBus,
    message: Message,
    scope: Scope,
    tool: ToolSpec | None = None,
    asked: Container[str] = (),
    judge: Callable[[Message], str | None] | None = None,
    *,
    sheltered: bool = False,
) -> Message:
    """Return *message* as it may be appended; *asked* has the ids of the earlier calls.

    *judge* returns a reason to refuse the handlers' result, or None. A *sheltered* caller is never
    cancelled, or does not wait after a cancellation.

    A refused tool message is returned as an error response with the reason, so that its call has
    an answer; for another role `MessageDenied` is raised.
    """
    message = without_stale_content(message)
    if not bus.has_listeners(MESSAGE_APPEND_BEFORE):
        return message
    check = _check_of(message, tool, asked)
    dispatch = partial(
        bus.apply, MESSAGE_APPEND_BEFORE, message, scope=scope, tool=tool, check=check
    )
    try:
        context = await within_grace(bus, MESSAGE_APPEND_BEFORE, dispatch, sheltered=sheltered)
    except DeadlineError:
        return refused(message, f"the result was withheld: {OVERDUE}", "withheld")
    if context.ends(judging=True):
        return _refusal_in(context, message)
    after = context.value
    if after is not message:
        after = normalized(message, after)
    if judge is not None and (objection := judge(after)):
        return refused(message, objection, "denied")
    return after


def _refusal_in(context: EventContext[Message], message: Message) -> ToolMessage:
    """Return the error in place of *message*, which the dispatch of *context* has refused."""
    if context.rejected:
        what = "result" if isinstance(message, ToolMessage) else "message"
        blame, reason = context.rejected.handler, context.rejected.reason
        reason = f"handler {blame!r} made the {what} invalid: {reason}"
        return refused(message, reason, "invalid_result")
    # As the transformers left them: one of them may have redacted a secret.
    facts = parameters_of(context.value)
    reason = context.denied.reason if context.denied else ""
    return refused(message, reason, "denied", facts)


def refused(
    message: Message, reason: str, error_type: str, parameters: JsonObject | None = None
) -> ToolMessage:
    """Return the error in place of the tool message *message*; raises for another role.

    It keeps only the facts of the call, with *parameters*, and nothing of the refused content.
    """
    if not isinstance(message, ToolMessage):
        raise MessageDenied(message.role, message.id, reason)
    response = in_place_of(message, reason, error_type, parameters)
    return replace(message, content="", tool_response=response, metadata=EMPTY)


def in_place_of(
    message: ToolMessage, reason: str, error_type: str, parameters: JsonObject | None = None
) -> ToolResponse:
    """Return the error response in place of that of *message*, of which it has only the facts."""
    before = message.tool_response
    return replace(
        ToolResponse.from_text(reason, is_error=True, error_type=error_type),
        tool_name=message.tool_name,
        tool_call_id=message.tool_call_id,
        parameters=parameters,
        duration_ns=None if before is None else before.duration_ns,
    )


def stub(message: Message, reason: str) -> Message:
    """Return the stored copy in place of *message*: its role, ids and call ids, and the reason."""
    match message:
        case AssistantMessage(id=message_id, tool_calls=calls):
            bare = tuple([ToolCall(id=call.id, name=call.name) for call in calls])
            return AssistantMessage(id=message_id, content=reason, tool_calls=bare)
        case ToolMessage(tool_response=ToolResponse() as response):
            bare_response = ToolResponse(
                is_error=response.is_error,
                tool_name=response.tool_name,
                tool_call_id=response.tool_call_id,
                duration_ns=response.duration_ns,
            )
            return replace(message, tool_response=bare_response.with_text(reason), metadata=EMPTY)
    return replace(message, content=reason, metadata=EMPTY)


def check_calls(turn: EventContext[Any], after: Message) -> str | None:
    """Refuse a stored copy with other calls, which would be paired wrongly when read back."""
    if not isinstance(after, AssistantMessage):
        return None
    before, now = ([call.id for call in each.tool_calls] for each in (turn.value, after))
    return None if before == now else "changed the calls of the stored message"


def parameters_of(message: Message) -> JsonObject | None:
    """Return the parameters of the tool that *message* answers for, or None."""
    match message:
        case ToolMessage(tool_response=ToolResponse(parameters=parameters)):
            return parameters
    return None


def without_stale_content(message: Message) -> Message:
    """Return *message* with its text in one place: in the response of a tool message, if any."""
    if isinstance(message, ToolMessage) and message.tool_response is not None and message.content:
        return replace(message, content="")
    return message


def normalized(before: Message, after: Message) -> Message:
    """Return *after*, the handlers' result of *before*, with its text in one place.

    A provider refuses sealed reasoning with another text, so a changed text loses its seal.
    """
    if isinstance(before, AssistantMessage) and isinstance(after, AssistantMessage):
        reasoning = without_broken_seals(before.reasoning, after.reasoning)
        if reasoning is not after.reasoning:
            return replace(after, reasoning=reasoning)
    return without_stale_content(after)


def duplicate_id(message: Message) -> str:
    """Return the reason to refuse *message*, whose id the session has already."""
    return f"it has a message {message.id!r} already; give each message an id of its own"


def repeated_ids(calls: Sequence[ToolCall], asked: Container[str] = ()) -> str | None:
    """Return the reason why the answers of *calls* would be ambiguous, or None.

    An id may repeat neither in *calls* nor from earlier calls, whose ids are *asked*.
    """
    ids = Counter([call.id for call in calls])
    if "" in ids:
        return f"the call of tool {next(call.name for call in calls if not call.id)!r} has no id"
    call_id, times = ids.most_common(1)[0]
    if times > 1:
        return f"{times} calls have the id {call_id!r}"
    if again := [call_id for call_id in ids if call_id in asked]:
        return f"call {again[0]!r} was made already; give each call an id of its own"
    return None


def _check_of(
    message: Message, tool: ToolSpec | None, asked: Container[str]
) -> Callable[[EventContext[Any], Any], str | None] | None:
    """Return the check of replacements of *message*, or None."""
    if isinstance(message, AssistantMessage):
        return partial(_ambiguous_calls, message, asked)
    return None if tool is None or tool.output_schema is None else partial(_broken_result, tool)


def _ambiguous_calls(
    message: AssistantMessage, asked: Container[str], _: EventContext[Any], after: Message
) -> str | None:
    """Return the reason why the calls of *after* are ambiguous, also with calls in *asked*."""
    if not isinstance(after, AssistantMessage) or not after.tool_calls:
        return None
    # A recorded message may repeat earlier calls, which is not its handlers' fault.
    repeated = {call.id for call in message.tool_calls}
    earlier = {call.id for call in after.tool_calls if call.id in asked} - repeated
    return repeated_ids(after.tool_calls, earlier)


def _broken_result(tool: ToolSpec, turn: EventContext[Any], after: Message) -> str | None:
    """Return the problem of a structured result that a handler made invalid, or None.

    A result is valid if it fits the tool's own schema, or the one that the adapters so far promise.
    """
    before, outer = turn.value, turn.tool
    if turn.steps and turn.steps[-1].after is after:
        before, outer = turn.steps[-1].before, turn.steps[-1].tool
    if after is before:
        return None
    problem = _problem(tool, turn.tool, after)
    return None if problem is None or _problem(tool, outer, before) else problem


def _problem(tool: ToolSpec, spec: ToolSpec | None, message: Any) -> str | None:
    """Return the problem of a structured result that fits neither *tool* nor *spec*, or None."""
    response = message.tool_response if isinstance(message, ToolMessage) else None
    if response is None or response.is_error or response.structured is None:
        return None
    problems = [
        schemas.problem(promised.output_schema, response.structured)
        for promised in (spec, tool)
        if promised is not None and promised.output_schema is not None
    ]
    return problems[0] if all(problems) else None
