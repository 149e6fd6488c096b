"""Where each host keeps its hooks, and in which form; facts of the versions named in `VERSIONS`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from toolbus.config.documents import repository_of
from toolbus.hosts.dialects import no_such_host

Scope: TypeAlias = Literal["user", "project"]
"""Whose configuration: that of a person in all projects, or of a person in one project."""

Form: TypeAlias = Literal["groups", "entries", "toml", "bridge"]
"""How hooks are configured: JSON with groups of hooks for a matcher, JSON with hooks, `[[hooks]]`
of TOML, or a program of the host's language."""

PATIENCE = 60
"""Seconds after which a host gives up on our command; ours ends long before (`LIMIT`)."""

VERSIONS = {
    "claude-code": "2.1.329",
    "codex": "0.169.0",
    "copilot": "1.0.102",
    "gemini-cli": "0.61.0",
    "vibe": "3.0.2",
    "opencode": "1.18.33",
    "pi": "0.73.1",
}
"""What was run; of Cursor only the documentation was read (https://cursor.com/docs/hooks)."""


_CLOSED_BY_HOST = ("PreToolUse", "UserPromptSubmit")
"""Events that Claude Code stops where a hook ends with an error, hangs or does not start.

`onFailure` is of 2.1.295; run with 2.1.329: after a call it changes nothing.
"""


class HostFiles(Struct, frozen=True, kw_only=True):
    """What an installation has to know of a host.

    Args:
        program: its command.
        folder: its settings, from the home folder on; *variable* names another folder, to which
            *below* is added.
        user: the file of hooks in that folder.
        project: the one in a project's folder.
        form: how hooks stand in it.
        tool_events: those of calls, results and failures, which have a matcher.
        other_events: those without.
        matcher: what matches every tool; "" if none is needed.
        bridge: the file of this package that is installed, where it is a program.
        variables: what the host's own environment has to hold, so that nothing passes hooks by.
    """

    program: str
    folder: str
    user: str
    project: str
    form: Form
    variable: str = ""
    below: str = ""
    tool_events: tuple[str, ...] = ()
    other_events: tuple[str, ...] = ()
    matcher: str = ""
    bridge: str = ""
    variables: Mapping[str, str] = {}

    @property
    def events(self) -> tuple[str, ...]:
        """All events that our command is installed for."""
        return self.tool_events + self.other_events


HOSTS: Mapping[str, HostFiles] = {
    "claude-code": HostFiles(
        program="claude",
        variable="CLAUDE_CONFIG_DIR",
        folder=".claude",
        user="settings.json",
        # The command names a file of this machine, so it is nothing to be committed.
        project=".claude/settings.local.json",
        form="groups",
        tool_events=("PreToolUse", "PostToolUse", "PostToolUseFailure"),
        other_events=("UserPromptSubmit", "Stop", "SubagentStop", "SessionStart", "SessionEnd"),
        matcher="*",
        # A file or a result of an MCP server that has more than a quarter of these tokens is sent
        # to `/v1/messages/count_tokens` before any hook (found in runs of 2.1.329).
        variables={
            "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS": "10000000",
            "MAX_MCP_OUTPUT_TOKENS": "10000000",
        },
    ),
    "codex": HostFiles(
        program="codex",
        variable="CODEX_HOME",
        folder=".codex",
        user="hooks.json",
        project=".codex/hooks.json",
        form="groups",
        tool_events=("PreToolUse", "PostToolUse"),
        other_events=("UserPromptSubmit", "Stop", "SubagentStop", "SessionStart", "SessionEnd"),
        matcher=".*",
    ),
    "copilot": HostFiles(
        program="copilot",
        variable="COPILOT_HOME",
        folder=".copilot",
        user="hooks/toolbus.json",
        project=".github/hooks/toolbus.json",
        form="entries",
        tool_events=("preToolUse", "postToolUse", "postToolUseFailure"),
        other_events=("userPromptSubmitted", "sessionStart", "sessionEnd"),
    ),
    "gemini-cli": HostFiles(
        program="gemini",
        variable="GEMINI_CLI_HOME",
        folder=".gemini",
        below=".gemini",
        user="settings.json",
        project=".gemini/settings.json",
        form="groups",
        tool_events=("BeforeTool", "AfterTool"),
        other_events=("BeforeAgent", "AfterAgent", "SessionStart", "SessionEnd"),
        matcher=".*",
    ),
    "vibe": HostFiles(
        program="vibe",
        variable="VIBE_HOME",
        folder=".vibe",
        user="hooks.toml",
        project=".vibe/hooks.toml",
        form="toml",
        tool_events=("pre_tool", "post_tool"),
        other_events=("post_agent",),
        matcher="*",
    ),
    "opencode": HostFiles(
        program="opencode",
        variable="XDG_CONFIG_HOME",
        folder=".config/opencode",
        below="opencode",
        user="plugins/toolbus.js",
        project=".opencode/plugins/toolbus.js",
        form="bridge",
        bridge="opencode_bridge.js",
        tool_events=("tool.execute.before", "tool.execute.after"),
        other_events=("tool.failed", "chat.message", "experimental.text.complete"),
    ),
    "pi": HostFiles(
        program="pi",
        variable="PI_CODING_AGENT_DIR",
        folder=".pi/agent",
        user="extensions/toolbus.ts",
        project=".pi/extensions/toolbus.ts",
        form="bridge",
        bridge="pi_bridge.ts",
        tool_events=("tool_call", "tool_result"),
        other_events=("input", "agent_end", "session_start", "session_shutdown"),
    ),
    "cursor": HostFiles(
        program="cursor-agent",
        folder=".cursor",
        user="hooks.json",
        project=".cursor/hooks.json",
        form="entries",
        tool_events=("preToolUse", "postToolUse", "postToolUseFailure"),
        other_events=("beforeSubmitPrompt", "afterAgentResponse", "sessionStart", "sessionEnd"),
    ),
}
"""By the names of the dialects."""


def host_files(host: str) -> HostFiles:
    """Return what is known of *host*; raises `LoadError` if it is none of ours."""
    if host not in HOSTS:
        raise no_such_host(host, HOSTS)
    return HOSTS[host]


def host_folder(host: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return where *host* keeps the user's settings; raises `RuntimeError` without a home."""
    files = HOSTS[host]
    base = environ.get(files.variable, "") if files.variable else ""
    return Path(base) / files.below if base.startswith("/") else Path.home() / files.folder


def hooks_file(host: str, project: Path | None = None) -> Path:
    """Return where the hooks of *host* stand, the user's or those of the folder *project*."""
    files = HOSTS[host]
    return host_folder(host) / files.user if project is None else project / files.project


def project_folder() -> Path:
    """Return the real root of the repository around the current folder, else that folder."""
    here = Path(os.path.realpath(Path.cwd()))
    return repository_of(here) or here


def hook_entry(host: str, event: str, command: str) -> dict[str, Any]:
    """Return what stands for *command* in the JSON or TOML of *host*, below its *event*."""
    files = HOSTS[host]
    matcher = {"matcher": files.matcher} if event in files.tool_events and files.matcher else {}
    match host:
        case "copilot":
            return {"type": "command", "bash": command, "timeoutSec": PATIENCE}
        case "cursor":
            return {"command": command, "timeout": PATIENCE, "failClosed": True}
        case "gemini-cli":
            # In milliseconds; other hooks of the group run before or after, not beside it.
            named = {"type": "command", "name": "toolbus", "command": command}
            return {**matcher, "sequential": True, "hooks": [{**named, "timeout": PATIENCE * 1000}]}
        case "claude-code":
            # A line would be run behind the CLAUDE_CODE_SHELL_PREFIX of a project's settings,
            # whose words may end it with success before it says anything.
            shell: dict[str, Any] = {"command": "/bin/sh", "args": ["-c", command]}
            hook: dict[str, Any] = {"type": "command", **shell, "timeout": PATIENCE}
            if event in _CLOSED_BY_HOST:
                hook["onFailure"] = "block"
            return {**matcher, "hooks": [hook]}
        case "vibe":
            match = {"match": files.matcher} if matcher else {}
            # A project's hook of the same name would replace it: nobody else knows these paths.
            name = f"toolbus-{event}-{sha256(command.encode()).hexdigest()[:12]}"
            entry = {"name": name, "type": event, "command": command, **match}
            return {**entry, "timeout": PATIENCE, "strict": True}
        case "codex" if event == "SessionEnd":
            # It gives no more, and what it trusts has the time that it gives.
            return {"hooks": [{"type": "command", "command": command, "timeout": 3}]}
    return {**matcher, "hooks": [{"type": "command", "command": command, "timeout": PATIENCE}]}
