"""A read-only view of a transcript's messages, which readers may keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from toolbus.messages.records import Message


class Messages(Sequence[Message]):
    """The messages of a transcript at one moment, of fixed length; made without a copy."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Message]) -> None:
        # The list is shared and only grows, so a view of its first messages never changes.
        self._items, self._length = items, len(items)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step == 1:
                return tuple(self._items[start:stop])
            return tuple([self._items[position] for position in range(start, stop, step)])
        return self._items[range(self._length)[index]]

    def __iter__(self) -> Iterator[Message]:
        return islice(self._items, self._length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # like a list: compared by its messages

    def __repr__(self) -> str:
        return f"<Messages: {self._length}>"
