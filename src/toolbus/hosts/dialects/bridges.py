"""The dialects of OpenCode and pi: a bridge in the host's process starts the hook command.

The installation writes a copy of the bridge that names the command. The bridge sends an event as an
object with `session_id` and `folder`; for a call or result also `call_id`, `tool`, `arguments`,
`result` (a text or content blocks) and `is_error`; for a prompt or an answer `text`. `can_ask` is
whether a user is at the screen. It accepts an object as an answer: `{}` passes the event, `block`
stops it, `arguments`, `result` and `context` change it, `ask` is a question. Any other output, or
none, stops the event.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.dialects.host_dialect import (
    ALL_ABILITIES,
    DialectFacts,
    Forms,
    HostDialect,
    Json,
    Members,
)
from toolbus.hosts.dialects.result_templates import BLOCKS, are_blocks, parts_in, put_back
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.hosts.dialects.hook_events import Ability, HookEvent

SETTINGS_MARK = "const SETTINGS = null"
"""The placeholder for the settings in the source of a bridge."""

BRIDGE_LIMIT = 30.0
"""Seconds after which a bridge gives up on the hook command."""

_MEMBERS = Members(
    folder="folder",
    call_id="call_id",
    tool="tool",
    arguments="arguments",
    prompt="text",
    answer="text",
)


def bridge_source(file: str, command: Sequence[str], limit: float = BRIDGE_LIMIT) -> str:
    """Return the source of the bridge *file*, which runs *command* followed by an event's name.

    *limit* is in seconds. The command is an argument vector, without a shell.
    """
    text = files("toolbus.hosts.install").joinpath(file).read_text("utf-8")
    settings = json.dumps({"command": [*command], "limit_ms": int(limit * 1000)})
    return text.replace(SETTINGS_MARK, f"const SETTINGS = {settings}", 1)


class BridgeDialect(HostDialect):
    """The format of our bridges, which translate it for their hosts."""

    forms: ClassVar = Forms(
        denial={"block": "{value}"},
        refusal={"block": "{value}"},
        replacement={"block": "{value}"},
        question={"ask": "{value}"},
        rewriting={"arguments": "{value}"},
        context={"context": "{value}"},
    )

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the result, a text or content blocks."""
        result = payload.get("result")
        if not isinstance(result, str) and not are_blocks(result):
            raise DecodeError("expected a text or content blocks", "$.result")
        is_error = payload.get("is_error") is True
        return ToolResponse(content=parts_in(result, BLOCKS), is_error=is_error)

    def notify(self, reason: str, *undelivered: Ability) -> HookAnswer:
        """Return the answer that blocks the event."""
        return self.write({"block": reason}, *undelivered)

    def can_ask(self, event: HookEvent) -> bool:
        """Return whether a user is at the screen."""
        return super().can_ask(event) and event.payload.get("can_ask") is True

    def changed_result(self, event: HookEvent, response: ToolResponse) -> Json:
        """Return the answer with the changed texts of the result in their places."""
        assert event.response is not None  # noqa: S101 - an event with a result
        return {"result": put_back(event.payload["result"], BLOCKS, event.response, response)}

    def with_context(self, event: HookEvent, answer: Json, context: str) -> Json:
        """Return *answer* with *context* beside a prompt, or after the texts of a result."""
        if "block" in answer:
            return {}
        if event.kind == "prompt":
            return super().with_context(event, answer, context)
        result = answer.get("result", event.payload["result"])
        if isinstance(result, str):
            return {"result": f"{result}\n\n{context}" if result else context}
        return {"result": [*result, {"type": "text", "text": context}]}

    def write(self, answer: Json, *undelivered: Ability) -> HookAnswer:
        """Return *answer* as JSON; it is an object even if the event passes."""
        return HookAnswer(stdout=msgspec.json.encode(answer), undelivered=undelivered)


class OpenCodeDialect(BridgeDialect):
    """The dialect of OpenCode; its bridge is `opencode_bridge.js`.

    OpenCode runs no hook for a tool that throws. The bridge replaces its message in the request to
    the model (`experimental.chat.messages.transform`), as the event "tool.failed".
    """

    facts: ClassVar = DialectFacts(
        name="opencode",
        title="OpenCode",
        version="1.18.33",
        sources=("the types in the package @opencode-ai/plugin 1.18.33",),
        abilities={
            **ALL_ABILITIES,
            "fill_arguments": "no",  # OpenCode stores them as the model's own call.
            "ask": "no",
        },
        kinds={
            "tool.execute.before": "call",
            "tool.execute.after": "result",
            "tool.failed": "result",
            "chat.message": "prompt",
            "experimental.text.complete": "answer",
        },
        members=_MEMBERS,
        takes_context=frozenset({"tool.execute.after", "tool.failed", "chat.message"}),
    )


class PiDialect(BridgeDialect):
    """The dialect of pi; its bridge is `pi_bridge.ts`. Commands that a user runs with `!` pass."""

    facts: ClassVar = DialectFacts(
        name="pi",
        title="pi",
        version="0.73.1",
        sources=(
            "docs/extensions.md and dist/core/extensions in @mariozechner/pi-coding-agent 0.73.1",
        ),
        abilities=ALL_ABILITIES,
        kinds={
            "tool_call": "call",
            "tool_result": "result",
            "input": "prompt",
            "agent_end": "answer",
            "session_start": "session_start",
            "session_shutdown": "session_end",
        },
        members=_MEMBERS,
        takes_context=frozenset({"tool_result", "input"}),
    )
