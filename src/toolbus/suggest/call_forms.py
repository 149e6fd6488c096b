"""The forms of a rule for a part of a call: this very call, or calls with other paths of a kind.

A part has no form at all if its effect may change after the yes: if it runs code, sends or runs by
a file that an agent may write, or touches hidden, secret or linked files, or files that run later.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.policy.commands import CHANGES
from toolbus.policy.paths.file_access import touches
from toolbus.policy.paths.targets import find_targets
from toolbus.policy.rules.exact_calls import (
    PATH,
    exact_arguments,
    influence_on,
    moved_path,
    words_of,
)
from toolbus.policy.rules.flow_conditions import files_of_kind
from toolbus.policy.tool_arguments import argument_texts
from toolbus.suggest.path_families import is_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.commands import PathUse
    from toolbus.policy.facts import CallPart, CallReading

RUNS_CODE = "it runs code, which may change after a yes"
USES_FILE = "it sends a file or is ruled by one, which may change after a yes"
UNKNOWN = "its effect is unknown"
INFLUENCED = "more than its words decides what it does"
CLOSED = "its files are hidden, secret or linked, or run later"
OUTSIDE = "it works in an unknown folder, or outside of the project"
ODD = "its words cannot be written in a rule"

_LONGEST = 2_000
_SENDS = frozenset({"network", "message"})
_READING = frozenset({"read", "read-tree"})
_OF_FILES = frozenset({"read", "write"})
_UNKNOWN_PROGRAM = " is an unknown program"
_FILE = re.compile(r"@?(?:\.{0,2}/|~)\S*|\S*\.[A-Za-z]\w{0,4}")
_NAME = re.compile(r"[\w@%+=:,. /-]+")
_GLOBS = frozenset("*?[")


class NoFormError(Exception):
    """A part of a call has no form; the *reason* is for a person."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class FamilyKey(NamedTuple):
    """The calls of one family: of *tool*, or with *words* in *folder* of the project at *base*.

    *tops* are the first folders of the paths, *verbs* the keys that limit them in a rule.
    """

    base: str
    tool: str
    folder: str
    words: tuple[str, ...]
    tops: tuple[str, ...]
    verbs: tuple[str, ...]


class Forms(NamedTuple):
    """The forms of a part: the *exact* one, and the key of its *family*, None without one.

    An exact form is a tool ("" for a command) and a text: the command after its folder, or the
    arguments. *paths* are those in the words of the family, relative to the project; a *caution*
    warns a person.
    """

    exact: tuple[str, str]
    family: FamilyKey | None
    paths: tuple[str, ...]
    effects: frozenset[str]
    caution: str = ""


def forms_of(part: CallPart, reading: CallReading, base: str, *, absolute: bool) -> Forms:
    """Return the forms of *part* in the project at *base*; raises `NoFormError`.

    The folders of commands are written *absolute* for a policy of several projects.
    """
    _check_effects(part, reading)
    _check_files(part, reading, base)
    tool = reading.call.name if part.is_tool else ""
    folder = "" if tool else _folder(part, reading, base)
    words = words_of(part)
    if tool:
        text = exact_arguments(reading.call.arguments)
        is_odd = not _GLOBS.isdisjoint(tool) or _has_null(reading.call.arguments)
    else:
        text = command_text(folder, words, base if absolute else "")
        is_odd = PATH in words
    if is_odd or len(text) > _LONGEST or not text.isprintable():
        raise NoFormError(ODD)
    family, paths = _family(part, reading, base, folder) or (None, ())
    if family is not None and absolute:
        family = family._replace(base=base)
    caution = f"toolbus does not know what {words[0]} does" if part.unknown and words else ""
    return Forms((tool, text), family, paths, part.effects, caution)


def command_text(folder: str, words: Sequence[str], base: str) -> str:
    """Return the text in a rule of the command *words* in *folder* of the project at *base*.

    The folder is absolute unless *base* is "".
    """
    place = os.path.normpath(posixpath.join(base, folder))
    return ("" if place == "." else f"cd {shlex.quote(place)} && ") + shlex.join(words)


def _check_effects(part: CallPart, reading: CallReading) -> None:
    """Raise `NoFormError` for a part whose effect is not given by its words alone."""
    is_new_program = bool(part.unknown) and all(
        each.reason.endswith(_UNKNOWN_PROGRAM) for each in part.unknown
    )
    if part.command is None and not part.is_tool:
        raise NoFormError(UNKNOWN)
    if part.command is not None and influence_on(part, part.command):
        raise NoFormError(INFLUENCED)
    if "run-code" in part.effects and not is_new_program:
        raise NoFormError(RUNS_CODE)
    if part.unknown and not (is_new_program or part.is_tool):
        raise NoFormError(UNKNOWN)
    if (part.unknown or not _SENDS.isdisjoint(part.effects)) and _uses_file(part, reading):
        raise NoFormError(USES_FILE)
    if _copies_code(part):
        raise NoFormError(USES_FILE)


def _copies_code(part: CallPart) -> bool:
    """Return whether *part* may write what another file says into a file that runs."""
    written = {use.word.text for use in part.paths if use.kind in CHANGES}
    read = {use.word.text for use in part.paths if use.kind in _READING}
    return bool(read - written) and not all(map(is_data, written))


def _uses_file(part: CallPart, reading: CallReading) -> bool:
    """Return whether *part* names a file, by its known uses or by the look of a word."""
    if part.paths:
        return True
    texts = words_of(part) or tuple(argument_texts(reading.call.arguments).values())
    hosts = {word.text for word in (*part.hosts, *part.recipients)}
    return any(_is_file(text, reading) for text in texts if text not in hosts)


def _is_file(text: str, reading: CallReading) -> bool:
    names = {text, text.partition("=")[2]} - {""}
    looks = any(_FILE.fullmatch(name) and "://" not in name for name in names)
    return looks or any(posixpath.isfile(posixpath.join(reading.folder or "/", n)) for n in names)


def _check_files(part: CallPart, reading: CallReading, base: str) -> None:
    """Raise `NoFormError` if *part* touches files that no rule may open."""
    if moved_path(part, reading):
        raise NoFormError(CLOSED)
    for use in part.paths:
        for path in _reached(use, reading):
            inner = posixpath.relpath(path, base) if _is_in(path, base) else path
            if any(name.startswith(".") and name != "." for name in inner.split("/")):
                raise NoFormError(CLOSED)
        kinds = ("secrets", "run_later")
        if any(touches(use, files_of_kind(k), reading.resolver).answer != "no" for k in kinds):
            raise NoFormError(CLOSED)


def _reached(use: PathUse, reading: CallReading) -> list[str]:
    return [each.path for each in find_targets(use, reading.resolver).paths]


def _is_in(path: str, base: str) -> bool:
    return path == base or path.startswith(f"{base}/")


def _folder(part: CallPart, reading: CallReading, base: str) -> str:
    """Return the folder of a command relative to the project; raises `NoFormError`."""
    command = part.command
    choice = reading.resolver.folders(None if command is None else command.folder)
    places = [reading.resolver.resolve(path).path for path in choice.paths]
    if choice.doubt or len(places) != 1 or not _is_in(places[0], base):
        raise NoFormError(OUTSIDE)
    if command is not None and command.assumed:
        raise NoFormError(INFLUENCED)
    return posixpath.relpath(places[0], base)


def _family(
    part: CallPart, reading: CallReading, base: str, folder: str
) -> tuple[FamilyKey, tuple[str, ...]] | None:
    """Return the family of *part* with its paths; None if it does more, or reaches other files."""
    if part.unknown or not part.effects <= _OF_FILES:
        return None
    verbs: dict[str, str] = {}
    for use in part.paths:
        if verbs.get(use.word.text) != "writes":
            verbs[use.word.text] = "writes" if use.kind in CHANGES else "reads"
    words = words_of(part)
    named = [word for word in words if word in verbs] if words else list(verbs)
    by_text = {use.word.text: _inner_path(use, reading, base) for use in part.paths}
    paths = tuple([by_text[text] for text in named])
    if not paths or not by_text.keys() <= set(named) or not all(map(_is_plain, paths)):
        return None
    key = FamilyKey(
        base="",
        tool="" if words else reading.call.name,
        folder=folder,
        words=tuple([PATH if word in verbs else word for word in words]),
        tops=tuple([path.partition("/")[0] for path in paths]),
        verbs=tuple([verbs[text] for text in named]),
    )
    return key, paths


def _inner_path(use: PathUse, reading: CallReading, base: str) -> str:
    """Return the path of *use* relative to the project, "" for any other file."""
    match _reached(use, reading):
        case [path] if _is_in(path, base):
            return posixpath.relpath(path, base)
    return ""


def _is_plain(path: str) -> bool:
    """Return whether *path* is below a folder of the project, with a name without odd signs."""
    return "/" in path and _NAME.fullmatch(path) is not None


def _has_null(value: Any) -> bool:
    """Return whether *value* has a null anywhere: TOML has none."""
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return value is None or (isinstance(value, tuple | list) and any(map(_has_null, value)))
