"""A reader of a store that other processes write, which survives the loss of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from toolbus.errors import StoreError
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.sql_reader import SqlReader

T = TypeVar("T")


class StoreFollower:
    """A reader of the store at *address* for one thread at a time.

    *problem* is the reason why the latest read failed, or "".
    """

    def __init__(self, address: str) -> None:
        self.problem = ""
        self._address = address
        self._reader: SqlReader | None = None
        self._changes: int | None = None

    def read_change(self, read: Callable[[SqlReader], T]) -> T | None:
        """Return the result of *read* if the store has changed since the previous call, else None.

        A failed read is tried again by the next call, with a new reader.
        """
        try:
            result = self._read_change(read)
        except (StoreError, UsageError) as error:
            self.close()
            self.problem = str(error)
            return None
        self.problem = ""
        return result

    def close(self) -> None:
        """Close the reader."""
        reader, self._reader, self._changes = self._reader, None, None
        if reader is not None:
            reader.close()

    def _read_change(self, read: Callable[[SqlReader], T]) -> T | None:
        if self._reader is None:
            self._reader = open_reader(self._address, live=True)
        # Read before the rows, so that a write meanwhile is another change.
        changes = self._reader.changes
        if changes == self._changes:
            return None
        result = read(self._reader)
        self._changes = changes
        return result
