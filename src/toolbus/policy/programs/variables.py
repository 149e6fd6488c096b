"""Variables and settings of git that are given with a command: which of them are harmless."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from toolbus.policy.commands import Word

_FILE = Path(__file__).with_name("_variables.toml")
_SECTION = re.compile(r'\[([A-Za-z0-9-]+)(?: "([^"\\\n]*)")?\]\s*')
_COMMENT = re.compile(r"\s*[#;]")
_VALUE = re.compile(r'\s*([A-Za-z][A-Za-z0-9-]*)(?:\s*=\s*([^"\\#;]*))?')


class GitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of git that change how it prints or works: globs, and keys with their values.

    Those that are *stored* are harmless in a repository's file, and may not come with a command.
    """

    source: str
    harmless: tuple[str, ...]
    stored: tuple[str, ...]
    values: dict[str, tuple[str, ...]]


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
    git: GitSettings


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


def is_harmless_setting(setting: str) -> bool:
    """Tell whether *setting*, ``section.key=value``, only changes how git prints or works."""
    key, equals, value = setting.partition("=")
    key, settings = key.lower(), _data().git
    if any(fnmatchcase(key, glob) for glob in settings.harmless):
        return True
    return (value if equals else "true") in settings.values.get(key, ())


def harmful_setting(text: str) -> str:
    """Return the first setting in *text*, a repository's file, that is not harmless; "" if none is.

    What is not written as git itself writes it is not read, and returned as it is: git-config(1),
    Syntax.
    """
    section = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        if match := _SECTION.fullmatch(line):
            section = match[1] + ("" if match[2] is None else f".{match[2]}")
        elif harmful := _harmful_line(line, section):
            return harmful
    return ""


def _harmful_line(line: str, section: str) -> str:
    if "\r" in line:
        return line
    if not line.strip() or _COMMENT.match(line):
        return ""
    match = _VALUE.fullmatch(line)
    if match is None or not section:
        return line.strip()
    key, value = f"{section}.{match[1]}".lower(), match[2] or ""
    is_harmless = _is_stored(key, value) or is_harmless_setting(f"{key}={value}")
    return "" if is_harmless else key


def _is_stored(key: str, value: str) -> bool:
    # "::" names a program that helps to reach an address: gitremote-helpers(7).
    stored = _data().git.stored
    return "::" not in value and any(fnmatchcase(key, glob) for glob in stored)
