"""What a text runs, as the rules see it: `read_command`.

It is read as bash reads a script or ``bash -c``: without history expansion, without aliases, and
with what the text itself sets. Not seen is what an earlier text left in a shell that goes on
(variables, functions, options), what the environment holds, and what programs of these names are.
Where shfmt and bash are known to disagree, the text is unreadable; the tests look for more of it.
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
    """Return all that *text*, a command line or script for bash, runs if it is run in *folder*.

    *programs* say which of them run another one, beside those that are shipped. It never raises:
    what can't be read is in `CommandReading.unreadable`. It starts a process of some two
    milliseconds, so a coroutine calls it in a thread; what it returned for a text is remembered.
    """
    if len(text) > _REMEMBERED_LENGTH:
        return _read(text, folder, programs)
    return _remembered(text, folder, programs)


def _read(text: str, folder: str | None, programs: Programs | None = None) -> CommandReading:
    try:
        shell = Interpreter(text, ShellState(folder=folder), programs)
    except UnicodeEncodeError:
        return CommandReading((), (Unreadable(ascii(text), "it is no Unicode text"),))
    state = shell.state
    try:
        shell.read_text(text, text)
        if RUN_BY_SHELL & state.variables.keys():
            shell.refuse(RUN_BY_SHELL_REASON, text)
        shell.read_uncalled()
    except (TooMuchError, RecursionError):
        shell.unreadable.append(Unreadable(text, "it runs more than anybody reads"))
    except ValidationError:
        shell.unreadable.append(Unreadable(text, "shfmt's tree of it isn't understood"))
    final = state.folder if not state.assumed and not shell.unreadable else None
    return CommandReading(tuple(shell.commands), tuple(shell.unreadable), final)


_remembered = lru_cache(maxsize=512)(_read)
