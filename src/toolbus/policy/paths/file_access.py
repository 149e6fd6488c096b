"""The comparison of the files that a call uses with the patterns of a rule.

```python
patterns = path_patterns(["**/.env", "~/.ssh/**"], project="/home/ada/shop")
resolver = PathResolver(CallPlace(folder="/home/ada/shop"))    # one for each verdict
touches(use, patterns, resolver)    # FileAccess("yes", "/home/ada/shop/.env", "**/.env", "")
stays_within(use, patterns, resolver)   # the same for an allow rule
```

Deny and ask rules use `touches`: "yes" is a file, existing or not, that a pattern names by its real
name or through a link; "maybe" is undecidable, with the reason. The rule matches on both, and "no"
is certain within the limits below. Allow rules use `stays_within`: only on "yes" are all possible
files within the patterns. Neither function raises.

- An unknown word, a relative path in an unknown folder and a loop of links are a "maybe".
- A glob is expanded, and also compared as a glob: see `toolbus.policy.paths.targets`.
- ``read-tree`` covers the files below that its program would read (`TreeRules`); writing to, moving
  or removing a folder covers everything in it. A walk over too many files is a "maybe".
- Without *paths_stable* another command of the text may relink the path before it is used, so a
  path without an objection is a "maybe".

**Limits.** A file is known by its names: hard links, mounts, earlier copies, and links that another
process changes between verdict and call are not detected.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolbus.policy.commands import CHANGES
from toolbus.policy.paths.name_globs import fold
from toolbus.policy.paths.path_patterns import NameList, is_in, starts_of, within
from toolbus.policy.paths.targets import ANY_NAME, find_targets, is_aimed
from toolbus.policy.paths.tree_walks import ALL_BELOW, names_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.commands import PathUse, TreeRules
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolver import PathResolver, ResolvedPath
    from toolbus.policy.paths.targets import Targets

Answer = Literal["no", "yes", "maybe"]


class FileAccess(NamedTuple):
    """The answer for one use of a path.

    *path* is the absolute name that decided, *pattern* the text of the matching pattern, or "".
    *reason* explains a "maybe".
    """

    answer: Answer
    path: str = ""
    pattern: str = ""
    reason: str = ""


NO_ACCESS = FileAccess("no")


def doubtful(reason: str) -> FileAccess:
    """Return "maybe" with *reason*, or "no" if *reason* is empty."""
    return FileAccess("maybe", "", "", reason) if reason else NO_ACCESS


def touches(
    use: PathUse,
    patterns: Sequence[PathPattern],
    resolver: PathResolver,
    *,
    paths_stable: bool = True,
) -> FileAccess:
    """Return whether *use* touches a file of *patterns*; a certain match comes first."""
    if not patterns:
        return NO_ACCESS
    targets = find_targets(use, resolver)
    names = resolver.cached(("names", use), lambda: _names(use, targets, resolver))
    if (hit := names.find(patterns, resolver)) is not None:
        return FileAccess("yes", hit[0], hit[1].text)
    rules = use.tree if use.kind == "read-tree" and paths_stable else ALL_BELOW
    access = _in_folders(use, targets, patterns, resolver, rules)
    if access.answer == "yes":
        return access
    aimed = _aimed(use, targets, patterns, resolver)
    return (
        aimed or _unstable(use, targets.doubt or access.reason, paths_stable=paths_stable) or access
    )


def _in_folders(
    use: PathUse,
    targets: Targets,
    patterns: Sequence[PathPattern],
    resolver: PathResolver,
    rules: TreeRules,
) -> FileAccess:
    """Return whether *use* touches a file of *patterns* inside a folder that it names."""
    if use.kind in {"read-tree", "destroy"}:
        return _below(targets, patterns, resolver, rules)
    return _fills(targets, patterns, resolver) if use.kind == "write" else NO_ACCESS


def _below(
    targets: Targets, patterns: Sequence[PathPattern], resolver: PathResolver, rules: TreeRules
) -> FileAccess:
    """Return whether a file below *targets* that passes *rules* matches *patterns*."""
    doubt = ""
    for folder in [each.path for each in targets.paths if each.path]:
        for pattern in patterns:
            start = _start_below(folder, pattern, resolver, rules)
            if start is None:
                continue
            names, is_complete = names_below(folder, start, rules, resolver)
            if (hit := names.find([pattern], resolver)) is not None:
                return FileAccess("yes", hit[0], pattern.text)
            if not is_complete:
                doubt = doubt or f"too many files below {start!r} to check them all"
    return doubtful(doubt)


def _start_below(
    folder: str, pattern: PathPattern, resolver: PathResolver, rules: TreeRules
) -> str | None:
    """Return the path below *folder* from which *pattern* may match, or None.

    This avoids walking a whole home folder for a pattern on a part of it.
    """
    start = starts_of(pattern, resolver)[-1]
    if not start or rules.links or is_in(fold(folder), fold(start)):
        return folder
    if not is_in(fold(start), fold(folder)):
        return None
    # The walk needs the spelling of *folder*.
    inner = start.split("/")[len(folder.rstrip("/").split("/")) :]
    start = posixpath.join(folder, *inner)
    return start if posixpath.lexists(start) else None


def stays_within(
    use: PathUse,
    patterns: Sequence[PathPattern],
    resolver: PathResolver,
    *,
    paths_stable: bool = True,
) -> FileAccess:
    """Return whether *patterns* cover everything that *use* touches; a "no" names an exception."""
    targets = find_targets(use, resolver)
    pattern = None
    for path in _outermost(use, targets):
        pattern = within(path, patterns, resolver)
        if pattern is None:
            return FileAccess("no", path.partition(f"/{ANY_NAME}")[0])
    doubt = targets.doubt
    if use.kind == "read-tree" and use.tree.links:
        doubt = doubt or "links below it may lead elsewhere"
    text = "" if pattern is None else pattern.text
    return _unstable(use, doubt, paths_stable=paths_stable) or FileAccess("yes", "", text)


def _outermost(use: PathUse, targets: Targets) -> Iterator[str]:
    """Yield names that are covered by patterns only if everything *use* touches is covered."""
    for resolved in targets.paths:
        if not resolved.path:
            continue
        yield resolved.path
        if use.kind in CHANGES:
            yield resolved.entry
        if use.kind != "read" and posixpath.isdir(resolved.path):
            yield posixpath.join(resolved.path, ANY_NAME)
            if use.kind != "write":
                yield posixpath.join(resolved.path, ANY_NAME, ANY_NAME)


def _names(use: PathUse, targets: Targets, resolver: PathResolver) -> NameList:
    """Return all names of the possible files of *use*."""
    resolved = (*targets.paths, *_in_history(use, resolver))
    return NameList([name for each in resolved for name in each.names])


def _in_history(use: PathUse, resolver: PathResolver) -> list[ResolvedPath]:
    """Return the files of git's ``REVISION:path`` (gitrevisions(7)), for any program."""
    revision, _, text = use.word.text.partition(":")
    if not (revision and text and use.word.known) or text.startswith("/"):
        return []
    folders = list(resolver.folders(use.folder).paths)
    if not folders:
        return []
    folder = folders[0]
    while folder != "/" and not text.startswith(("./", "../")):
        folder = posixpath.dirname(folder)
        if posixpath.lexists(posixpath.join(folder, ".git")):
            folders.append(folder)
            break
    return [resolver.resolve(posixpath.join(each, text)) for each in folders]


def _fills(targets: Targets, patterns: Sequence[PathPattern], resolver: PathResolver) -> FileAccess:
    """Return whether *patterns* name every file in a target folder, whatever its name."""
    for path in [each.path for each in targets.paths if posixpath.isdir(each.path)]:
        name = posixpath.join(path, ANY_NAME)
        if (hit := NameList([name]).find(patterns, resolver)) is not None:
            return FileAccess("yes", path, hit[1].text)
    return NO_ACCESS


def _aimed(
    use: PathUse, targets: Targets, patterns: Sequence[PathPattern], resolver: PathResolver
) -> FileAccess | None:
    for glob in targets.globs:
        for pattern in patterns:
            if is_aimed(glob, pattern, starts_of(pattern, resolver)):
                return FileAccess(
                    "maybe", glob, pattern.text, f"{use.word.text!r} may match such a file"
                )
    return None


def _unstable(use: PathUse, doubt: str, *, paths_stable: bool) -> FileAccess | None:
    if not doubt and not paths_stable:
        doubt = f"another part of the command may change the target of {use.word.text!r}"
    return FileAccess("maybe", "", "", doubt) if doubt else None
