"""Hooks for Claude Code that Cursor runs: no event is judged twice, and none in a foreign form.

Cursor also runs what a person configured for Claude Code, with events and tools of its own names
(https://cursor.com/docs/reference/third-party-hooks); its payloads have a `cursor_version`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from toolbus.hosts.dialects.cursor import CursorDialect
from toolbus.hosts.dialects.hook_events import HookEvent
from toolbus.hosts.install.host_files import hooks_file, is_ours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookAnswer

_NAMES = {
    "PreToolUse": "preToolUse",
    "PostToolUse": "postToolUse",
    "PostToolUseFailure": "postToolUseFailure",
    "UserPromptSubmit": "beforeSubmitPrompt",
    "Stop": "stop",
    "SubagentStop": "subagentStop",
    "SessionStart": "sessionStart",
    "SessionEnd": "sessionEnd",
}
_MAX_BYTES = 2**20


def block_for_cursor(name: str, payload: Any, reason: str) -> HookAnswer:
    """Return what stops in Cursor what is the event *name* in Claude Code."""
    return CursorDialect().block(_NAMES.get(name, name), payload, reason)


def decode_from_cursor(name: str, payload: Mapping[str, Any]) -> HookEvent:
    """Return the event *name* of Claude Code as the one of Cursor that it is.

    If our own hook in Cursor judges it, it is one that only passes.
    """
    known = _NAMES.get(name, name)
    event = CursorDialect().decode(known, payload)
    if not _is_installed(known):
        return event
    return HookEvent(
        host=event.host, name=known, kind="other", session_id=event.session_id, payload=payload
    )


def _is_installed(name: str) -> bool:
    """Tell whether our hook stands in the person's own `hooks.json`, below the event *name*.

    What a project says there does not count: it would only have to say it to be judged by nobody.
    """
    try:
        with hooks_file("cursor").open("rb") as stream:
            value = json.loads(stream.read(_MAX_BYTES))
        return is_ours(value["hooks"][name], "cursor")
    except (OSError, ValueError, LookupError, TypeError, RecursionError, RuntimeError):
        return False
