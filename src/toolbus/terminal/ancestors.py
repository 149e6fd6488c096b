"""The processes above this one, from the one that started it on, as far as the system shows them.

Linux shows them in /proc (proc(5)), other systems by `ps`. A process whose starter has ended
belongs to the system's first one: what was above it then is not seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
