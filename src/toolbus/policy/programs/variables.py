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

    The *harmless* change what is printed; those of *values* do no more with one of these
    values; with the others, *code*, somebody else's code is run.
    """

    source: str
    harmless: tuple[str, ...]
    values: dict[str, tuple[str, ...]]
    code: tuple[str, ...]


def judge_variable(name: str, value: Word, *, runs_code: bool) -> str:
    """Return why setting *name* to *value* is asked about, "" if it is harmless.

    Where the program *runs code* of a project anyway, a name that nobody knows is a matter of that
    code.
    """
    kind = _kind(name)
    if kind == "harmless" or (value.known and value.text in _data().values.get(name, ())):
        return ""
    if kind == "code":
        return f"{name} can make a program run something else"
    return "" if runs_code else f"what {name} changes is not known"


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
