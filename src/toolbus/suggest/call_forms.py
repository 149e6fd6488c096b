"""The forms of a rule for a part of a call: this very call, or calls with other paths of a kind.

A part has no form if its effect may change after the yes: if it runs code, sends a file or is ruled
by one, or touches hidden, secret or linked files, or files that run later.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import CHANGES
from toolbus.policy.paths.file_access import touches
from toolbus.policy.paths.path_patterns import is_in
from toolbus.policy.paths.targets import find_targets
from toolbus.policy.rules.exact_calls import (
    PATH,
    exact_arguments,
    influence_on,
    moved_path,
    words_of,
)
from toolbus.policy.rules.flow_conditions import files_of_kind, prepares_run
from toolbus.policy.tool_arguments import argument_texts
from toolbus.suggest.path_families import is_data, kind_of_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.commands import PathUse
    from toolbus.policy.facts import CallPart
    from toolbus.suggest.call_readings import ReadCall

_LONGEST = 2_000
_SENDS = frozenset({"network", "message"})
_OF_FILES = frozenset({"read", "write"})
_READING = frozenset({"read", "read-tree"})
_FILE = re.compile(r"@?(?:\.{0,2}/|~)\S*|\S*\.[A-Za-z]\w{0,4}")
_PLAIN = re.compile(r"[\w@%+=:,. /-]+")
_HIDDEN = re.compile(r"\..")
_PUBLISHING = frozenset({"apply", "deploy", "gist", "publish", "release", "upload"})
"""Commands that send files of their folder."""

_GLOB = re.compile(r"[*?[]")


class NoFormError(Exception):
    """A part of a call has no form; the *reason* is for a person."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Family(NamedTuple):
    """The calls of *tool*, or of a command with *words* in *folder*, with some paths.

    *kinds* are the first folder and the kind of name of each path, *verbs* the keys that limit them
    in a rule. The folder *base* of the paths is "" for the project of the policy.
    """

    tool: str
    folder: str
    words: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    verbs: tuple[str, ...]
    base: str


class Forms(NamedTuple):
    """The forms of a part: the *exact* one, and its *family*, None without one.

    The exact form is a tool with the text of its arguments, or "" with a command after its folder.
    *paths* are those in the words of the family, relative to the project; with odd signs in one
    there are none.
    """

    exact: tuple[str, str]
    family: Family | None
    paths: tuple[str, ...]
    effects: frozenset[str]
    is_unknown: bool


def forms_of(part: CallPart, read: ReadCall) -> Forms:
    """Return the forms of *part*, a part of a *read* call; raises `NoFormError`."""
    _check_effects(part, read)
    _check_files(part, read)
    words, call, base = words_of(part), read.reading.call, read.base if read.is_of_session else ""
    folder = _folder(part, read) if words else ""
    text = command_text(folder, words, base) if words else exact_arguments(call.arguments)
    # TOML has no null.
    is_odd = PATH in words if words else _GLOB.search(call.name) or "null" in text
    if is_odd or len(text) > _LONGEST or not text.isprintable():
        raise NoFormError("its words cannot be written in a rule")
    paths = _paths(part, read)
    family = _family(part, read, folder, base, paths) if paths else None
    exact = ("" if words else call.name, text)
    is_plain = all(map(_PLAIN.fullmatch, paths.values()))
    plain = tuple(paths.values()) if is_plain else ()
    return Forms(exact, family, plain, part.effects, bool(part.unknown))


def command_text(folder: str, words: Sequence[str], base: str) -> str:
    """Return the text in a rule of a command with *words* in *folder*, relative to *base*."""
    place = os.path.normpath(posixpath.join(base, folder))
    command = " ".join([word if word == PATH else shlex.quote(word) for word in words])
    return command if place == "." else f"cd {shlex.quote(place)} && {command}"


def _check_effects(part: CallPart, read: ReadCall) -> None:
    """Raise `NoFormError` for a part whose effect is not given by its words alone."""
    is_new = all(each.reason.endswith(" is an unknown program") for each in part.unknown)
    if part.command is None:
        if not part.is_tool:
            raise NoFormError("its effect is unknown")
    elif influence_on(part, part.command) or part.command.assumed:
        raise NoFormError("more than its words decides what it does")
    elif not is_new:
        raise NoFormError("its effect is unknown")
    if "run-code" in part.effects and not (part.unknown and is_new):
        raise NoFormError("it runs code, which may change after a yes")
    sends = bool(part.unknown) or not _SENDS.isdisjoint(part.effects)
    if (sends and _uses_file(part, read)) or _copies_code(part):
        raise NoFormError("it sends a file or is ruled by one, which may change after a yes")


def _uses_file(part: CallPart, read: ReadCall) -> bool:
    """Return whether *part* names files, or sends those of its folder."""
    if part.paths or not _PUBLISHING.isdisjoint(part.action):
        return True
    texts = words_of(part) or tuple(argument_texts(read.reading.call.arguments).values())
    others = {word.text for word in (*part.hosts, *part.recipients)}
    names = {
        name for text in texts if text not in others for name in (text, text.partition("=")[2])
    }
    folder = read.reading.folder or "/"
    # A branch may have the name of a folder.
    is_there = posixpath.isfile if "git" in part.programs else posixpath.exists
    return any(
        (_FILE.fullmatch(name) and "://" not in name) or is_there(posixpath.join(folder, name))
        for name in names - {""}
    )


def _copies_code(part: CallPart) -> bool:
    """Return whether *part* may write what another file says into a file that runs."""
    written = {use.word.text for use in part.paths if use.kind in CHANGES}
    read = {use.word.text for use in part.paths if use.kind in _READING}
    if not written:
        return bool(read) and "write" in part.effects and part.action[:2] != ("git", "add")
    return any(to != source and not is_data(to) for source in read for to in written)


def _check_files(part: CallPart, read: ReadCall) -> None:
    """Raise `NoFormError` if *part* touches files that no rule should open."""
    is_closed = (
        bool(moved_path(part, read.reading)) or prepares_run(part, read.reading).answer != "no"
    )
    for use in part.paths:
        names = [name for path in _reached(use, read) for name in path.split("/")]
        is_secret = touches(use, files_of_kind("secrets"), read.reading.resolver).answer != "no"
        is_closed = is_closed or is_secret or any(map(_HIDDEN.match, names))
    if is_closed:
        raise NoFormError("its files are hidden, secret or linked, or run later")


def _reached(use: PathUse, read: ReadCall) -> list[str]:
    """Return the paths that *use* reaches, relative to the project if they are in it."""
    paths = [each.path for each in find_targets(use, read.reading.resolver).paths]
    return [
        posixpath.relpath(path, read.base) if is_in(path, read.base) else path for path in paths
    ]


def _folder(part: CallPart, read: ReadCall) -> str:
    """Return the folder of a command relative to the project; raises `NoFormError`."""
    resolver = read.reading.resolver
    choice = resolver.folders(None if part.command is None else part.command.folder)
    places = [resolver.resolve(path).path for path in choice.paths]
    if choice.doubt or len(places) != 1 or not is_in(places[0], read.base):
        raise NoFormError("it works in an unknown folder, or outside of the project")
    return posixpath.relpath(places[0], read.base)


def _paths(part: CallPart, read: ReadCall) -> dict[int, str]:
    """Return the paths in the words of *part*, or in its arguments, by their places.

    Without a family there are none: a part of one only reads and writes files in folders of the
    project.
    """
    by_text = {use.word.text: _reached(use, read) for use in part.paths}
    named = enumerate(words_of(part) or by_text)
    paths = {place: by_text[text] for place, text in named if text in by_text}
    are_inside = all(len(each) == 1 and each[0].find("/") > 0 for each in by_text.values())
    is_family = not part.unknown and part.effects <= _OF_FILES and len(paths) >= len(by_text)
    return {place: each[0] for place, each in paths.items()} if are_inside and is_family else {}


def _family(
    part: CallPart, read: ReadCall, folder: str, base: str, paths: dict[int, str]
) -> Family:
    """Return the family of *part*, whose *paths* are in *folder* of the project."""
    words = words_of(part)
    written = {use.word.text for use in part.paths if use.kind in CHANGES}
    texts = words or tuple(dict.fromkeys([use.word.text for use in part.paths]))
    return Family(
        tool="" if words else read.reading.call.name,
        folder=folder,
        words=tuple([PATH if place in paths else word for place, word in enumerate(words)]),
        kinds=tuple([(path.partition("/")[0], kind_of_name(path)) for path in paths.values()]),
        verbs=tuple(["writes" if texts[place] in written else "reads" for place in paths]),
        base=base,
    )
