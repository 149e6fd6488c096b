"""Which pattern names a file, by its name from the root on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.paths.name_globs import fold, plain_name
from toolbus.policy.paths.path_patterns import meets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolving import PathResolver


def matching(
    name: str, patterns: Iterable[PathPattern], resolver: PathResolver
) -> PathPattern | None:
    """Return the first of *patterns* that names the absolute *name*, or a folder above it."""
    folded, folds = "", None
    for pattern in patterns:
        if pattern.needle in name and any(
            _matches(name, start, pattern) for start in starts_of(pattern, resolver)
        ):
            return pattern
        folded = folded or fold(name)
        if pattern.folded_needle in folded and _matches(
            folded, fold(pattern.start), pattern, folded=True
        ):
            folds = resolver.folds_names(name) if folds is None else folds
            if folds:
                return pattern
    return None


def within(
    path: str, patterns: Iterable[PathPattern], resolver: PathResolver
) -> PathPattern | None:
    """Return the first of *patterns* that names the real *path* itself, or its plain folder."""
    for pattern in patterns:
        start = starts_of(pattern, resolver)[-1]
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


def starts_of(pattern: PathPattern, resolver: PathResolver) -> tuple[str, ...]:
    """Return where *pattern* starts as written and, last, really."""
    if not pattern.start:
        return ("",)
    real = resolver.resolve(pattern.start).path
    return (real,) if real == pattern.start else (pattern.start, real)
