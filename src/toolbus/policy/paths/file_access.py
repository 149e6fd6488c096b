"""The comparison of what a call touches with the files that a rule names.

```python
patterns = path_patterns(["**/.env", "~/.ssh/**"], project="/home/ada/shop")
resolver = PathResolver(CallPlace(folder="/home/ada/shop"))    # one for each verdict
touches(use, patterns, resolver)        # Touch("yes", "/home/ada/shop/.env", "**/.env", "")
stays_within(use, patterns, resolver)   # the same for a rule that allows
```

A rule that denies or asks asks `touches`: "yes" is a file that it names, by its real name or by one
that a link gives it, there or not; "maybe" cannot be known, with the reason; on both it speaks, and
"no" is certain as far as the limits below go. A rule that allows asks `stays_within`: only "yes"
holds, all that may be touched is then within its patterns. Neither raises.

- A word that is not known, a relative path in an unknown folder, a link in a loop: "maybe".
- A glob is expanded, and compared as a glob, too: see `toolbus.policy.paths.targets`.
- ``read-tree`` reads what is below, as far as its program would (`TreeRules`); what writes to,
  moves or removes a folder touches all in it. A walk that is too long: "maybe".
- Without *paths_stable* another command of the text may relink the path before it is used, so a
  path without an objection is a "maybe".

**Limits.** A file is known by its names: another hard link, a mount, a copy that was made before,
and a link that somebody else changes between verdict and call are not seen.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Literal, NamedTuple

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
    """An answer about one use of a path.

    *path* is the name that decided, from the root on, and *pattern* the text of the pattern that
    it met; both are "" where there is none. *reason* says why it is "maybe".
    """

    answer: Answer
    path: str = ""
    pattern: str = ""
    reason: str = ""


def doubtful(reason: str) -> FileAccess:
    """Return the answer "maybe" for that *reason*, "no" without one."""
    return FileAccess("maybe", "", "", reason) if reason else FileAccess("no")


def touches(
    use: PathUse,
    patterns: Sequence[PathPattern],
    resolver: PathResolver,
    *,
    paths_stable: bool = True,
) -> FileAccess:
    """Return whether *use* touches a file that *patterns* name; a certain one comes first."""
    if not patterns:
        return FileAccess("no")
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
    """Return whether *use* touches a file of *patterns* in a folder that it names."""
    if use.kind in {"read-tree", "destroy"}:
        return _below(targets, patterns, resolver, rules)
    return _fills(targets, patterns, resolver) if use.kind == "write" else FileAccess("no")


def _below(
    targets: Targets, patterns: Sequence[PathPattern], resolver: PathResolver, rules: TreeRules
) -> FileAccess:
    """Return whether a file below *targets* that *rules* let through is one of *patterns*."""
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
                doubt = doubt or f"not all files below {start!r} can be looked at"
    return doubtful(doubt)


def _start_below(
    folder: str, pattern: PathPattern, resolver: PathResolver, rules: TreeRules
) -> str | None:
    """Return from where on *pattern* may name a file in *folder*; None if it names none there.

    So a home folder is not walked for a part of it.
    """
    start = starts_of(pattern, resolver)[-1]
    if not start or rules.links or is_in(fold(folder), fold(start)):
        return folder
    if not is_in(fold(start), fold(folder)):
        return None
    # In the spelling of *folder*, by which the walk finds it.
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
    """Return whether all that *use* touches is named by *patterns*; a "no" names what is not."""
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
    """Yield names that are all within some patterns only if everything that is touched is."""
    for resolved in targets.paths:
        if not resolved.path:
            continue
        yield resolved.path
        if use.kind in {"write", "destroy"}:
            yield resolved.entry
        if use.kind != "read" and posixpath.isdir(resolved.path):
            yield posixpath.join(resolved.path, ANY_NAME)
            if use.kind != "write":
                yield posixpath.join(resolved.path, ANY_NAME, ANY_NAME)


def _names(use: PathUse, targets: Targets, resolver: PathResolver) -> NameList:
    """Return all names of what *use* may mean."""
    resolved = (*targets.paths, *_in_history(use, resolver))
    return NameList([name for each in resolved for name in each.names])


def _in_history(use: PathUse, resolver: PathResolver) -> list[ResolvedPath]:
    """Return what ``REVISION:path`` of git may mean (gitrevisions(7)), whatever the program is."""
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
    """Return whether what is written into a folder is named by *patterns* whatever its name is."""
    for path in [each.path for each in targets.paths if posixpath.isdir(each.path)]:
        name = posixpath.join(path, ANY_NAME)
        if (hit := NameList([name]).find(patterns, resolver)) is not None:
            return FileAccess("yes", path, hit[1].text)
    return FileAccess("no")


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
        doubt = f"another part of the command may change what {use.word.text!r} leads to"
    return FileAccess("maybe", "", "", doubt) if doubt else None
