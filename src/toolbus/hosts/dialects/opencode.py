"""OpenCode: hooks of its plugins, as version 1.18.33 calls them, told by `opencode_bridge.js`.

Sources: the types in the package @opencode-ai/plugin 1.18.33, and runs of opencode-ai 1.18.33.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from toolbus.hosts.dialects.bridges import BridgeDialect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import Ability, Delivery, HookKind


class OpenCodeDialect(BridgeDialect):
    """How OpenCode says its events.

    A tool that throws passes no hook; its message is replaced where the requests to the model are
    made (`experimental.chat.messages.transform`), which our bridge calls "tool.failed".
    """

    name: ClassVar = "opencode"
    title: ClassVar = "OpenCode"
    abilities: ClassVar[Mapping[Ability, Delivery]] = {
        "observe": "yes",
        "rewrite_arguments": "yes",
        "fill_arguments": "no",  # It keeps them as what its model wrote.
        "deny": "yes",
        "ask": "no",
        "replace_result": "yes",
        "replace_failure": "yes",
        "add_context": "yes",
        "block_prompt": "yes",
    }
    kinds: ClassVar[Mapping[str, HookKind]] = {
        "tool.execute.before": "call",
        "tool.execute.after": "result",
        "tool.failed": "result",
        "chat.message": "prompt",
        "experimental.text.complete": "answer",
    }
