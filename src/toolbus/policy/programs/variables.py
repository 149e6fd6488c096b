"""Environment variables and git settings given with a command, and whether they are harmless."""

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
    """Harmless git settings: globs of keys, and keys with their harmless *values*.

    *stored* settings are harmless in a repository's file, but not in a command.
    """

    source: str
    harmless: tuple[str, ...]
    stored: tuple[str, ...]
    values: dict[str, tuple[str, ...]]


class VariableData(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of variables, possibly globs.

    *harmless* variables change the output; *values* are harmless with the listed values; *project*
    variables add the project's own code, which is harmless for a command that runs it anyway;
    *code* variables run foreign code.
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
    """Return why setting *name* to *value* requires approval, "" if it is harmless.

    An unknown name requires approval if it is set *in_front* of a command or begins with the name
    of *program*, unless the command *runs_code* of the project, which such variables configure.
    """
    kind = _kind(name)
    known = _data().values.get(name, ()) + (_data().project.get(name, ()) if runs_code else ())
    if kind == "harmless" or (value.known and value.text in known):
        return ""
    if kind == "code":
        return f"{name} can make a program run something else"
    is_for_it = bool(program) and name.startswith(program.upper().replace("-", "_"))
    return f"the effect of {name} is unknown" if (in_front or is_for_it) and not runs_code else ""


@cache
def _data() -> VariableData:
    return msgspec.toml.decode(_FILE.read_bytes(), type=VariableData)


@cache
def _kind(name: str) -> str:
    data = _data()
    # A harmless name may also match a glob of *code*: GIT_AUTHOR_NAME.
    if any(fnmatchcase(name, glob) for glob in data.harmless):
        return "harmless"
    return "code" if any(fnmatchcase(name, glob) for glob in data.code) else ""


def is_harmless_setting(setting: str) -> bool:
    """Return whether *setting*, ``section.key=value``, is harmless."""
    key, equals, value = setting.partition("=")
    key, settings = key.lower(), _data().git
    if any(fnmatchcase(key, glob) for glob in settings.harmless):
        return True
    return (value if equals else "true") in settings.values.get(key, ())


def harmful_setting(text: str) -> str:
    """Return the first harmful setting in *text*, a repository's configuration, or "".

    A line in an unusual syntax counts as harmful and is returned as is: git-config(1), Syntax.
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
    # "::" names a helper program for an address: gitremote-helpers(7).
    stored = _data().git.stored
    return "::" not in value and any(fnmatchcase(key, glob) for glob in stored)
