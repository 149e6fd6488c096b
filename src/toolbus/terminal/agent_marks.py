"""By what a process tells that an agent started it: variables, and programs above it.

The programs of Claude Code, Codex, Gemini CLI and pi set the variables named here for what they
run; Cursor, OpenCode and Copilot do by their threads (microsoft/vscode#311734,
anomalyco/opencode#34065), and `AI_AGENT` is what several do. A process can take them away that
wants to: they are for those who do not, and together with the terminal and the rules a hurdle for
those who do.
"""

from __future__ import annotations

import posixpath
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.terminal.ancestors import ListedProcess

JUDGED = "TOOLBUS_JUDGED"
"""The variable that our own tools, servers and hooks give to what they run."""

JUDGED_SHELL = "toolbus-judged"
"""A word in the command of the process above our tools' commands: they cannot take it away."""

VARIABLES = (
    *(JUDGED, "AI_AGENT", "CLAUDECODE", "CODEX_CI", "CODEX_SANDBOX", "CODEX_THREAD_ID"),
    *("COPILOT_AGENT", "CURSOR_AGENT", "GEMINI_CLI", "OPENCODE", "PI_CODING_AGENT"),
)
"""Variables of which one that is not empty says that an agent runs the process."""

PROGRAMS: Mapping[str, str] = {
    "claude": "claude-code",
    "codex": "codex",
    "copilot": "copilot",
    "copilot-linux-x64": "copilot",
    "cursor": "cursor",
    "cursor-agent": "cursor",
    "docker-mcp": "docker-gateway",
    "gemini": "gemini-cli",
    "opencode": "opencode",
    "pi": "pi",
    "vibe": "vibe",
    "vibe-acp": "vibe",
}
"""Hosts by the names of their programs."""

_PACKAGES = (
    *("/@anthropic-ai/claude-code/", "/@github/copilot", "/@google/gemini-cli/"),
    *("/@mariozechner/pi-coding-agent/", "/@openai/codex", "/opencode-ai/"),
)
_INTERPRETERS = ("bash", "bun", "dash", "deno", "node", "nodejs", "pypy", "python", "sh", "zsh")
_JUDGING = frozenset({"hook", "proxy", "run"})


def marked_variable(environ: Mapping[str, str]) -> str | None:
    """Return which of `VARIABLES` *environ* has."""
    return next((name for name in VARIABLES if environ.get(name)), None)


def agent_of(process: ListedProcess) -> str | None:
    """Return what *process* is, in words, if an agent runs in it or above it; else None."""
    variables = dict(text.split("=", 1) for text in process.variables if "=" in text)
    if JUDGED_SHELL in process.words:
        return "a shell that a model uses"
    if (name := marked_variable(variables)) is not None:
        return f"a process with {name} in its environment"
    if (command := _judging_command(process)) is not None:
        return f"toolbus {command}"
    for text in _program_names(process):
        name = posixpath.basename(text).lower().removesuffix(".exe")
        if name in PROGRAMS or any(package in text for package in _PACKAGES):
            return PROGRAMS.get(name, text)
    return None


def _program_names(process: ListedProcess) -> Iterator[str]:
    """Yield what *process* may be called by: its program, and the script that an interpreter runs.

    A program may write its title over its words (claude does), blanks and all.
    """
    yield from process.names
    if not process.words:
        return
    title = process.words[0]
    yield title
    if " " in title:
        yield title.split()[0]
    plain = posixpath.basename(title).rstrip("0123456789.")
    if plain in _INTERPRETERS:
        yield from [word for word in process.words[1:] if not word.startswith("-")][:1]
    if process.words[1:3] == ("mcp", "gateway") and plain == "docker":
        yield "docker-mcp"


def _judging_command(process: ListedProcess) -> str | None:
    """Return which command of ours that judges calls *process* runs."""
    words = process.words
    for index, (before, word) in enumerate(pairwise(("", *words))):
        is_module = before == "-m" and word.split(".")[0] == "toolbus"
        if is_module or posixpath.basename(word) == "toolbus":
            operands = [each for each in words[index + 1 :] if not each.startswith("-")]
            return next((each for each in operands[:1] if each in _JUDGING), None)
    return None
