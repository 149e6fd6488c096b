"""Hosts whose hooks are a program in their process: our bridge there starts the hook command.

The installation writes a copy of the bridge that names the command. What it sends for an event is
an object with `session_id` and `folder`, of a call or result also `call_id`, `tool`, `arguments`,
`result` (a text or content blocks) and `is_error`, of a prompt or an answer `text`; `can_ask` tells
whether a person sits at the screen. The answer that it takes is an object: `{}` lets pass, `block`
stops, `arguments`, `result` and `context` are laid over, `ask` is asked. Anything else, nothing
too, stops.
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
"""The line of a bridge where the installation writes its settings."""

BRIDGE_LIMIT = 30.0
"""Seconds after which a bridge takes the hook command for dead."""

_MEMBERS = Members(
    folder="folder",
    call_id="call_id",
    tool="tool",
    arguments="arguments",
    prompt="text",
    answer="text",
)


def bridge_source(file: str, command: Sequence[str], limit: float = BRIDGE_LIMIT) -> str:
    """Return the text of the bridge *file* that starts *command* with an event's name behind it.

    *limit* is in seconds. The command is an argument vector: no shell reads it.
    """
    text = files("toolbus.hosts.install").joinpath(file).read_text("utf-8")
    settings = json.dumps({"command": [*command], "limit_ms": int(limit * 1000)})
    return text.replace(SETTINGS_MARK, f"const SETTINGS = {settings}", 1)


class BridgeDialect(HostDialect):
    """What our bridges say and take, whatever they stand in; they know the host's form of it."""

    forms: ClassVar = Forms(
        denial={"block": "{value}"},
        refusal={"block": "{value}"},
        replacement={"block": "{value}"},
        question={"ask": "{value}"},
        rewriting={"arguments": "{value}"},
        context={"context": "{value}"},
    )

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the texts of a result, which is a text or content blocks."""
        result = payload.get("result")
        if not isinstance(result, str) and not are_blocks(result):
            raise DecodeError("expected a text or content blocks", "$.result")
        is_error = payload.get("is_error") is True
        return ToolResponse(content=parts_in(result, BLOCKS), is_error=is_error)

    def notify(self, reason: str, *undelivered: Ability) -> HookAnswer:
        """Return the block."""
        return self.write({"block": reason}, *undelivered)

    def can_ask(self, event: HookEvent) -> bool:
        """Return whether a person sits at the screen."""
        return super().can_ask(event) and event.payload.get("can_ask") is True

    def changed_result(self, event: HookEvent, response: ToolResponse) -> Json:
        """Return the changed texts of a result, each in its place."""
        assert event.response is not None  # noqa: S101 - it was changed
        return {"result": put_back(event.payload["result"], BLOCKS, event.response, response)}

    def with_context(self, event: HookEvent, answer: Json, context: str) -> Json:
        """Return *answer* with *context* beside a prompt, or behind the texts of a result."""
        if "block" in answer:
            return {}
        if event.kind == "prompt":
            return super().with_context(event, answer, context)
        result = answer.get("result", event.payload["result"])
        if isinstance(result, str):
            return {"result": f"{result}\n\n{context}" if result else context}
        return {"result": [*result, {"type": "text", "text": context}]}

    def write(self, answer: Json, *undelivered: Ability) -> HookAnswer:
        """Return *answer*, an object also where the event passes."""
        return HookAnswer(stdout=msgspec.json.encode(answer), undelivered=undelivered)


class OpenCodeDialect(BridgeDialect):
    """How OpenCode says its events, told by `opencode_bridge.js`.

    A tool that throws passes no hook; its message is replaced where the requests to the model are
    made (`experimental.chat.messages.transform`), which our bridge calls "tool.failed".
    """

    facts: ClassVar = DialectFacts(
        name="opencode",
        title="OpenCode",
        version="1.18.33",
        sources=("the types in the package @opencode-ai/plugin 1.18.33",),
        abilities={
            **ALL_ABILITIES,
            "fill_arguments": "no",  # It keeps them as what its model wrote.
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
    """How pi says its events, told by `pi_bridge.ts`; what a person runs with `!` is not seen."""

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
