"""Agents above a process, recognized by environment variables and by the programs above it.

Claude Code, Codex, Gemini CLI and pi set the variables below for their commands; Cursor, OpenCode
and Copilot do according to their issues (microsoft/vscode#311734, anomalyco/opencode#34065), and
`AI_AGENT` is common to several. A hostile process can remove them: with the terminal and the rules
of a policy they are a hurdle, not a wall.

Linux lists processes in /proc (proc(5)), other systems by `ps`. A process whose parent has ended
belongs to the first process of the system, so its former ancestors are unknown.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

JUDGED = "TOOLBUS_JUDGED"
"""The variable that our own tools, servers and hooks set for their processes."""

JUDGED_SHELL = "toolbus-judged"
"""A word in the command of the process above a tool's command, which cannot remove it."""

VARIABLES = (
    *(JUDGED, "AI_AGENT", "CLAUDECODE", "CODEX_CI", "CODEX_SANDBOX", "CODEX_THREAD_ID"),
    *("COPILOT_AGENT", "CURSOR_AGENT", "GEMINI_CLI", "OPENCODE", "PI_CODING_AGENT"),
)
"""Variables of agents: a process in which one of them is not empty runs below an agent."""

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
_PROC = Path("/proc")
_MAX_BYTES, _MAX_DEPTH = 2**20, 1_000
_PS = ("/bin/ps", "-axwwE", "-o", "pid=,ppid=,command=")
_PS_SECONDS = 10.0


class AncestorsError(Exception):
    """The system does not list processes; the text says why."""


class ListedProcess(NamedTuple):
    """A process: the *words* of its command, and further *names* of its program.

    *variables* are the readable ones of its first environment, each ``NAME=value``.
    """

    pid: int
    parent: int
    words: tuple[str, ...]
    names: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def marked_variable(environ: Mapping[str, str]) -> str | None:
    """Return the first of `VARIABLES` that *environ* has, else None."""
    return next((name for name in VARIABLES if environ.get(name)), None)


def agent_of(process: ListedProcess) -> str | None:
    """Return a description of the agent that *process* is or belongs to; None without an agent."""
    variables = dict(text.split("=", 1) for text in process.variables if "=" in text)
    if JUDGED_SHELL in process.words:
        return "a shell that a model uses"
    if (name := marked_variable(variables)) is not None:
        return f"a process with {name} in its environment"
    if (command := _judging_command(process.words)) is not None:
        return f"toolbus {command}"
    for text in _program_names(process):
        name = posixpath.basename(text).lower().removesuffix(".exe")
        if name in PROGRAMS or any(package in text for package in _PACKAGES):
            return PROGRAMS.get(name, text)
    return None


def ancestors() -> Iterator[ListedProcess]:
    """Yield the processes above this one, the nearest first; raises `AncestorsError`."""
    table = None if (_PROC / "self/stat").exists() else read_ps(_run_ps())
    pid, seen = os.getppid(), {os.getpid(), 0}
    # The system may reuse a number meanwhile: no number is looked up twice.
    while pid not in seen and len(seen) < _MAX_DEPTH:
        seen.add(pid)
        process = _read_process(pid) if table is None else table.get(pid)
        if process is None:
            return  # It has ended, or belongs to another user and is hidden.
        yield process
        pid = process.parent


def read_ps(text: str) -> Mapping[int, ListedProcess]:
    """Return the processes of *text*, whose lines hold a number, the parent's number and words.

    Words are split at spaces; the variables are among them.
    """
    processes = {}
    for line in text.splitlines():
        pid, parent, *words = (*line.split(), "", "")
        if pid.isdecimal() and parent.isdecimal():
            listed = tuple(words[:-2])
            processes[int(pid)] = ListedProcess(int(pid), int(parent), listed, (), listed)
    return processes


def _program_names(process: ListedProcess) -> Iterator[str]:
    """Yield the names of the program of *process*, and of the script that an interpreter runs.

    A program may overwrite its words with a title that contains spaces, as claude does.
    """
    yield from process.names
    if not process.words:
        return
    title = process.words[0]
    yield title
    yield from title.split()[:1]
    plain = posixpath.basename(title).rstrip("0123456789.")
    if plain in _INTERPRETERS:
        yield from [word for word in process.words[1:] if not word.startswith("-")][:1]
    if process.words[1:3] == ("mcp", "gateway") and plain == "docker":
        yield "docker-mcp"


def _judging_command(words: tuple[str, ...]) -> str | None:
    """Return the command of toolbus in *words* if it judges calls."""
    for index, (before, word) in enumerate(pairwise(("", *words))):
        is_module = before == "-m" and word.split(".")[0] == "toolbus"
        if is_module or posixpath.basename(word) == "toolbus":
            operands = [each for each in words[index + 1 :] if not each.startswith("-")]
            return next((each for each in operands[:1] if each in _JUDGING), None)
    return None


def _run_ps() -> str:
    try:
        ended = subprocess.run(  # noqa: S603 - a constant command
            _PS, capture_output=True, check=True, timeout=_PS_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise AncestorsError(f"{sys.platform} does not list its processes: {error}") from error
    return ended.stdout.decode(errors="replace")


def _read_process(pid: int) -> ListedProcess | None:
    folder = _PROC / str(pid)
    # The name is in parentheses and may contain any character; state and parent follow it.
    name, _, fields = _read(folder / "stat").rpartition(")")
    _, parent, *_ = (*fields.split(), "", "")
    if not parent.isdecimal():
        return None
    names = [name.partition("(")[2]]
    with suppress(OSError):
        names.append(str((folder / "exe").readlink()))
    words, variables = (
        tuple(_read(folder / file).removesuffix("\0").split("\0"))
        for file in ("cmdline", "environ")
    )
    return ListedProcess(pid, int(parent), words, tuple(names), variables)


def _read(file: Path) -> str:
    """Return the text of *file*, "" for a file of another user."""
    with suppress(OSError), file.open("rb") as stream:
        return stream.read(_MAX_BYTES).decode(errors="replace")
    return ""
