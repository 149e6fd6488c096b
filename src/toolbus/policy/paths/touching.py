"""Whether a call touches a file that a rule names.

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
- A glob is expanded, and compared as a glob, too: see `toolbus.policy.paths.expanding`.
- ``read-tree`` reads what is below, as far as its program would (`TreeRules`); what writes to,
  moves or removes a folder touches all in it. A walk that is too long: "maybe".
- *settled* is `Command.settled`, if what else the text runs `may_relink`: a path that nothing
  speaks against may lead elsewhere by then, so "maybe".

**Limits.** A file is known by its names: another hard link, a mount, a copy that was made before,
and a link that somebody else changes between verdict and call are not seen.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolbus.policy.paths.name_globs import fold, glob_quoted, name_glob, plain_name
from toolbus.policy.paths.path_patterns import meets
from toolbus.policy.paths.resolving import ResolvedPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.policy.commands import PathUse
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolving import PathResolver

Answer = Literal["no", "yes", "maybe"]


class Touch(NamedTuple):
    """What was found out about one use of a path.

    *path* is the name that decided, from the root on, and *pattern* the text of the pattern that
    it met; both are "" where there is none. *reason* says why it is "maybe".
    """

    answer: Answer
    path: str = ""
    pattern: str = ""
    reason: str = ""


def touches(
    use: PathUse, patterns: Sequence[PathPattern], resolver: PathResolver, *, settled: bool = True
) -> Touch:
    """Tell whether *use* touches a file that one of *patterns* names; a certain one comes first."""
    if not patterns:
        return Touch("no")
    doubts = []
    for resolved in _resolved(use, resolver):
        for name in resolved.names:
            if (pattern := matching(name, patterns, resolver)) is not None:
                return Touch("yes", name, pattern.text)
        if resolved.doubt:
            doubts.append(Touch("maybe", resolved.path, "", resolved.doubt))
    if doubts:
        return doubts[0]
    if not settled:
        return Touch("maybe", "", "", f"the command may change what {use.word.text!r} leads to")
    return Touch("no")


def stays_within(
    use: PathUse, patterns: Sequence[PathPattern], resolver: PathResolver, *, settled: bool = True
) -> Touch:
    """Tell whether all that *use* touches is named by *patterns*; a "no" names what is not."""
    pattern = None
    for resolved in _resolved(use, resolver):
        if resolved.doubt:
            return Touch("maybe", resolved.path, "", resolved.doubt)
        if not resolved.path:
            continue
        pattern = within(resolved.path, patterns, resolver)
        if pattern is None:
            return Touch("no", resolved.path)
    if not settled:
        return Touch("maybe", "", "", f"the command may change what {use.word.text!r} leads to")
    return Touch("yes", "", "" if pattern is None else pattern.text)


def matching(
    name: str, patterns: Iterable[PathPattern], resolver: PathResolver
) -> PathPattern | None:
    """Return the first of *patterns* that names the absolute *name*, or a folder above it."""
    folds: bool | None = None
    for pattern in patterns:
        if any(_matches(name, start, pattern) for start in _starts(pattern, resolver)):
            return pattern
        if _matches(fold(name), fold(pattern.start), pattern, folded=True):
            folds = resolver.folds_names(name) if folds is None else folds
            if folds:
                return pattern
    return None


def within(
    path: str, patterns: Iterable[PathPattern], resolver: PathResolver
) -> PathPattern | None:
    """Return the first of *patterns* that names the real *path* itself, or its plain folder."""
    for pattern in patterns:
        start = _starts(pattern, resolver)[-1]
        if _matches(path, start, pattern, below=pattern.names_folder):
            return pattern
    return None


def _matches(
    name: str, start: str, pattern: PathPattern, *, folded: bool = False, below: bool = True
) -> bool:
    prefix = start.rstrip("/")
    if name != start and not name.startswith(f"{prefix}/"):
        return False
    parts = [plain_name(part) for part in name[len(prefix) :].split("/") if part]
    return meets(pattern.folded if folded else pattern.components, parts, below=below)


def _starts(pattern: PathPattern, resolver: PathResolver) -> tuple[str, ...]:
    """Return where *pattern* starts as written and, last, really."""
    if not pattern.start:
        return ("",)
    real = resolver.resolve(pattern.start).path
    return (real,) if real == pattern.start else (pattern.start, real)


def _resolved(use: PathUse, resolver: PathResolver) -> list[ResolvedPath]:
    """Return where the path that *use* names leads; several if it is a glob."""
    word = use.word
    if not word.known:
        return [_unknown(f"{word.text!r} is only known when it runs")]
    text = word.text
    if word.pattern and text.startswith("~"):
        text = _without_tilde(text, resolver)
    path, doubt = resolver.absolute(text, use.folder)
    if path is None:
        return [_unknown(doubt)]
    if word.pattern and name_glob(path).literal is None:
        return [_unknown(f"{word.text!r} is a pattern")]
    return [resolver.resolve(name_glob(path).literal or "/" if word.pattern else path, use.folder)]


def _without_tilde(text: str, resolver: PathResolver) -> str:
    name, slash, rest = text.partition("/")
    home = resolver.home() if name == "~" else posixpath.expanduser(name)
    return f"{glob_quoted(home)}{slash}{rest}"


def _unknown(doubt: str) -> ResolvedPath:
    return ResolvedPath("", (), doubt)
