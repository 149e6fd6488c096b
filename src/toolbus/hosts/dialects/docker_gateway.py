"""Docker's MCP gateway: interceptors of type `exec`, as its sources run them.

Source, read only: pkg/interceptors/interceptors.go in the repository docker/mcp-gateway (2026).
An interceptor gets the call, or the result alone: nothing says which call, session or folder that
belongs to. What it prints is taken for the result; a command that fails stops the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.frames import BLOCKS, are_blocks, parts_in, put_back
from toolbus.hosts.dialects.hook_events import Ability, Delivery, HookAnswer, HookEvent, HookKind
from toolbus.hosts.dialects.host_json import (
    call_shortfall,
    context_text,
    json_answer,
    object_at,
    refusal,
    replaces,
    text_at,
)
from toolbus.messages.records import ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookDecision

_KINDS: Mapping[str, HookKind] = {"before": "call", "after": "result"}

_SESSION = "gateway"
_UNKNOWN_TOOL = "unknown"


class DockerGatewayDialect:
    """How the gateway says its events and is answered.

    Any output of `before` takes the place of the call, so that arguments cannot be rewritten: a
    call that was to be changed is denied.
    """

    name: ClassVar = "docker-gateway"
    title: ClassVar = "Docker MCP Gateway"
    abilities: ClassVar[Mapping[Ability, Delivery]] = {
        "observe": "yes",
        "rewrite_arguments": "no",
        "fill_arguments": "no",
        "deny": "yes",
        "ask": "no",
        "replace_result": "yes",
        "replace_failure": "yes",
        "add_context": "yes",
        "block_prompt": "no",
    }

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event *name* that *payload* tells of; raises `DecodeError`."""
        kind = _KINDS.get(name, "other")
        return HookEvent(
            host=self.name,
            name=name,
            kind=kind,
            session_id=_SESSION,
            call=_call(kind, payload),
            response=_response(payload) if kind == "result" else None,
            payload=payload,
        )

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return how the gateway is told of *decision*; no output lets the event pass."""
        if event.kind == "result":
            return _result_answer(event, decision)
        undelivered = call_shortfall(decision)
        reason = refusal(event, decision)
        if reason is None and decision.call not in {None, event.call}:
            reason = "toolbus: the arguments were to be changed, which the gateway cannot do"
            undelivered = (*undelivered, "rewrite_arguments")
        if reason is None or event.kind != "call":
            return HookAnswer(undelivered=undelivered)
        return json_answer(_notice(reason), *undelivered)

    def block(self, name: str, payload: Any, reason: str) -> HookAnswer:  # noqa: ARG002
        """Return the notice that stands in the place of the call, or of its result."""
        return json_answer(_notice(reason))


def _call(kind: HookKind, payload: Mapping[str, Any]) -> ToolCall | None:
    match kind:
        case "call":
            params = object_at(payload, "params")
            arguments = {} if params.get("arguments") is None else object_at(params, "arguments")
            return ToolCall(id="", name=text_at(params, "name"), arguments=arguments)
        case "result":
            return ToolCall(id="", name=_UNKNOWN_TOOL)
    return None


def _response(payload: Mapping[str, Any]) -> ToolResponse:
    """Return what the result says: its content, and behind it what is structured in it."""
    if not are_blocks(payload.get("content")):
        raise DecodeError("expected content blocks", "$.content")
    return ToolResponse(content=parts_in(payload, BLOCKS), is_error=payload.get("isError") is True)


def _result_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    context = context_text(decision)
    changed = replaces(event, decision)
    result: Any = event.payload
    if decision.denied is not None:
        result = _notice(decision.denied)
    elif event.response is not None and decision.response is not None and changed:
        result = put_back(result, BLOCKS, event.response, decision.response)
    elif not context:
        return HookAnswer()
    if context:
        content = [*result["content"], {"type": "text", "text": context}]
        result = {**result, "content": content}
    return json_answer(result)


def _notice(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}
