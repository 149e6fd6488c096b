"""Git repositories of commands, and whether their configuration may run a program.

A read-only `git status` runs programs from the configuration: `core.fsmonitor`, a filter, a
textconv, a hook. The repository in which a session began is trusted; any other repository, such as
an unpacked archive below it, must have a harmless configuration and no hooks.
"""

from __future__ import annotations

import os
import posixpath
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from toolbus.policy.commands import Unreadable
from toolbus.policy.programs.variables import harmful_setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.paths.resolver import PathResolver

MOST_REPOSITORIES = 500
"""Nested repositories that are checked for one command."""
LONGEST_SETTINGS, LONGEST_INDEX = 1_000_000, 500_000_000

# gitformat-index(5): the mode of a submodule, and from there to its path, by version and digest.
_SUBMODULE = b"\0\0\xe0\0"
_TO_PATH = (38, 40, 50, 52)
_PLAIN_VERSIONS = {b"DIRC\0\0\0\2", b"DIRC\0\0\0\3"}
_LONGEST_PATH = 4_096


class GitFolder(NamedTuple):
    """The git folder of a repository, with its real *path* and its *common* folder.

    The working tree is in *tree*.
    """

    path: str
    common: str
    tree: str


def with_repository_doubts(facts: CallReading, start: str | None) -> CallReading:
    """Return *facts* with a doubt on each git command that may run unknown programs.

    The session began in *start*.
    """
    if not any(part.action[:1] == ("git",) for part in facts.parts):
        return facts
    parts = [_in_repository(part, facts, start) for part in facts.parts]
    return replace(facts, parts=tuple(parts))


def _in_repository(part: CallPart, facts: CallReading, start: str | None) -> CallPart:
    if part.action[:1] != ("git",) or len(part.action) == 1:
        return part
    doubt = doubt_of_repository(part.folder, start, facts.resolver)
    if not doubt and part.folder != "." and _may_be_made(part, facts):
        doubt = "another part of the command may create the repository that git works in"
    if not doubt:
        return part
    return replace(part, unknown=(*part.unknown, Unreadable(part.source, doubt)))


def _may_be_made(part: CallPart, facts: CallReading) -> bool:
    """Return whether another part may create the repository and its settings before *part*."""
    if not part.paths_stable:
        return True
    paths = facts.resolver.folders(part.folder).paths
    return not any(map(posixpath.isdir, paths[:1])) and any(
        "write" in other.effects and other.action[:1] not in {("git",), ("mkdir",), ("touch",)}
        for other in facts.parts
    )


def doubt_of_repository(folder: str | None, start: str | None, resolver: PathResolver) -> str:
    """Return why git in *folder*, the folder of a command, may run unknown programs, or "".

    The session began in *start*.
    """
    home = ""
    if start is not None:
        first = resolver.cached(("repository", start), lambda: next(_around(start, resolver), None))
        home = first.common if first is not None else ""
    choice = resolver.folders(folder)
    if not choice.paths:
        return "" if folder == "." else "the repository that git works in is unknown"
    for path in choice.paths:
        if reached := resolver.resolve(path).doubt:
            return reached
        for repository in _around(path, resolver):
            if doubt := _doubt(repository, home, resolver):
                return doubt
            if repository.common == home:
                break
    return ""


def _doubt(first: GitFolder, home: str, resolver: PathResolver) -> str:
    """Return why *first*, or a repository nested in it, may run a program, or ""."""
    pending, seen = [first], set[GitFolder]()
    while pending:
        repository = pending.pop()
        if repository in seen:
            continue
        seen.add(repository)
        if len(seen) > MOST_REPOSITORIES:
            return "it has too many repositories in it"
        is_home = bool(home) and f"{repository.common}/".startswith(f"{home}/")
        if not is_home and (reason := _harm(repository)):
            return f"the repository {repository.path} is not the session's, and {reason}"
        inner = _submodules(repository)
        if inner is None:
            return f"the repositories in {repository.tree} are unknown"
        for path in inner:
            pending += _in_folder(resolver.resolve(path).path, resolver)
    return ""


def _around(folder: str, resolver: PathResolver) -> Iterator[GitFolder]:
    """Yield the possible repositories of *folder*, the innermost first."""
    real = Path(resolver.resolve(folder).path)
    for each in (real, *real.parents):
        yield from _in_folder(str(each), resolver)


def _in_folder(folder: str, resolver: PathResolver) -> Iterator[GitFolder]:
    entry = posixpath.join(folder, ".git")
    if posixpath.isdir(entry):
        yield _git_folder(entry, folder, resolver)
    elif posixpath.lexists(entry):
        text = _text(entry) or ""
        path = text.removeprefix("gitdir: ") if text.startswith("gitdir: ") else entry
        yield _git_folder(posixpath.join(folder, path.rstrip("\r\n")), folder, resolver)
    # A bare repository is a folder of these names.
    if posixpath.lexists(posixpath.join(folder, "HEAD")) and any(
        posixpath.exists(posixpath.join(folder, name)) for name in ("objects", "commondir")
    ):
        yield _git_folder(folder, folder, resolver)


def _git_folder(path: str, tree: str, resolver: PathResolver) -> GitFolder:
    path = common = resolver.resolve(path).path
    file = posixpath.join(path, "commondir")
    if posixpath.lexists(file):
        text = (_text(file) or "").rstrip("\r\n")
        common = resolver.resolve(posixpath.join(path, text)).path if text else ""
    return GitFolder(path, common, tree)


def _harm(repository: GitFolder) -> str:
    """Return why the configuration of *repository* may run a program, or ""."""
    for folder in dict.fromkeys((repository.path, repository.common)):
        if not posixpath.isdir(folder):
            return "its files cannot be read"
        for name in ("config", "config.worktree"):
            file = posixpath.join(folder, name)
            text = _text(file) if posixpath.lexists(file) else ""
            if text is None:
                return f"{name!r} cannot be read"
            if setting := harmful_setting(text):
                return f"its configuration has {setting!r}, which may run a program"
        hooks = posixpath.join(folder, "hooks")
        if any(not name.endswith(".sample") for name in _names(hooks)):
            return "it has hooks"
    return ""


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return ()


def _text(file: str) -> str | None:
    """Return the text of *file*, None if it cannot be read."""
    try:
        if not posixpath.isfile(file) or posixpath.getsize(file) > LONGEST_SETTINGS:
            return None
        text = Path(file).read_bytes().decode()
    except (OSError, ValueError):
        return None
    return None if "\0" in text else text


def _submodules(repository: GitFolder) -> list[str] | None:
    """Return the possible paths of repositories nested in *repository*; None if unknown."""
    places: list[str] = []
    for name in _names(repository.path):
        if name == "index" or name.startswith("sharedindex."):
            file = posixpath.join(repository.path, name)
            try:
                status = os.stat(file)  # noqa: PTH116 - texts all along
                named = _named_in(file, status.st_ino, status.st_mtime_ns, status.st_size)
            except OSError:
                return None
            if named is None:
                return None
            places += [posixpath.join(repository.tree, each) for each in named]
    return places


@lru_cache(maxsize=100)
def _named_in(index: str, _: int, __: int, size: int) -> tuple[str, ...] | None:
    """Return the paths of submodules in *index*, possibly with paths that do not exist.

    None if *index* is too large, or has a version with prefix-compressed paths.
    """
    if size > LONGEST_INDEX:
        return None
    data = Path(index).read_bytes()
    names, position = set(), data.find(_SUBMODULE)
    if position >= 0 and data[:8] not in _PLAIN_VERSIONS:
        return None
    while position >= 0:
        starts = [position + distance for distance in _TO_PATH]
        names |= {data[start : data.find(b"\0", start)][:_LONGEST_PATH] for start in starts}
        position = data.find(_SUBMODULE, position + 1)
    return tuple(map(os.fsdecode, names - {b""}))
