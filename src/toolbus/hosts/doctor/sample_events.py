"""A call of a shell and its result, as each host sends them to its hooks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.hosts.install.host_files import HOSTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    _Sample: TypeAlias = Callable[[str, str, str | None], dict[str, Any]]

SAMPLE_ID = "toolbus-doctor"
"""The id of the session, of the call, and of whatever else has one."""

_INPUT = {"command": "true"}


def sample_event(host: str, folder: Path, result: str | None = None) -> dict[str, Any]:
    """Return the JSON that *host* sends for a call in *folder*, or for its *result*."""
    event = HOSTS[host].tool_events[0 if result is None else 1]
    return _SAMPLES.get(host, _bridge)(event, str(folder), result)


def _claude_code(event: str, folder: str, result: str | None) -> dict[str, Any]:
    common = {
        "session_id": SAMPLE_ID,
        "transcript_path": "",
        "cwd": folder,
        "permission_mode": "default",
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": _INPUT,
        "tool_use_id": SAMPLE_ID,
    }
    if result is None:
        return common
    response = {"stdout": result, "stderr": "", "interrupted": False, "isImage": False}
    return {**common, "tool_response": response}


def _codex(event: str, folder: str, result: str | None) -> dict[str, Any]:
    common = {**_claude_code(event, folder, None), "turn_id": SAMPLE_ID, "model": SAMPLE_ID}
    return common if result is None else {**common, "tool_response": result}


def _gemini_cli(event: str, folder: str, result: str | None) -> dict[str, Any]:
    common = {
        "session_id": SAMPLE_ID,
        "transcript_path": "",
        "cwd": folder,
        "hook_event_name": event,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "tool_name": "run_shell_command",
        "tool_input": _INPUT,
    }
    if result is None:
        return common
    return {**common, "tool_response": {"llmContent": result, "returnDisplay": result}}


def _vibe(event: str, folder: str, result: str | None) -> dict[str, Any]:
    common = {
        "session_id": SAMPLE_ID,
        "parent_session_id": None,
        "transcript_path": "",
        "cwd": folder,
        "hook_event_name": event,
        "tool_name": "file_system.bash",
        "tool_call_id": SAMPLE_ID,
        "tool_input": _INPUT,
    }
    if result is None:
        return common
    return {
        **common,
        "tool_status": "success",
        "tool_output": {"stdout": result},
        "tool_output_text": result,
        "tool_error": None,
        "duration_ms": 1,
    }


def _copilot(_: str, folder: str, result: str | None) -> dict[str, Any]:
    common = {"sessionId": SAMPLE_ID, "timestamp": 1, "cwd": folder, "toolName": "bash"}
    call = {**common, "toolArgs": _INPUT}
    if result is None:
        return call
    return {**call, "toolResult": {"resultType": "success", "textResultForLlm": result}}


def _cursor(event: str, folder: str, result: str | None) -> dict[str, Any]:
    common = {
        "conversation_id": SAMPLE_ID,
        "generation_id": SAMPLE_ID,
        "hook_event_name": event,
        "cursor_version": "1",
        "workspace_roots": [folder],
        "tool_name": "Shell",
        "tool_input": _INPUT,
        "tool_use_id": SAMPLE_ID,
        "cwd": folder,
    }
    if result is None:
        return common
    return {**common, "tool_output": json.dumps({"output": result}), "duration": 1}


def _bridge(_: str, folder: str, result: str | None) -> dict[str, Any]:
    common = {
        "session_id": SAMPLE_ID,
        "folder": folder,
        "can_ask": False,
        "call_id": SAMPLE_ID,
        "tool": "bash",
        "arguments": _INPUT,
    }
    return common if result is None else {**common, "result": result, "is_error": False}


_SAMPLES: Mapping[str, _Sample] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "copilot": _copilot,
    "cursor": _cursor,
    "gemini-cli": _gemini_cli,
    "vibe": _vibe,
}
