"""By what a process tells that an agent started it: variables, and programs above it.

The programs of Claude Code, Codex, Gemini CLI and pi set the variables named here for what they
run; Cursor, OpenCode and Copilot do by their threads (microsoft/vscode#311734,
anomalyco/opencode#34065), and `AI_AGENT` is what several do. A process can take them away that
wants to: they are for those who do not, and together with the terminal and the rules a hurdle for
those who do.
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


_PROC = Path("/proc")
_MOST_BYTES = 2**20
_MOST = 1_000
_PARENT = 1
"""Of what stands behind the name in `stat`: the state, the parent, …"""
_PS = ("/bin/ps", "-axwwE", "-o", "pid=,ppid=,command=")
_WAIT = 10.0  # seconds


class AncestorsError(Exception):
    """The system does not show which processes there are; its text says so."""


class ListedProcess(NamedTuple):
    """A process: its *words* are those of its command, *names* further names of its program.

    *variables* are those of its environment when it was started, ``NAME=value`` each, as far as
    they can be seen.
    """

    pid: int
    parent: int
    words: tuple[str, ...]
    names: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def ancestors() -> Iterator[ListedProcess]:
    """Yield the processes above this one, the nearest first; raises `AncestorsError`."""
    table = None if (_PROC / "self/stat").exists() else read_ps(_run_ps())
    pid, seen = os.getppid(), {os.getpid(), 0}
    # A number may be given out anew while we look: nobody is asked about twice.
    while pid not in seen and len(seen) < _MOST:
        seen.add(pid)
        process = _read_process(pid) if table is None else table.get(pid)
        if process is None:
            return  # It belongs to somebody else, and is hidden, or has ended.
        yield process
        pid = process.parent


def read_ps(text: str) -> Mapping[int, ListedProcess]:
    """Return the processes that *text* lists: lines of a number, the parent's and the words.

    Words with blanks in them come apart; variables stand behind the words, and among them.
    """
    processes = {}
    for line in text.splitlines():
        pid, parent, *words = (*line.split(), "", "")
        if pid.isdecimal() and parent.isdecimal():
            processes[int(pid)] = ListedProcess(
                int(pid), int(parent), tuple(words[:-2]), (), tuple(words[:-2])
            )
    return processes


def _run_ps() -> str:
    try:
        ended = subprocess.run(  # noqa: S603 - our own words
            _PS, capture_output=True, check=True, timeout=_WAIT, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"{sys.platform} does not show which processes there are: {error}"
        raise AncestorsError(reason) from error
    return ended.stdout.decode(errors="replace")


def _read_process(pid: int) -> ListedProcess | None:
    folder = _PROC / str(pid)
    stat = _read(folder / "stat")
    # The name, in parentheses, may hold any characters.
    behind = stat.rpartition(")")[2].split()
    if len(behind) <= _PARENT or not behind[_PARENT].isdecimal():
        return None
    names = [stat.partition("(")[2].rpartition(")")[0]]
    with suppress(OSError):
        names.append(str((folder / "exe").readlink()))
    words, variables = (
        tuple(_read(folder / file).removesuffix("\0").split("\0"))
        for file in ("cmdline", "environ")
    )
    return ListedProcess(pid, int(behind[_PARENT]), words, tuple(names), variables)


def _read(file: Path) -> str:
    """Return what *file* says, "" for one that is not ours to read."""
    with suppress(OSError), file.open("rb") as stream:
        return stream.read(_MOST_BYTES).decode(errors="replace")
    return ""
