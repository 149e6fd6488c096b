"""What a variable that is set for a command does to it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from toolbus.policy.commands import Word

_FILE = Path(__file__).with_name("_variables.toml")


class VariableData(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of variables, which may be globs.

    The *harmless* change what is printed; those of *values* do no more with one of these values;
    those of *project* add its own code, no more to a command that runs that anyway; with the
    others, *code*, somebody else's code is run.
    """

    source: str
    harmless: tuple[str, ...]
    values: dict[str, tuple[str, ...]]
    project: dict[str, tuple[str, ...]]
    code: tuple[str, ...]


def judge_variable(
    name: str, value: Word, *, in_front: bool, runs_code: bool = False, program: str = ""
) -> str:
    """Return why setting *name* to *value* is asked about, "" if it is harmless.

    A name that nobody knows is asked about where it stands *in front* of a command, or has the
    *program*'s name in it; unless it *runs code* of a project anyway, which such a name is for.
    """
    kind = _kind(name)
    known = _data().values.get(name, ()) + (_data().project.get(name, ()) if runs_code else ())
    if kind == "harmless" or (value.known and value.text in known):
        return ""
    if kind == "code":
        return f"{name} can make a program run something else"
    is_for_it = bool(program) and name.startswith(program.upper().replace("-", "_"))
    return f"what {name} changes is not known" if (in_front or is_for_it) and not runs_code else ""


@cache
def _data() -> VariableData:
    return msgspec.toml.decode(_FILE.read_bytes(), type=VariableData)


@cache
def _kind(name: str) -> str:
    data = _data()
    # A harmless one may be among those of a glob of the others: GIT_AUTHOR_NAME.
    if any(fnmatchcase(name, glob) for glob in data.harmless):
        return "harmless"
    return "code" if any(fnmatchcase(name, glob) for glob in data.code) else ""
