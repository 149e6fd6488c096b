"""What a text runs, as the rules see it: `read_command`.

It is read as bash reads a script or ``bash -c``: without history expansion, without aliases, and
with what the text itself sets. Not seen is what an earlier text left in a shell that goes on
(variables, functions, options), what the environment holds, and what programs of these names are.
Where shfmt and bash are known to disagree, the text is unreadable; the tests look for more of it.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import ValidationError
from msgspec.structs import replace

from toolbus.policy.commands import CommandReading, Unreadable
from toolbus.policy.shell.calls import run_words
from toolbus.policy.shell.nested_shells import read_text
from toolbus.policy.shell.runs import RUN_BY_SHELL_REASON
from toolbus.policy.shell.shell_state import RUN_BY_SHELL, ShellState
from toolbus.policy.shell.statements import read_list
from toolbus.policy.shell.walk import ShellScope, TextWalk, TooMuchError

_REMEMBERED_LENGTH = 4096


def read_command(text: str, folder: str | None = ".") -> CommandReading:
    """Return all that *text*, a command line or script for bash, runs if it is run in *folder*.

    It never raises: what can't be read is in `CommandReading.unreadable`. It starts a process of
    some two milliseconds, so a coroutine calls it in a thread; what it returned for a text is
    remembered.
    """
    if len(text) > _REMEMBERED_LENGTH:
        return _read(text, folder)
    return _remembered(text, folder)


def _read(text: str, folder: str | None) -> CommandReading:
    state = ShellState(folder=folder)
    try:
        walk = TextWalk(text, read_list, run_words)
    except UnicodeEncodeError:
        return CommandReading((), (Unreadable(ascii(text), "it is no Unicode text"),))
    try:
        read_text(text, text, walk, state, ShellScope())
        if RUN_BY_SHELL & state.variables.keys():
            walk.refuse(text, RUN_BY_SHELL_REASON)
        _read_uncalled(walk)
    except (TooMuchError, RecursionError):
        walk.unreadable.append(Unreadable(text, "it runs more than anybody reads"))
    except ValidationError:
        walk.unreadable.append(Unreadable(text, "shfmt's tree of it isn't understood"))
    final = state.folder if not state.assumed and not walk.unreadable else None
    return CommandReading(tuple(walk.commands), tuple(walk.unreadable), final)


def _read_uncalled(walk: TextWalk) -> None:
    """Read the functions that nothing calls: a shell that goes on may call them later."""
    while walk.uncalled:
        definition = walk.uncalled.pop(next(iter(walk.uncalled)))
        name = definition.node.name.value
        scope = replace(ShellScope().through(f"{name}()"), calls=(name,))
        with walk.nested(definition.data):
            walk.read_list((definition.node.body,), walk, ShellState(folder=None), scope)


_remembered = lru_cache(maxsize=512)(_read)
