"""Links that redirect paths: existing links below a folder, and links that a line may create.

``ln``, ``mv``, archives and unknown programs may create links, so the paths of other commands in
the same line are unstable. Commands that fill files, create folders or remove files do not redirect
a name; changing an ignore list of searches counts as redirecting. Code that rules allow to run does
not count: it can do anything itself that a link would permit.
"""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING

from toolbus.policy.commands import CHANGES
from toolbus.policy.paths.path_patterns import is_in
from toolbus.policy.paths.resolver import ResolvedPath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.policy.commands import Command, CommandEffects, PathUse
    from toolbus.policy.paths.resolver import PathResolver

MOST_BELOW = 50_000
"""Folder entries that are searched for links below one folder."""

_PLAIN_WRITERS = """
[ awk base64 basename black cat cd chgrp chmod chown cmp column comm curl cut date dd df diff
dirname du echo env export expand expr false file find fmt fold gawk gofmt grep head hexdump id
isort jq join less ls mawk md5sum mkdir mkfifo more nl od paste prettier printf pwd read realpath rg
rm rmdir ruff rustfmt sed seq set sha256sum shasum shred sleep sort split stat strings tac tail tee
test touch tr tree true truncate tsort umask uname uniq unlink unset wc wget which xxd yes yq
"""
_FILL = frozenset(_PLAIN_WRITERS.split())
_GIT_FILLS = frozenset({"add", "branch", "commit", "config", "fetch", "init", "push", "tag"})
_COPIES_LINKS = frozenset(
    {"-a", "--archive", "-d", "-P", "--no-dereference", "--preserve=links", "-l", "--link"}
    | {"-R", "-r", "--recursive", "-s", "--symbolic-link"}
)
_LISTS = frozenset({".gitignore", ".ignore", ".rgignore", ".git"})


def linked_folders(folder: str, resolver: PathResolver) -> list[ResolvedPath]:
    """Return the links below the real *folder* to folders outside of it.

    If there are too many files, the result is *folder* itself with a doubt.
    """
    links: list[ResolvedPath] = []
    entries = 0
    for path, folders, files in os.walk(folder):
        entries += len(folders) + len(files)
        if entries > MOST_BELOW:
            doubt = f"too many files below {folder!r}, and some may be links"
            return [ResolvedPath(folder, (folder,), doubt, folder)]
        inner = [posixpath.join(path, name) for name in folders]
        links += [resolver.resolve(each) for each in inner if posixpath.islink(each)]
    return [each for each in links if not is_in(each.path, folder)]


def path_stability(
    commands: Sequence[Command], effects: Sequence[CommandEffects]
) -> tuple[bool, ...]:
    """Return for each command of a text, with its *effects*, whether its paths are stable."""
    changes = any(may_relink(each) for each in effects)
    return tuple([command.paths_stable or not changes for command in commands])


def _may_hide(use: PathUse) -> bool:
    """Return whether *use* may change an ignore list of searches."""
    is_changed = use.kind in CHANGES
    return is_changed and (not use.word.known or posixpath.basename(use.word.text) in _LISTS)


def may_relink(effects: CommandEffects) -> bool:
    """Return whether a command with these *effects* may redirect a path to another file."""
    if effects.unknown or not effects.action:
        return True
    if "run-code" in effects.effects or not effects.effects & CHANGES:
        return False
    if any(map(_may_hide, effects.paths)):
        return True
    program, *subcommand = effects.action
    if program == "git":
        return _GIT_FILLS.isdisjoint(subcommand[:1])
    if program in {"cp", "install"}:
        return bool(effects.options & _COPIES_LINKS)
    return program not in _FILL
