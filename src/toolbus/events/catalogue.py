"""All events of an agent's life, each with the types of its value and of a handler's results."""

from __future__ import annotations

from typing import Any

from toolbus.errors import RegistrationError
from toolbus.events.call_values import McpRequest, ToolCallOutcome, ToolCallPersist, ToolSpec
from toolbus.events.kinds import Event, ObserveEvent, Scope, TransformEvent
from toolbus.events.values import (
    ModelDelta,
    ModelFailure,
    ModelReply,
    ModelRequest,
    RunFailure,
    RunResult,
    RunStart,
    RunStatus,
    ToolCallFailure,
    TurnEnd,
)
from toolbus.events.verdicts import Ask, Deny, Retry
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolResponse

__all__ = [
    "CATALOGUE",
    "MCP_REQUEST_BEFORE",
    "MESSAGE_APPEND_AFTER",
    "MESSAGE_APPEND_BEFORE",
    "MESSAGE_PERSIST_BEFORE",
    "MODEL_CALL_AFTER",
    "MODEL_CALL_BEFORE",
    "MODEL_CALL_DELTA",
    "MODEL_CALL_ERROR",
    "RUN_AFTER",
    "RUN_BEFORE",
    "RUN_ERROR",
    "TOOLS_PROVIDE",
    "TOOL_CALL_AFTER",
    "TOOL_CALL_BEFORE",
    "TOOL_CALL_ERROR",
    "TOOL_CALL_PERSIST_AFTER",
    "TOOL_CALL_PERSIST_BEFORE",
    "Ask",
    "Deny",
    "Event",
    "McpRequest",
    "ModelDelta",
    "ModelFailure",
    "ModelReply",
    "ModelRequest",
    "ObserveEvent",
    "Retry",
    "RunFailure",
    "RunResult",
    "RunStart",
    "RunStatus",
    "Scope",
    "ToolCallFailure",
    "ToolCallOutcome",
    "ToolCallPersist",
    "ToolSpec",
    "TransformEvent",
    "TurnEnd",
    "by_name",
]

# After each event: when it is dispatched, the effects of a denial and of a failure. On all of them
# a guard that fails denies ("closed"), a transformer that raises or times out changes nothing
# unless its `on_error` differs ("open"), and an observer's failure is only logged.

RUN_BEFORE: TransformEvent[RunStart, RunStart | Deny] = TransformEvent(
    "run:before", RunStart, asks=True
)
"""`agent.run` was called. Denied: the model sees nothing. A failed transformer lets it run."""
RUN_ERROR: TransformEvent[RunFailure, RunFailure | RunResult[Any] | Deny] = TransformEvent(
    "run:error", RunFailure, answer=RunResult
)
"""An exception is about to leave the run. Denied, or a handler fails: the exception leaves."""
RUN_AFTER: ObserveEvent[RunResult[Any]] = ObserveEvent("run:after", RunResult)
"""A run has ended; exactly once per run."""
TOOLS_PROVIDE: TransformEvent[tuple[ToolSpec, ...], tuple[ToolSpec, ...] | Deny] = TransformEvent(
    "tools:provide", tuple[ToolSpec, ...]
)
"""Before each model call. Denied: no tools this turn. A failed transformer hides nothing, a
failed adapter hides its tool."""
MODEL_CALL_BEFORE: TransformEvent[ModelRequest, ModelRequest | AssistantMessage | Deny] = (
    TransformEvent("model:call:before", ModelRequest, answer=AssistantMessage)
)
"""The request before it is sent. Denied: the run ends. A failed transformer leaves it as it is."""
MODEL_CALL_ERROR: TransformEvent[ModelFailure, ModelFailure | AssistantMessage | Deny] = (
    TransformEvent("model:call:error", ModelFailure, answer=AssistantMessage)
)
"""The model failed. Denied, or a handler fails: the error is raised."""
MODEL_CALL_DELTA: ObserveEvent[ModelDelta] = ObserveEvent("model:call:delta", ModelDelta)
"""A piece of a streamed answer, shown once no handler can change or deny it any more."""
MODEL_CALL_AFTER: ObserveEvent[ModelReply] = ObserveEvent("model:call:after", ModelReply)
"""The model has answered: the answer is as the model gave it, before any handler has judged it.

To log answers, observe `MESSAGE_APPEND_AFTER`, which has the admitted message."""
TOOL_CALL_BEFORE: TransformEvent[ToolCall, ToolCall | ToolResponse | Deny] = TransformEvent(
    "tool:call:before", ToolCall, answer=ToolResponse, asks=True, strict=True
)
"""A tool is about to run. Denied: it does not.

A transformer that raises lets it run. A result that is not a value, answer or verdict (the class
`Deny`, False, a dict) denies, whatever the handler's policy."""
TOOL_CALL_ERROR: TransformEvent[ToolCallFailure, ToolCallFailure | ToolResponse | Retry | Deny] = (
    TransformEvent("tool:call:error", ToolCallFailure, answer=ToolResponse | Retry)
)
"""A tool failed or timed out. Denied, or a handler fails: the result is the error."""
TOOL_CALL_AFTER: ObserveEvent[ToolCallOutcome] = ObserveEvent("tool:call:after", ToolCallOutcome)
"""A call has ended, on every path: its outcome."""
MESSAGE_APPEND_BEFORE: TransformEvent[Message, Message | Deny] = TransformEvent(
    "message:append:before", Message
)
"""A message is about to enter the transcript. Denied: it does not; in place of a tool message the
denial enters. A failed transformer admits it as it is; a failed adapter withholds the result."""
MESSAGE_PERSIST_BEFORE: TransformEvent[Message, Message | Deny] = TransformEvent(
    "message:persist:before", Message
)
"""The copy for the store. Denied: a stub is stored. A failed transformer stores the copy as it is,
unredacted: redact with `on_error="closed"`."""
TOOL_CALL_PERSIST_BEFORE: ObserveEvent[ToolCallPersist] = ObserveEvent(
    "tool:call:persist:before", ToolCallPersist, awaited=True
)
"""A tool's result is about to be stored."""
TOOL_CALL_PERSIST_AFTER: ObserveEvent[ToolCallPersist] = ObserveEvent(
    "tool:call:persist:after", ToolCallPersist, awaited=True
)
"""A tool's result was stored."""
MESSAGE_APPEND_AFTER: ObserveEvent[Message] = ObserveEvent("message:append:after", Message)
"""A message is in the transcript and in the store."""

MCP_REQUEST_BEFORE: TransformEvent[McpRequest, McpRequest | Deny] = TransformEvent(
    "mcp:request:before", McpRequest, strict=True
)
"""A client of `toolbus proxy` reads or subscribes to a resource, gets a prompt, or has an argument
completed, and the server has not seen it yet. Denied: it never does. A transformer that raises lets
it pass; a result that is not a value or verdict denies, as at `TOOL_CALL_BEFORE`."""

CATALOGUE: tuple[Event, ...] = (
    RUN_BEFORE,
    RUN_ERROR,
    RUN_AFTER,
    TOOLS_PROVIDE,
    MODEL_CALL_BEFORE,
    MODEL_CALL_ERROR,
    MODEL_CALL_DELTA,
    MODEL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOL_CALL_AFTER,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_AFTER,
    MESSAGE_APPEND_AFTER,
    MCP_REQUEST_BEFORE,
)
"""Every event that the library dispatches."""


def check_event(event: object) -> None:
    """Raise `RegistrationError` unless *event* is an event; for a name, suggest its object."""
    if isinstance(event, TransformEvent | ObserveEvent):
        return
    reason = "expected a TransformEvent or an ObserveEvent"
    if isinstance(event, str):
        # The name of an event or of its constant.
        known = by_name(event.lower().replace("_", ":"))
        constant = known.name.upper().replace(":", "_")
        reason = f"events are objects, not strings; use `toolbus.events.{constant}` "
        reason += f"or `toolbus.events.by_name({known.name!r})`"
    elif callable(event):
        reason = f"{reason}; the event comes first, `on(EVENT, handler)` or `@on(EVENT)`"
    raise RegistrationError(f"event {event!r}", reason)


def by_name(name: str) -> Event:
    """Return the event of the catalogue called *name*; raises `RegistrationError`."""
    known = {event.name: event for event in CATALOGUE}
    if event := known.get(name):
        return event
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, rarely needed

    near = get_close_matches(name, known, 1) or sorted(known)
    raise RegistrationError(f"event {name!r}", f"not in the catalogue; known: {', '.join(near)}")
