"""What differs between two JSON values, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Difference(NamedTuple):
    """A place whose value was another one, was not there before, or is not there after."""

    path: str
    before: Any
    after: Any


class Nothing:
    """What stands in a `Difference` for a value that is not there."""

    def __repr__(self) -> str:
        return "(nothing)"


NOTHING = Nothing()


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """Give the places where two JSON values differ, as deep as they have the same shape."""
    match before, after:
        case dict(), dict():
            for key in {**before, **after}:
                inner = f"{path}.{key}" if path else str(key)
                yield from differences(before.get(key, NOTHING), after.get(key, NOTHING), inner)
        case list(), list():
            for at in range(max(len(before), len(after))):
                old, new = [one[at] if at < len(one) else NOTHING for one in (before, after)]
                yield from differences(old, new, f"{path}[{at}]")
        case _:
            # JSON knows true from 1, and Python does not.
            if type(before) is not type(after) or before != after:
                yield Difference(path or "the value", before, after)
