"""The agent's tools: they read, search, write and run commands in one folder."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import TYPE_CHECKING

from toolbus import AgentComponent, ToolResponse, tool
from toolbus.cli.demo.repository import shell_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST_MATCHES = 100
_SECONDS = 20
_READS = {"readOnlyHint": True}


class Workspace(AgentComponent):
    """Four tools on the folder *root*, and on nothing outside it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    @tool(annotations=_READS)
    def read_file(self, path: str) -> str:
        """Return the text of a file.

        Args:
            path: where it is, from the folder's root.
        """
        file = self._inside(path)
        if not file.is_file():
            raise FileNotFoundError(f"there is no file {path!r}")
        return file.read_text("utf-8", "replace")

    @tool(annotations=_READS)
    def search_files(self, pattern: str, path: str = ".") -> str:
        """Return the lines that match, with file and number.

        Args:
            pattern: a regular expression.
            path: a file, or a folder to look through.
        """
        matches: list[str] = []
        for file in self._files(self._inside(path)):
            lines = file.read_text("utf-8", "replace").splitlines()
            name = file.relative_to(self._root)
            matches += [
                f"{name}:{number}: {line}"
                for number, line in enumerate(lines, 1)
                if re.search(pattern, line)
            ]
        return "\n".join(matches[:_MOST_MATCHES]) or "no line matches"

    @tool
    def write_file(self, path: str, text: str) -> str:
        """Write a file, or replace what was in it.

        Args:
            path: where it is, from the folder's root.
            text: all that will be in it.
        """
        file = self._inside(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return f"wrote {len(text)} characters to {path}"

    @tool
    def run_command(self, command: str) -> ToolResponse:
        """Run a command in a POSIX shell, in the folder's root.

        Args:
            command: a line for `sh -c`.
        """
        self._check_words(command)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._root,
            env=shell_environment(self._root.parent),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
        text = done.stdout.decode("utf-8", "replace")
        if done.returncode:
            text += f"(exit code {done.returncode})"
            return ToolResponse.from_text(text, is_error=True, error_type="exit_code")
        return ToolResponse.from_text(text or "(no output)")

    def _inside(self, path: str) -> Path:
        """Return where *path* leads, links followed; raises PermissionError outside the folder."""
        file = (self._root / path).resolve()
        if not self._holds(file):
            raise PermissionError(f"{path!r} is outside the folder")
        return file

    def _holds(self, file: Path) -> bool:
        return file.is_relative_to(self._root) and ".git" not in file.relative_to(self._root).parts

    def _files(self, start: Path) -> Iterator[Path]:
        files = sorted(start.rglob("*")) if start.is_dir() else [start]
        for file in files:
            if file.is_file() and self._holds(file.resolve()):
                yield file

    def _check_words(self, command: str) -> None:
        """Refuse words that name another place: a fence around a demo, no jail for a shell."""
        for word in shlex.split(command, comments=True):
            if word.startswith(("/", "~")) or ".." in word.split("/"):
                raise PermissionError(f"{word!r} is outside the folder")
