"""The forms of a rule for a part of a call: this very call, or calls with other paths of a kind.

A part has no form if its effect is unknown or may change after the yes: if it runs code, reads its
input, sends a file or is ruled by one, or touches hidden, secret or linked files, or files that run
later.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.policy.commands import CHANGES
from toolbus.policy.paths.file_access import touches
from toolbus.policy.paths.path_patterns import is_in
from toolbus.policy.paths.targets import find_targets
from toolbus.policy.rules.exact_calls import (
    PATH,
    TEXT,
    exact_arguments,
    influence_on,
    moved_path,
    words_of,
)
from toolbus.policy.rules.flow_conditions import files_of_kind, prepares_run
from toolbus.policy.tool_arguments import argument_texts
from toolbus.suggest.evidence import carries_secret
from toolbus.suggest.path_families import is_data, kind_of_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.messages.immutable import JsonObject
    from toolbus.policy.commands import PathUse
    from toolbus.policy.facts import CallPart
    from toolbus.suggest.call_readings import ReadCall

_LONGEST = 2_000
_SENDS = frozenset({"network", "message"})
_OF_FILES = frozenset({"read", "write"})
_READING = frozenset({"read", "read-tree"})
_FILE = re.compile(r"@?(?:\.{0,2}/|~)\S*|\S*\.[A-Za-z]\w{0,4}")
_HIDDEN = re.compile(r"\..")
_PLAIN = re.compile(r"[\w@%+=:,. /-]+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TOOL = re.compile(r"[^*?[]+")
_WRITTEN = frozenset(
    {"content", "contents", "file_text", "new_str", "new_string", "old_str", "old_string", "text"}
)
"""Arguments with the texts that tools write, or replace."""

_BY_FILES = frozenset(
    {
        *("apply", "compose", "deploy", "gist", "publish", "release"),
        *("send-email", "submodule", "upload"),
        *("bundle", "cargo", "composer", "go", "gradle", "mvn", "npm", "pnpm", "poetry"),
        *("helm", "hugo", "kustomize", "systemctl", "terraform", "tofu", "tsc", "uv", "yarn"),
    }
)
"""Commands that send the files of their folder, or are ruled by them."""

_WITH_INPUT = frozenset(
    {
        *("at", "batch", "chpasswd", "cpio", "crontab", "csplit", "dd", "ftp", "lp", "lpr", "mail"),
        *("mailx", "mariadb", "mongosh", "mysql", "nc", "ncat", "netcat", "openssl", "passwd"),
        *("patch", "pax", "psql", "redis-cli", "sendmail", "sftp", "socat", "split", "sponge"),
        *("sqlite3", "ssh", "tar", "tee", "telnet", "wall", "write", "docker load", "gh secret"),
        *("gh variable", "git am", "git apply", "git commit-tree", "git fast-import"),
        *("git hash-object", "git mktag", "git mktree", "git unpack-objects", "podman load"),
    }
)
"""Programs and subcommands that read their standard input without a word that says so."""

_INPUT = re.compile(r"(?:.*[=@:]|-\w)?-|.*/dev/(?:stdin|fd/.*)|-.*(?:stdin|interactive).*")
"""Words for the standard input, as in `-d @-`, `--body-file=-` and `--stdin`."""

_RUNS = "it runs code, which may change after a yes"
_NO_FOLDER = 'its folder is unknown; the policy needs `folder = "."`, the folder of tools'
_USES = "it sends a file or is ruled by one, which may change after a yes"
_READS_INPUT = "it reads its input, which is not in its words"
_EVERYWHERE = "a rule for it would hold in every project of the policy"
_UNKNOWN = "its effect is unknown; declare its program with `programs`, or its tool in `[tools]`"


class NoFormError(Exception):
    """A part of a call has no form; the *reason* is for a person."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Family(NamedTuple):
    """The calls of *tool*, or of a command with *words* in *folder*, with some paths.

    The arguments of a tool are its single word, as JSON. *kinds* are the folder and the kind of
    name of each path, *verbs* the keys that limit them in a rule. The folder *base* of the paths is
    "" for the project of the policy.
    """

    tool: str
    folder: str
    words: tuple[str, ...]
    kinds: tuple[str, ...]
    verbs: tuple[str, ...]
    base: str


class RuleForms(NamedTuple):
    """The forms of a part: the *exact* one, and its *family*, None without one.

    The exact form is a tool with the text of its arguments, or "" with a command after its folder.
    *paths* are those in the words of the family, relative to the project; with odd signs in one
    there are none. The *caution* warns a person of the exact form.
    """

    exact: tuple[str, str]
    family: Family | None
    paths: tuple[str, ...]
    effects: frozenset[str]
    caution: str


def forms_of(part: CallPart, read: ReadCall) -> RuleForms:
    """Return the forms of *part*, a part of a *read* call; raises `NoFormError`."""
    if objection := _objection_to_effects(part, read) or _objection_to_files(part, read):
        raise NoFormError(objection)
    words, base = words_of(part), read.base if read.is_of_session else ""
    tool = "" if words else read.reading.call.name
    folder = _folder(part, read) if words else ""
    text = command_text(folder, words, base) if words else exact_arguments(_arguments(read))
    if objection := _objection_to_text(tool, words, text):
        raise NoFormError(objection)
    paths = _paths(part, read)
    family = _family(part, read, folder, base, paths) if paths else None
    # Odd signs would be patterns in a rule.
    plain = tuple(paths.values()) if all(map(_PLAIN.fullmatch, paths.values())) else ()
    return RuleForms((tool, text), family, plain, part.effects, _caution(part, words))


def command_text(folder: str, words: Sequence[str], base: str) -> str:
    """Return the text in a rule of a command with *words* in *folder*, relative to *base*."""
    place = os.path.normpath(posixpath.join(base, folder))
    command = " ".join([word if word == PATH else shlex.quote(word) for word in words])
    return command if place == "." else f"cd {shlex.quote(place)} && {command}"


def _arguments(read: ReadCall) -> JsonObject:
    return read.reading.call.arguments


def _objection_to_text(tool: str, words: Sequence[str], text: str) -> str:
    """Return why a rule cannot have the *text* of *words* or of arguments of *tool*, or ""."""
    is_fixed = PATH not in words if words else _names_tool(tool, text)
    if not (is_fixed and len(text) <= _LONGEST and text.isprintable()):
        return "its words cannot be written in a rule"
    return "it carried a secret" if carries_secret(text) else ""


def _names_tool(tool: str, text: str) -> bool:
    """Return whether *tool* and the *text* of its arguments mean just themselves in a rule."""
    # TOML has no null.
    has_null = "null" in _STRING.sub("", text)
    return bool(_TOOL.fullmatch(tool)) and not (has_null or PATH in text or TEXT in text)


def _caution(part: CallPart, words: Sequence[str]) -> str:
    is_ruled = "network" in part.effects and not any("://" in word for word in words)
    is_ruled = is_ruled or (part.action[:1] == ("git",) and part.effects != {"read"})
    return "branches and settings of the project are part of what it does" if is_ruled else ""


def _objection_to_effects(part: CallPart, read: ReadCall) -> str:
    """Return why the effect of *part* is not given by its words alone, or ""."""
    influence = influence_on(part, part.command) if part.command else ""
    objections = {
        influence: bool(influence),
        # Most unknown programs run files of the project, as `lefthook` and `direnv` do.
        _UNKNOWN: bool(part.unknown or not (part.command or part.is_tool)),
        _RUNS: "run-code" in part.effects,
        _READS_INPUT: _reads_input(part),
        _EVERYWHERE: part.is_tool and read.is_of_session,
        _USES: _is_ruled_by_file(part, read),
    }
    return next((reason for reason, holds in objections.items() if holds), "")


def _reads_input(part: CallPart) -> bool:
    """Return whether *part* may do more than reading with its standard input."""
    action = {"".join(part.action[:1]), " ".join(part.action[:2])}
    is_named = not _WITH_INPUT.isdisjoint(action) or any(map(_INPUT.fullmatch, words_of(part)))
    return is_named and not part.effects <= _READING


def _is_ruled_by_file(part: CallPart, read: ReadCall) -> bool:
    """Return whether the content of a file decides what *part* does, sends or writes as code."""
    if not _BY_FILES.isdisjoint(part.action):
        return True
    if not _SENDS.isdisjoint(part.effects):
        return bool(part.paths) or _names_file(part, read)
    if part.action == ("jq",):
        return not part.options.isdisjoint({"-f", "--from-file"})
    return _copies_code(part)


def _copies_code(part: CallPart) -> bool:
    """Return whether *part* may write what another file says into a file that runs."""
    written = {use.word.text for use in part.paths if use.kind in CHANGES}
    sources = {use.word.text for use in part.paths if use.kind in _READING}
    if sources and not written:
        return "write" in part.effects and part.action[:2] != ("git", "add")
    return any(not is_data(to) for to in written if sources - {to})


def _names_file(part: CallPart, read: ReadCall) -> bool:
    """Return whether a word of *part* looks like a file, or is one."""
    texts = words_of(part) or tuple(argument_texts(_arguments(read)).values())
    others = {word.text for word in (*part.hosts, *part.recipients)}
    # A file may be the value of an option.
    names = {*"=".join([text for text in texts if text not in others]).split("=")} - {""}
    if any(_FILE.fullmatch(name) and "://" not in name for name in names):
        return True
    # A branch may have the name of a folder.
    is_there = posixpath.isfile if "git" in part.programs else posixpath.exists
    return any(is_there(posixpath.join(read.reading.folder or "/", name)) for name in names)


def _objection_to_files(part: CallPart, read: ReadCall) -> str:
    """Return why no rule should open the files of *part*, or ""."""
    secrets, resolver = files_of_kind("secrets"), read.reading.resolver
    names = [name for use in part.paths for path in _reached(use, read) for name in path.split("/")]
    is_closed = (
        bool(moved_path(part, read.reading))
        or any(map(_HIDDEN.match, names))
        or any(touches(use, secrets, resolver).answer != "no" for use in part.paths)
        or prepares_run(part, read.reading).answer != "no"
    )
    return "its files are hidden, secret or linked, or run later" if is_closed else ""


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
    if read.reading.folder is None and not read.is_of_session:
        raise NoFormError(_NO_FOLDER)
    if choice.doubt or len(places) != 1:
        raise NoFormError("it works in an unknown folder")
    if not is_in(places[0], read.base):
        raise NoFormError("it works outside of the project")
    return posixpath.relpath(places[0], read.base)


def _paths(part: CallPart, read: ReadCall) -> dict[int, str]:
    """Return the paths in the words of *part*, or in its arguments, by their places.

    Without a family there are none: a part of one only reads and writes files in folders of the
    project.
    """
    by_text = {use.word.text: _reached(use, read) for use in part.paths}
    named = enumerate(_named_texts(part))
    paths = {place: by_text[text] for place, text in named if text in by_text}
    are_inside = all(len(each) == 1 and each[0].find("/") > 0 for each in by_text.values())
    is_family = are_inside and part.effects <= _OF_FILES
    # Each path must have a word.
    is_family = is_family and len(paths) >= len(by_text)
    return {place: each[0] for place, each in paths.items() if is_family}


def _family(
    part: CallPart, read: ReadCall, folder: str, base: str, paths: dict[int, str]
) -> Family | None:
    """Return the family of *part*, which works in *folder* and has *paths*.

    None if a rule that limits them would allow them in another order, such as `mv` back.
    """
    written = {use.word.text for use in part.paths if use.kind in CHANGES}
    texts = _named_texts(part)
    # Keys of a rule limit all paths of a verb, whatever their places.
    kinds = tuple(map(kind_of_path, paths.values()))
    verbs = tuple(["writes" if texts[place] in written else "reads" for place in paths])
    if len(set(zip(verbs, kinds, strict=True))) > len(set(verbs)):
        return None
    return Family(
        tool="" if part.command else read.reading.call.name,
        folder=folder,
        words=_family_words(part, read, paths),
        kinds=kinds,
        verbs=verbs,
        base=base,
    )


def _named_texts(part: CallPart) -> Sequence[str]:
    """Return the words of *part*, or the paths in its arguments."""
    return words_of(part) or tuple(dict.fromkeys([use.word.text for use in part.paths]))


def _family_words(part: CallPart, read: ReadCall, paths: dict[int, str]) -> tuple[str, ...]:
    """Return the words of *part* with a free word for each of *paths*."""
    if part.command:
        words = enumerate(words_of(part))
        return tuple([PATH if place in paths else word for place, word in words])
    return (exact_arguments(_template(_arguments(read), set(_named_texts(part)))),)


def _template(value: Any, paths: set[str], name: str = "") -> Any:
    """Return *value*, an argument *name*, with words for each of *paths* and for written texts."""
    match value:
        case Mapping():
            return {key: _template(each, paths, key) for key, each in value.items()}
        case list() | tuple():
            return [_template(each, paths) for each in value]
        case str() if name in _WRITTEN:
            return TEXT
        case str() if value in paths:
            return PATH
    return value
