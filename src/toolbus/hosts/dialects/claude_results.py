"""The shapes of the results of Claude Code's tools, to replace their texts.

Version 2.1.329 accepts `updatedToolOutput` only if it fits the output type of the tool
(sdk-tools.d.ts of the package @anthropic-ai/claude-code); otherwise the model reads the original.
Additional members are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.hosts.dialects.result_templates import BLOCKS, ResultTemplate, are_blocks, put_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OWN = ResultTemplate(
    identifiers=True,
    fixed=frozenset(
        {
            *("type", "mode", "status", "kind", "action", "operation", "outcome", "unanswered"),
            *("level", "severity", "verdict", "disabledReason", "cell_type", "edit_mode"),
            *("id", "agentId", "agentType", "runId", "requestId", "cell_id", "task_id", "taskId"),
            *("task_type", "taskType", "tool_use_id", "backgroundTaskId", "sha", "ver"),
        }
    ),
    media=frozenset({"base64"}),
    # Of a changed file the model reads only the path.
    excerpts=frozenset({"structuredPatch", "gitDiff"}),
    main=(
        ("stdout",),
        ("file", "content"),
        ("result",),
        ("content",),
        ("message",),
        ("filePath",),
        ("listing",),
        ("text",),
    ),
)


def template_of(tool: str) -> ResultTemplate:
    """Return the template of the results of *tool*."""
    return BLOCKS if is_mcp(tool) else _OWN


def is_mcp(tool: str) -> bool:
    """Return whether *tool* belongs to an MCP server."""
    return tool.startswith("mcp__")


def replaced(tool: str, result: Any, text: str) -> tuple[Any, bool]:
    """Return *text* in the shape of the results of *tool*, and whether it is sure to be accepted.

    *result* is the tool's own result, if known.
    """
    if is_mcp(tool):
        return (put_whole(result, BLOCKS, text) if are_blocks(result) else text), True
    if shape := _SHAPES.get(tool):
        return shape(text), True
    whole = put_whole(result, _OWN, text)
    return (for_any_tool(text) if whole is None else whole), False


def for_any_tool(text: str) -> dict[str, Any]:
    """Return *text* in all shapes at once: `Bash`, `Read`, `Grep` and others read their members.

    For tools of MCP servers Claude Code renders it as JSON.
    """
    return {
        **_search("content", text),
        **_page(text),
        **_file_change(text),
        **_file(text),
        **_shell(text),
    }


def _shell(text: str) -> dict[str, Any]:
    return {
        "stdout": text,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }


def _file(text: str) -> dict[str, Any]:
    count = text.count("\n") + 1
    lines = {"numLines": count, "startLine": 1, "totalLines": count}
    return {"type": "text", "file": {"filePath": "", "content": text, **lines}}


def _file_change(text: str) -> dict[str, Any]:
    # The model reads only the path: "The file PATH has been updated".
    return {
        "filePath": text,
        "oldString": "",
        "newString": "",
        "originalFile": "",
        "structuredPatch": [],
        "userModified": False,
        "replaceAll": False,
    }


def _search(mode: str, text: str) -> dict[str, Any]:
    names = [text] if mode == "files" else []
    facts = {"numFiles": len(names), "filenames": names, "durationMs": 0, "truncated": False}
    return facts if mode == "files" else {"mode": mode, **facts, "content": text, "numLines": 1}


def _page(text: str) -> dict[str, Any]:
    facts = {"bytes": 0, "code": 200, "codeText": "", "durationMs": 0, "url": ""}
    return {**facts, "result": text}


_SHAPES: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "Bash": _shell,
    "Read": _file,
    "Edit": _file_change,
    "Write": lambda text: {"type": "update", "content": "", **_file_change(text)},
    "Grep": lambda text: _search("content", text),
    "Glob": lambda text: _search("files", text),
    "WebFetch": _page,
}
