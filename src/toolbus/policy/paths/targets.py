"""The files that a word means as a path: by its folder, its ``~``, its globs, and links below.

A program that fills a folder, as `tar` does, also writes through a link that is there already.
"""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import Word
from toolbus.policy.paths.expanding import expand, with_real_start
from toolbus.policy.paths.name_globs import glob_quoted, name_glob

if TYPE_CHECKING:
    from toolbus.policy.commands import PathUse
    from toolbus.policy.paths.resolving import PathResolver, ResolvedPath


MOST_ENTRIES = 50_000
"""Entries of folders that are looked at in one walk."""


class Targets(NamedTuple):
    """What one use of a path may mean; *doubt* says why it may mean something else, too.

    The *globs* are from the root on, with a real path before the first wildcard.
    """

    paths: tuple[ResolvedPath, ...]
    doubt: str = ""
    globs: tuple[str, ...] = ()


def argument_word(text: str) -> Word:
    """Return the word for *text*, a path in the arguments of a tool that is no shell.

    Such tools expand ``~`` and nothing else.
    """
    return Word(glob_quoted(text), pattern=True) if text.startswith("~") else Word(text)


def may_match_option(word: Word, folder: str | None, resolver: PathResolver) -> bool:
    """Return whether the pattern *word*, of a command in *folder*, may match what begins with -."""
    choice = resolver.folders(folder)
    first = word.text.partition("/")[0]
    expansions = [expand(f"{glob_quoted(path)}/{first}", resolver) for path in choice.paths]
    return bool(choice.doubt) or any(
        not each.is_complete or any("/-" in path[path.rindex("/") :] for path in each.paths)
        for each in expansions
    )


def find_targets(use: PathUse, resolver: PathResolver) -> Targets:
    """Return what *use* may mean for a call where *resolver* stands."""
    return resolver.once(use, lambda: _with_links(use, _find(use, resolver), resolver))


def _with_links(use: PathUse, targets: Targets, resolver: PathResolver) -> Targets:
    """Return *targets*, and where links below them lead if *use* may write through those."""
    if use.kind in {"read-tree", "destroy"} and not all(each.path for each in targets.paths):
        doubt = f"what is below the descriptor {use.word.text!r} depends on the program"
        return targets._replace(doubt=targets.doubt or doubt)
    if use.kind != "write" or not use.tree.links:
        return targets
    beyond, doubt = list[str](), targets.doubt
    for target in targets.paths:
        links = linked_folders(target.path)
        beyond.extend(links.paths)
        if not links.is_complete:
            doubt = doubt or f"too many files are below {target.path!r}, of which some may be links"
    resolved = [resolver.resolve(path) for path in beyond]
    return targets._replace(paths=(*targets.paths, *resolved), doubt=doubt)


def _find(use: PathUse, resolver: PathResolver) -> Targets:
    word, text = use.word, use.word.text
    if not word.known:
        return Targets((), f"{text!r} is known only when it runs")
    if not text:
        return Targets(())  # No file has an empty name.
    if word.pattern and text.startswith("~"):
        text = _without_tilde(text, resolver)
        if not text:
            return Targets((), f"what {word.text!r} is, is known only when it runs")
    if text.startswith("/"):
        return _from_root([text], use, resolver)
    choice = resolver.folders(use.folder)
    starts = [glob_quoted(path) if word.pattern else path for path in choice.paths]
    targets = _from_root([f"{start}/{text}" for start in starts], use, resolver)
    return targets._replace(doubt=f"{text!r}: {choice.doubt}") if choice.doubt else targets


def _from_root(texts: list[str], use: PathUse, resolver: PathResolver) -> Targets:
    """Return what the absolute *texts* mean, globs if the word of *use* is one."""
    if not use.word.pattern:
        return _of(texts, resolver)
    paths, globs, doubt = list[str](), list[str](), ""
    for text in texts:
        if (literal := _literal(text)) is not None:
            paths.append(literal)
            continue
        expansion = expand(text, resolver)
        paths.extend(expansion.paths)
        globs.append(with_real_start(text, resolver))
        if not expansion.is_complete:
            doubt = f"{use.word.text!r} may stand for too many files"
    targets = _of(paths, resolver)
    return Targets(targets.paths, targets.doubt or doubt, tuple(globs))


def _of(paths: list[str], resolver: PathResolver) -> Targets:
    resolved = tuple([resolver.resolve(path) for path in paths])
    return Targets(resolved, next((each.doubt for each in resolved if each.doubt), ""))


def _literal(path: str) -> str | None:
    parts = [name_glob(part).literal for part in path.split("/")]
    return None if None in parts else "/".join([part for part in parts if part is not None])


def _without_tilde(text: str, resolver: PathResolver) -> str:
    """Return *text*, a glob, with its ``~`` replaced; "" if only a shell can do so."""
    name, slash, rest = text.partition("/")
    if name == "~":
        home = resolver.home()
    elif name == "~+":
        home = next(iter(resolver.folders(".").paths), "")
    else:
        home = posixpath.expanduser(name.replace("\\", ""))
        # `~-`, `~1`: earlier folders of the shell.
        if not home.startswith("/"):
            home = "" if name[1:2] in {"-", "+", *"0123456789"} else glob_quoted(name)
            return f"{home}{slash}{rest}" if home else ""
    return f"{glob_quoted(home)}{slash}{rest}" if home else ""


class LinkedFolders(NamedTuple):
    """The real *paths* outside of a folder to which links below it lead; maybe not all."""

    paths: tuple[str, ...]
    is_complete: bool = True


def linked_folders(folder: str) -> LinkedFolders:
    """Return the folders outside of the real *folder* to which links below it lead."""
    paths: dict[str, None] = {}
    pending, entries = [folder], 0
    while pending:
        try:
            with os.scandir(pending.pop()) as listing:
                for entry in listing:
                    entries += 1
                    if entries > MOST_ENTRIES:
                        return LinkedFolders(tuple(paths), is_complete=False)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif entry.is_symlink() and posixpath.isdir(entry.path):
                        path = os.path.realpath(entry.path)
                        if posixpath.commonpath([path, folder]) != folder:
                            paths[path] = None
        except OSError:
            continue
    return LinkedFolders(tuple(paths))
