"""JSON values, walked text by text; the texts of an array of texts belong together."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, TypeGuard

from toolbus.messages.immutable import FrozenDict, freeze

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def leaves(value: Any) -> Iterator[tuple[str, ...]]:
    """Give the texts of *value*, keys too, each by itself, and those of an array together."""
    match value:
        case str():
            yield (value,)
        case tuple():
            if _are_texts(value):
                yield value
            for one in value:
                yield from leaves(one)
        case FrozenDict():
            for key, one in value.items():
                yield (key,)
                yield from leaves(one)


def mapped(value: Any, change: Callable[..., tuple[str, ...]]) -> Any:
    """Return *value* with *change* made to the texts that belong together, else to each.

    The same object if nothing changes.
    """
    match value:
        case str():
            return change(value)[0]
        case tuple():
            texts = _are_texts(value)
            items = change(*value) if texts else tuple([mapped(one, change) for one in value])
            return value if all(map(is_, items, value)) else items
        case FrozenDict():
            new = {change(key)[0]: mapped(one, change) for key, one in value.items()}
            same = list(new) == list(value) and all(map(is_, new.values(), value.values()))
            return value if same else freeze(new)
    return value


def _are_texts(value: tuple[Any, ...]) -> TypeGuard[tuple[str, ...]]:
    return len(value) > 1 and all(isinstance(one, str) for one in value)
