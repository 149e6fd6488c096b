"""The reader of shell texts: `read_command` returns all commands that a text runs.

A text is read as bash reads a script or ``bash -c``: without history expansion, without aliases,
and with its own assignments. Unknown to the reader are the state of a persistent shell (variables,
functions, options), the environment, and the identity of programs. Texts on which shfmt and bash
are known to disagree are unreadable; the tests search for more of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import ValidationError

from toolbus.policy.commands import CommandReading, Unreadable
from toolbus.policy.shell.interpreter import RUN_BY_SHELL_REASON, Interpreter, TooMuchError
from toolbus.policy.shell.state import RUN_BY_SHELL, ShellState

if TYPE_CHECKING:
    from toolbus.policy.programs.program_files import Programs

_REMEMBERED_LENGTH = 4096


def read_command(
    text: str, folder: str | None = ".", programs: Programs | None = None
) -> CommandReading:
    """Return all commands that *text*, a command line or script for bash, runs in *folder*.

    *programs* name further wrappers beside the shipped ones. Never raises: unreadable pieces are in
    `CommandReading.unreadable`. It starts a process of about two milliseconds, so coroutines must
    call it in a thread; results for short texts are cached.
    """
    if len(text) > _REMEMBERED_LENGTH:
        return _read(text, folder, programs)
    return _remembered(text, folder, programs)


def _read(text: str, folder: str | None, programs: Programs | None = None) -> CommandReading:
    try:
        shell = Interpreter(text, ShellState(folder=folder), programs)
    except UnicodeEncodeError:
        return CommandReading((), (Unreadable(ascii(text), "it is not valid Unicode"),))
    state = shell.state
    try:
        shell.read_text(text, text)
        if RUN_BY_SHELL & state.variables.keys():
            shell.refuse(RUN_BY_SHELL_REASON, text)
        shell.read_uncalled()
    except (TooMuchError, RecursionError):
        shell.unreadable.append(Unreadable(text, "it runs too many commands to review"))
    except ValidationError:
        shell.unreadable.append(Unreadable(text, "its syntax tree has an unknown form"))
    final = state.folder if not state.assumed and not shell.unreadable else None
    return CommandReading(shell.all_commands(), tuple(shell.unreadable), final)


_remembered = lru_cache(maxsize=512)(_read)
