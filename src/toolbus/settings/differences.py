"""The differences between two JSON values, field by field."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator


class Difference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A JSON value at *path* before and after; a missing value is `UNSET`."""

    path: str
    before: Any = UNSET
    after: Any = UNSET


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """Yield the differences of two JSON values, as deep as both have the same shape."""
    inner = _inner(before, after)
    if inner is not None:
        for step, old, new in inner:
            yield from differences(old, new, f"{path}{step}" if path else step.removeprefix("."))
    # JSON distinguishes true from 1, and Python does not.
    elif type(before) is not type(after) or before != after:
        yield Difference(path=path or "the value", before=before, after=after)


def _inner(before: Any, after: Any) -> list[tuple[str, Any, Any]] | None:
    """Return the step to each inner place and both values; None if the shapes differ."""
    match before, after:
        case dict(), dict():
            keys = {**before, **after}
            return [(f".{key}", before.get(key, UNSET), after.get(key, UNSET)) for key in keys]
        case list() | tuple(), list() | tuple():
            pairs = zip_longest(before, after, fillvalue=UNSET)
            return [(f"[{index}]", old, new) for index, (old, new) in enumerate(pairs)]
    return None
