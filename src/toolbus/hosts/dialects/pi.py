"""pi: events of its extensions, as version 0.73.1 fires them, told by `pi_bridge.ts`.

Sources: docs/extensions.md and dist/core/extensions in the package @mariozechner/pi-coding-agent
0.73.1, and runs of that version. What a person runs with `!` is no tool call and not seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from toolbus.hosts.dialects.bridges import BridgeDialect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import Ability, Delivery, HookKind


class PiDialect(BridgeDialect):
    """How pi says its events; it asks where somebody sits at the screen, and denies elsewhere."""

    name: ClassVar = "pi"
    title: ClassVar = "pi"
    abilities: ClassVar[Mapping[Ability, Delivery]] = {
        "observe": "yes",
        "rewrite_arguments": "yes",
        "fill_arguments": "yes",
        "deny": "yes",
        "ask": "yes",
        "replace_result": "yes",
        "replace_failure": "yes",
        "add_context": "yes",
        "block_prompt": "yes",
    }
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "tool_call": "call",
        "tool_result": "result",
        "input": "prompt",
        "agent_end": "answer",
        "session_start": "session_start",
        "session_shutdown": "session_end",
    }
