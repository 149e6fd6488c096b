"""A person at a terminal: what only they may do asks for one, and reads from there.

It is refused without a controlling terminal, and where an agent started the process: see
`toolbus.presence.agents`. What a script sets up without a person has to be given a terminal,
for example by script(1).

**Limit.** A process of the same user, outside of any sandbox, can have another program start one
with a terminal of its own, below none that an agent started: `systemd-run --user`, `at`, a `tmux`
that runs already. `toolbus guide security` lists them.
"""

from __future__ import annotations

import os
import re
import termios
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from toolbus.presence.agents import AncestorsError, agent_of, ancestors, marked_variable
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TERMINAL = "/dev/tty"  # POSIX: the controlling terminal of a process, whatever its streams are
_LONGEST = 4_096
_ELSEWHERE = "use a terminal that no agent runs in"


class NotInteractiveError(UsageError):
    """What only a person does was asked for where none can be told to be; *reason* says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"only a person does this, at a terminal: {self.reason}"


class PersonTerminal:
    """The controlling terminal of the person who runs this, whatever the standard streams are.

    It is made only where `require_person` finds one: an answer that comes with it was typed there.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        require_no_agent(environ)
        self._descriptor = _open_terminal()

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)

    @property
    def columns(self) -> int:
        """How wide it is; 80 if it does not say."""
        return os.get_terminal_size(self._descriptor).columns or 80

    @property
    def rows(self) -> int:
        """How high it is; 24 if it does not say."""
        return os.get_terminal_size(self._descriptor).lines or 24

    def write(self, text: str) -> None:
        """Write *text* as it is: what strangers wrote has been made visible before."""
        data = text.encode(errors="backslashreplace")
        while data:
            data = data[os.write(self._descriptor, data) :]

    def fileno(self) -> int:
        """Return its descriptor, for who waits until something was typed."""
        return self._descriptor

    def ask(self, prompt: str) -> str | None:
        """Return the line that is typed after *prompt*, None at its end."""
        self.begin(prompt)
        line = self.read_line()
        if line is None:
            self.write("\n")  # Nobody typed the end of this line.
        return line

    def begin(self, prompt: str) -> None:
        """Write *prompt*; what was typed before it could be seen is no answer, and is discarded."""
        termios.tcflush(self._descriptor, termios.TCIFLUSH)
        self.write(prompt)

    def read_line(self) -> str | None:
        """Return the line that was typed, None at the end, and for a line that was not ended."""
        typed = os.read(self._descriptor, _LONGEST).decode(errors="replace")
        return typed.rstrip("\r\n") if typed.endswith("\n") else None


def require_person(environ: Mapping[str, str] = os.environ) -> None:
    """Raise `NotInteractiveError` unless a person can answer at the controlling terminal."""
    PersonTerminal(environ).close()


def require_no_agent(environ: Mapping[str, str] = os.environ) -> None:
    """Raise `NotInteractiveError` if an agent runs this: for what may run without a terminal."""
    if (name := marked_variable(environ)) is not None:
        raise NotInteractiveError(f"the variable {name} says that an agent runs this; {_ELSEWHERE}")
    try:
        for process in ancestors():
            if (agent := agent_of(process)) is not None:
                raise NotInteractiveError(
                    f"{agent!r} (process {process.pid}) runs this; {_ELSEWHERE}"
                )
    except AncestorsError as error:
        raise NotInteractiveError(str(error)) from error


@contextmanager
def person_terminal(environ: Mapping[str, str] = os.environ) -> Iterator[PersonTerminal]:
    """Give the terminal of the person who runs this; raises `NotInteractiveError`."""
    with closing(PersonTerminal(environ)) as terminal:
        yield terminal


def _open_terminal() -> int:
    """Return a descriptor of the controlling terminal, in whose foreground this must be."""
    try:
        descriptor = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise NotInteractiveError("there is none that controls this process") from error
    try:
        is_seen = os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError as error:
        os.close(descriptor)
        raise NotInteractiveError("the one that controls this process is gone") from error
    if not is_seen:
        os.close(descriptor)
        raise NotInteractiveError("this process is in the background of its own")
    return descriptor


# SGR, ECMA-48 8.3.117: the only sequences that our screens write.
_STYLE = re.compile(r"(\x1b\[[\d;]*m)")
_PLAIN = "\x1b[0m"


def show_whole(terminal: PersonTerminal, text: str) -> bool:
    """Show *text*, lines in colour or without; return whether the person saw the last page."""
    rows = list(styled_rows(text.removesuffix("\n"), max(terminal.columns, 2)))
    size = max(terminal.rows - 1, 1)  # The last row is for what is asked there.
    pages = [rows[start : start + size] for start in range(0, len(rows), size)]
    for number, page in enumerate(pages, 1):
        terminal.write("".join([f"{row}\n" for row in page]))
        if number < len(pages):
            place = f"page {number:,} of {len(pages):,}"
            word = terminal.ask(f"{place}; Enter shows the next page, q ends: ")
            if word is None or word.strip():
                return False
    return True


def styled_rows(text: str, cells: int) -> Iterator[str]:
    """Give the lines of *text* in rows of at most *cells* cells, at least 2.

    A line that is broken in the middle of a style goes on in it.
    """
    for line in text.split("\n"):
        row, used, style = "", 0, ""
        for part in _STYLE.split(line):
            if part.startswith("\x1b"):
                row, style = row + part, "" if part == _PLAIN else style + part
                continue
            for char in part:
                width = 2 if east_asian_width(char) in "WFA" else 1
                if used + width > cells:
                    yield f"{row}{_PLAIN}" if style else row
                    row, used = style, 0
                row, used = row + char, used + width
        yield row
