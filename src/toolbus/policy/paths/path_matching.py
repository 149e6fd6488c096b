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

    All names are one text, for to look for what a pattern must have in it is quick there.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._text = _joined(self._names)
        self._folded_text = fold(self._text) if self._text.isascii() else ""
        if not self._text.isascii():
            self._folded_text = _joined([fold(name) for name in self._names])

    def find(
        self, patterns: Iterable[PathPattern], resolver: PathResolver
    ) -> tuple[str, PathPattern] | None:
        """Return a name, and the one of *patterns* that names it or a folder above it, or None."""
        for pattern in patterns:
            for name in self._candidates(pattern, resolver):
                return name, pattern
        return None

    def _candidates(self, pattern: PathPattern, resolver: PathResolver) -> Iterator[str]:
        for start in starts_of(pattern, resolver):
            if pattern.needle in self._text and start in self._text:
                for name in self._having(pattern.needle):
                    if _matches(name, start, pattern.components):
                        yield name
        if pattern.folded_needle in self._folded_text and pattern.folded_start in self._folded_text:
            for name in self._names:
                if _matches(fold(name), pattern.folded_start, pattern.folded) and (
                    resolver.folds_names(name)
                ):
                    yield name

    def _having(self, needle: str) -> Iterator[str]:
        index = self._text.find(needle)
        while index >= 0:
            end = self._text.find(_END, index)
            yield self._text[self._text.rfind(_END, 0, index) + 1 : end]
            index = self._text.find(needle, end + 1) if end + 1 < len(self._text) else -1


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


def _joined(names: Iterable[str]) -> str:
    return "".join([f"{name}{_END}" for name in names])
