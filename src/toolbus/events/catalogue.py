"""The named points in an agent's life, and what handlers may say there."""

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

# Beside each event: when it fires, what a denial does, and what a failure does. On all of them a
# guard that fails denies ("closed"), a transformer that raises or times out changes nothing unless
# its `on_error` says so ("open"), and an observer's failure is only logged.

RUN_BEFORE: TransformEvent[RunStart, RunStart | Deny] = TransformEvent(
    "run:before", RunStart, asks=True
)
"""`agent.run` was called. Denied: the model sees nothing. A transformer's failure lets it run."""
RUN_ERROR: TransformEvent[RunFailure, RunFailure | RunResult[Any] | Deny] = TransformEvent(
    "run:error", RunFailure, answer=RunResult
)
"""An exception is about to leave the run. Denied, or a handler fails: it leaves."""
RUN_AFTER: ObserveEvent[RunResult[Any]] = ObserveEvent("run:after", RunResult)
"""A run has ended; always, once per run."""
TOOLS_PROVIDE: TransformEvent[tuple[ToolSpec, ...], tuple[ToolSpec, ...] | Deny] = TransformEvent(
    "tools:provide", tuple[ToolSpec, ...]
)
"""Before each model call. Denied: no tools this turn. A transformer that fails hides nothing, an
adapter that fails hides its tool."""
MODEL_CALL_BEFORE: TransformEvent[ModelRequest, ModelRequest | AssistantMessage | Deny] = (
    TransformEvent("model:call:before", ModelRequest, answer=AssistantMessage)
)
"""What the model will be sent. Denied: the run ends. A transformer's failure sends it as it is."""
MODEL_CALL_ERROR: TransformEvent[ModelFailure, ModelFailure | AssistantMessage | Deny] = (
    TransformEvent("model:call:error", ModelFailure, answer=AssistantMessage)
)
"""The model failed. Denied, or a handler fails: the error stands."""
MODEL_CALL_DELTA: ObserveEvent[ModelDelta] = ObserveEvent("model:call:delta", ModelDelta)
"""A piece of a streamed answer, shown when nobody can change or refuse it any more."""
MODEL_CALL_AFTER: ObserveEvent[ModelReply] = ObserveEvent("model:call:after", ModelReply)
"""The model has answered: the answer is as the model gave it, before any handler has judged it.

What was let in is seen at `MESSAGE_APPEND_AFTER`; who writes answers down does it there."""
TOOL_CALL_BEFORE: TransformEvent[ToolCall, ToolCall | ToolResponse | Deny] = TransformEvent(
    "tool:call:before", ToolCall, answer=ToolResponse, asks=True, strict=True
)
"""A tool is about to run. Denied: it does not.

A transformer that raises lets it run; one that returns what is no value, answer or verdict (the
class `Deny`, False, a dict) denies, whatever its policy."""
TOOL_CALL_ERROR: TransformEvent[ToolCallFailure, ToolCallFailure | ToolResponse | Retry | Deny] = (
    TransformEvent("tool:call:error", ToolCallFailure, answer=ToolResponse | Retry)
)
"""A tool failed or timed out. Denied, or a handler fails: the error stands."""
TOOL_CALL_AFTER: ObserveEvent[ToolCallOutcome] = ObserveEvent("tool:call:after", ToolCallOutcome)
"""What became of a call, on every path."""
MESSAGE_APPEND_BEFORE: TransformEvent[Message, Message | Deny] = TransformEvent(
    "message:append:before", Message
)
"""A message is about to enter the transcript. Denied: it does not; of a tool message the refusal
does. A transformer's failure lets it in as it is; an adapter's withholds the result."""
MESSAGE_PERSIST_BEFORE: TransformEvent[Message, Message | Deny] = TransformEvent(
    "message:persist:before", Message
)
"""The copy for the store. Denied: a stub is stored. A transformer's failure stores it as it is,
also what it was to take out: redact with `on_error="closed"`."""
TOOL_CALL_PERSIST_BEFORE: ObserveEvent[ToolCallPersist] = ObserveEvent(
    "tool:call:persist:before", ToolCallPersist, awaited=True
)
"""A tool's result is about to be written."""
TOOL_CALL_PERSIST_AFTER: ObserveEvent[ToolCallPersist] = ObserveEvent(
    "tool:call:persist:after", ToolCallPersist, awaited=True
)
"""A tool's result was written."""
MESSAGE_APPEND_AFTER: ObserveEvent[Message] = ObserveEvent("message:append:after", Message)
"""A message is in the transcript and in the store."""

MCP_REQUEST_BEFORE: TransformEvent[McpRequest, McpRequest | Deny] = TransformEvent(
    "mcp:request:before", McpRequest, strict=True
)
"""A client of `toolbus proxy` reads or subscribes to a resource, gets a prompt, or has an argument
completed, and the server has not seen it yet. Denied: it never does. A transformer that raises lets
it pass; one that returns what is no value or verdict denies, as at `TOOL_CALL_BEFORE`."""

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
"""Every event that the library fires."""


def check_event(event: object) -> None:
    """Raise `RegistrationError` for what is no event; for a name it tells which object is meant."""
    if isinstance(event, TransformEvent | ObserveEvent):
        return
    reason = "expected a TransformEvent or an ObserveEvent"
    if isinstance(event, str):
        # A name, or that of the constant.
        known = by_name(event.lower().replace("_", ":"))
        constant = known.name.upper().replace(":", "_")
        reason = f"it is a name; give the event itself, `toolbus.events.{constant}`, "
        reason += f"which `toolbus.events.by_name({known.name!r})` finds"
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
    raise RegistrationError(f"event {name!r}", f"there is none; known: {', '.join(near)}")
