"""Which pattern names a file, by its name from the root on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.paths.name_globs import fold, plain_name
from toolbus.policy.paths.path_patterns import meets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolbus.policy.paths.name_globs import NameGlob
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolving import PathResolver


class NameList:
    """Absolute *names*, in which patterns are looked for; there may be many of both.

    All names are one text, where a search for what a pattern must have in it is quick. Spellings
    that some file systems take for the same name are the same here, on every system.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._text = fold("".join([f"{name}{_END}" for name in self._names]))

    def find(
        self, patterns: Iterable[PathPattern], resolver: PathResolver
    ) -> tuple[str, PathPattern] | None:
        """Return a name, and the one of *patterns* that names it or a folder above it, or None."""
        for pattern in patterns:
            for start in map(fold, starts_of(pattern, resolver)):
                if start not in self._text:
                    continue
                for index, name in self._having(pattern.needle):
                    if _matches(name, start, pattern.folded):
                        return self._names[self._text.count(_END, 0, index)], pattern
        return None

    def _having(self, needle: str) -> Iterator[tuple[int, str]]:
        """Yield the folded names with *needle* in them, and where each has it."""
        index = self._text.find(needle)
        while 0 <= index < len(self._text):
            end = self._text.find(_END, index)
            yield index, self._text[self._text.rfind(_END, 0, index) + 1 : end]
            index = self._text.find(needle, end + 1)


_END = "\0"  # No name has it.


def within(
    path: str, patterns: Iterable[PathPattern], resolver: PathResolver
) -> PathPattern | None:
    """Return the first of *patterns* that names the real *path* itself, or its plain folder."""
    for pattern in patterns:
        start = starts_of(pattern, resolver)[-1]
        if _matches(path, start, pattern.components, below=pattern.names_folder):
            return pattern
    return None


def starts_of(pattern: PathPattern, resolver: PathResolver) -> tuple[str, ...]:
    """Return where *pattern* starts as written and, last, really; "" if it starts anywhere."""
    if not pattern.start:
        return ("",)
    real = resolver.real(pattern.start)
    return (real,) if real == pattern.start else (pattern.start, real)


def _matches(name: str, start: str, components: Sequence[NameGlob], *, below: bool = True) -> bool:
    prefix = start.rstrip("/")
    if name != start and not name.startswith(f"{prefix}/"):
        return False
    parts = [plain_name(part) for part in name[len(prefix) :].split("/") if part]
    return meets(components, parts, below=below)
