"""The terminal of a person: commands that only a person may run need one, and read from it.

A process without a controlling terminal, or below an agent (`toolbus.presence.agents`), is
refused. A script without a person needs a terminal of its own, for example by script(1).

**Limit.** A process of the same user, outside a sandbox, can have another program start a process
with its own terminal and no agent above it: `systemd-run --user`, `at`, a running `tmux`.
`toolbus guide security` lists them.
"""

from __future__ import annotations

import os
import pwd
import termios
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from toolbus.presence.agents import AncestorsError, agent_of, ancestors, marked_variable
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TERMINAL = "/dev/tty"  # POSIX: the controlling terminal of a process, whatever its streams are
_MAX_LINE = 4_096
_WAY_OUT = "use a terminal without an agent"


class NotInteractiveError(UsageError):
    """An action of a person was requested by a process without one; *reason* says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"this needs a person at an interactive terminal: {self.reason}"


class PersonTerminal:
    """The controlling terminal of the person at this process, whatever the standard streams are.

    An instance exists only after the checks of `require_person`, so a line that it reads was typed
    there. Raises `NotInteractiveError`.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        require_no_agent(environ)
        self._descriptor = _open_terminal()

    def close(self) -> None:
        """Close the terminal."""
        os.close(self._descriptor)

    @property
    def columns(self) -> int:
        """The width in cells; 80 if unknown."""
        return os.get_terminal_size(self._descriptor).columns or 80

    @property
    def rows(self) -> int:
        """The height in rows; 24 if unknown."""
        return os.get_terminal_size(self._descriptor).lines or 24

    def write(self, text: str) -> None:
        """Write *text* unchanged; the caller has made untrusted text visible."""
        data = text.encode(errors="backslashreplace")
        while data:
            data = data[os.write(self._descriptor, data) :]

    def fileno(self) -> int:
        """Return the descriptor, for an event loop that waits for input."""
        return self._descriptor

    def ask(self, prompt: str) -> str | None:
        """Return the line that is typed after *prompt*, None at the end of input."""
        self.begin(prompt)
        line = self.read_line()
        if line is None:
            self.write("\n")  # The input ended without a newline.
        return line

    def begin(self, prompt: str) -> None:
        """Write *prompt*, and discard earlier input: it was typed before the prompt was visible."""
        termios.tcflush(self._descriptor, termios.TCIFLUSH)
        self.write(prompt)

    def read_line(self) -> str | None:
        """Return the typed line; None at the end of input, also after an unfinished line."""
        typed = os.read(self._descriptor, _MAX_LINE).decode(errors="replace")
        return typed.rstrip("\r\n") if typed.endswith("\n") else None


def require_person(environ: Mapping[str, str] = os.environ) -> None:
    """Raise `NotInteractiveError` unless a person can answer at the controlling terminal."""
    PersonTerminal(environ).close()


def require_no_agent(environ: Mapping[str, str] = os.environ) -> None:
    """Raise `NotInteractiveError` below an agent; a terminal is not needed."""
    if (name := marked_variable(environ)) is not None:
        raise NotInteractiveError(f"the variable {name} marks a process of an agent; {_WAY_OUT}")
    try:
        for process in ancestors():
            if (agent := agent_of(process)) is not None:
                reason = f"{agent!r} (process {process.pid}) runs it; {_WAY_OUT}"
                raise NotInteractiveError(reason)
    except AncestorsError as error:
        raise NotInteractiveError(str(error)) from error


@contextmanager
def person_terminal(environ: Mapping[str, str] = os.environ) -> Iterator[PersonTerminal]:
    """Yield the terminal of the person at this process; raises `NotInteractiveError`."""
    with closing(PersonTerminal(environ)) as terminal:
        yield terminal


def person_name() -> str:
    """Return the name of the account, which no variable changes."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def _open_terminal() -> int:
    """Return a descriptor of the controlling terminal, for a process in its foreground."""
    try:
        descriptor = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise NotInteractiveError("this process has no terminal") from error
    try:
        is_foreground = os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError as error:
        os.close(descriptor)
        raise NotInteractiveError("the terminal of this process is gone") from error
    if not is_foreground:
        os.close(descriptor)
        raise NotInteractiveError("this process is in the background of its terminal")
    return descriptor
