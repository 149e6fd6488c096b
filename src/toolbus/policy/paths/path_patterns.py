"""The path patterns of rules, similar to those of a `.gitignore`.

| pattern | matches |
|---|---|
| ``.env``, ``*.pem``, ``**/.env`` | every file or folder of that name, in any folder |
| ``src/**``, ``./src/**``, ``../other`` | relative to the project: `toolbus.policy.projects` |
| ``~/.ssh/**``, ``~user/x`` | relative to a home folder |
| ``/etc/**`` | relative to the root of the file system |

``*`` and ``?`` stay within a name and match a leading dot, ``**`` is any number of folders,
``[a-z]`` and ``[!a-z]`` are sets, ``{a,b}`` are alternatives, a backslash quotes. A pattern that
matches a folder also matches everything in it, and ``src/**`` matches ``src`` itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.paths.name_globs import (
    DOUBLE,
    NameGlob,
    fold,
    glob_quoted,
    name_glob,
    path_components,
    plain_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolbus.policy.paths.resolver import PathResolver


Meet = Callable[[NameGlob, NameGlob], bool]

MOST_ALTERNATIVES = 100
"""The most patterns that braces may expand to."""

_VARIABLE = re.compile(r"\$(\w+|\{)")
_BRACES = re.compile(r"(?<!\\)\{([^{},]*,[^{}]*)\}")


_END = "\0"  # No file name contains it.


class PathPattern(NamedTuple):
    """A path pattern of a rule: *text* as written, and its components relative to *start*.

    *start* is an absolute folder as written, without ``..``, or "" for a pattern that matches
    everywhere. Deny and ask rules compare the *folded* components, see `fold`; every matching path
    contains *needle*.
    """

    text: str
    start: str
    components: tuple[NameGlob, ...]
    folded: tuple[NameGlob, ...]
    needle: str

    @property
    def names_folder(self) -> bool:
        """Whether it ends in a plain name, which may name a folder."""
        return not self.components or self.components[-1].literal is not None


def path_patterns(
    texts: Sequence[str], project: str | None, home: str | None = None
) -> tuple[PathPattern, ...]:
    """Return the patterns for *texts*; relative patterns begin in *project*, an absolute folder.

    Without a project, relative patterns are dropped. *home* is the user's folder, by default that
    of this process. Raises `ValueError` for a misleading pattern.
    """
    patterns = []
    for text in texts:
        for alternative in alternatives(text):
            start, rest = _placed(text, alternative, project or "/", home)
            if project is None and is_relative(alternative):
                continue
            parts, folded = _components(rest), _components(fold(rest))
            patterns.append(PathPattern(text, start, parts, folded, needle(folded)))
    return tuple(patterns)


def alternatives(text: str) -> list[str]:
    """Return the brace expansions of *text*; raises `ValueError` if there are too many."""
    pending, done = [text], list[str]()
    while pending:
        if len(pending) + len(done) > MOST_ALTERNATIVES:
            raise ValueError(f"more than {MOST_ALTERNATIVES} alternatives in {text!r}; split it")
        each = pending.pop()
        if match := _BRACES.search(each):
            before, after = each[: match.start()], each[match.end() :]
            choices = match[1].split(",")
            pending.extend([f"{before}{choice}{after}" for choice in reversed(choices)])
        else:
            done.append(each)
    # Inner braces are expanded first, so some results repeat.
    return list(dict.fromkeys(done))


def is_relative(alternative: str) -> bool:
    """Return whether *alternative*, a pattern without braces, begins in the project's folder."""
    plain = alternative.rstrip("/")
    is_name = "/" not in plain and plain not in {".", ".."}
    return not (is_name or alternative.startswith(("~", "/", "**/")))


def components_of(parts: Iterable[str]) -> tuple[NameGlob, ...]:
    """Return the globs for *parts*, components of a path, without empty ones and dots."""
    names = [part for part in parts if part not in {"", "."}]
    return tuple([DOUBLE if name == "**" else name_glob(name) for name in names])


def needle(components: Iterable[NameGlob]) -> str:
    """Return the longest text contained in every path that *components* match, perhaps ""."""
    runs = [
        "".join([token for token in group if isinstance(token, str)])
        for component in components
        for is_plain, group in groupby(component.tokens, lambda token: isinstance(token, str))
        if is_plain
    ]
    return max(runs, key=len, default="")


def meets(
    pattern: Sequence[NameGlob],
    names: Iterable[NameGlob],
    *,
    below: bool = True,
    meet: Meet = NameGlob.meets,
) -> bool:
    """Return whether *pattern* matches the path of *names*, or with *below* one of its parents.

    *meet* compares a component of the pattern with a name, which may be a glob itself.
    """
    # The possible next components of *pattern*: several, as ** is any number of folders.
    states = _with_doubles(pattern, {0})
    for name in names:
        if below and len(pattern) in states:
            return True
        after: set[int] = set()
        for state in states - {len(pattern)}:
            if pattern[state] is DOUBLE:
                after.add(state)
            elif meet(pattern[state], name):
                after.add(state + 1)
        if not after:
            return False
        states = _with_doubles(pattern, after)
    return len(pattern) in states


def _with_doubles(pattern: Sequence[NameGlob], states: set[int]) -> set[int]:
    """Return *states* and the states after each ``**``, which may match no folder."""
    closed = set(states)
    for state in states:
        following = state
        while following < len(pattern) and pattern[following] is DOUBLE:
            following += 1
            closed.add(following)
    return closed


def _components(text: str) -> tuple[NameGlob, ...]:
    return components_of(text.split("/"))


def _placed(written: str, text: str, project: str, home: str | None) -> tuple[str, str]:
    """Return the start of the pattern *text*, and the rest."""
    _check(written, text)
    parts = path_components(text)
    if text.startswith("~"):
        parts = [*_home(written, parts[0], home).split("/"), *parts[1:]]
    elif is_relative(text):
        parts = [*glob_quoted(project).split("/"), *parts]
    elif not text.startswith("/"):
        return "", "/".join(parts) if text.startswith("**/") else f"**/{text}"
    fixed = list(takewhile(lambda part: name_glob(part).literal is not None, parts))
    rest = parts[len(fixed) :]
    if ".." in rest:
        raise ValueError(f"'..' cannot follow a wildcard, got {written!r}; name the folder")
    start = "/".join([name_glob(part).literal or "" for part in fixed])
    return posixpath.normpath(f"/{start}".replace("//", "/")), "/".join(rest)


def _check(written: str, text: str) -> None:
    if not text.strip() or "\0" in text:
        raise ValueError(f"{written!r} is not a path; give a pattern such as '**/.env'")
    if text.startswith("!"):
        raise ValueError(f"patterns cannot be negated, got {written!r}; write an allow rule")
    if _VARIABLE.search(text):
        way_out = "write ~ for the home folder, or the path itself; \\$ is a dollar sign"
        raise ValueError(f"patterns cannot contain variables, got {written!r}; {way_out}")


def _home(written: str, name: str, home: str | None) -> str:
    folder = home if name == "~" and home is not None else posixpath.expanduser(name)
    if not folder.startswith("/"):
        raise ValueError(f"unknown home folder {name!r} in {written!r}; write its path")
    return glob_quoted(folder)


class NameList:
    """Absolute *names*, searchable by patterns; there may be many of both.

    All names are one text, in which a pattern's needle is found quickly. Spellings that some file
    systems treat as one name are equal here, on every system.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._text = fold("".join([f"{name}{_END}" for name in self._names]))

    def find(
        self, patterns: Iterable[PathPattern], resolver: PathResolver
    ) -> tuple[str, PathPattern] | None:
        """Return a name and the pattern that matches it or a parent folder, or None."""
        for pattern in patterns:
            for start in map(fold, starts_of(pattern, resolver)):
                if start not in self._text:
                    continue
                for index, name in self._having(pattern.needle):
                    if _matches(name, start, pattern.folded):
                        return self._names[self._text.count(_END, 0, index)], pattern
        return None

    def _having(self, needle: str) -> Iterator[tuple[int, str]]:
        """Yield the folded names that contain *needle*, with its index in the text."""
        index = self._text.find(needle)
        while 0 <= index < len(self._text):
            end = self._text.find(_END, index)
            yield index, self._text[self._text.rfind(_END, 0, index) + 1 : end]
            index = self._text.find(needle, end + 1)


def within(
    path: str, patterns: Iterable[PathPattern], resolver: PathResolver
) -> PathPattern | None:
    """Return the first of *patterns* that matches the real *path* itself or, by name, a parent."""
    for pattern in patterns:
        start = starts_of(pattern, resolver)[-1]
        if _matches(path, start, pattern.components, below=pattern.names_folder):
            return pattern
    return None


def is_in(path: str, folder: str) -> bool:
    """Return whether *path* is *folder*, or below it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def starts_of(pattern: PathPattern, resolver: PathResolver) -> tuple[str, ...]:
    """Return the start of *pattern* as written and, last, its real path; "" for any folder."""
    if not pattern.start:
        return ("",)
    real = resolver.resolve(pattern.start).path
    return (real,) if real == pattern.start else (pattern.start, real)


def _matches(name: str, start: str, components: Sequence[NameGlob], *, below: bool = True) -> bool:
    if not is_in(name, start):
        return False
    parts = [plain_name(part) for part in name[len(start.rstrip("/")) :].split("/") if part]
    return meets(components, parts, below=below)
