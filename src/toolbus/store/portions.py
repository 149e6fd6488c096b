"""The rows of a session in portions, none of which takes much room, however large its rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolbus.store.rows import Row
    from toolbus.store.sqlite import SqliteStore

_FIRST, _MOST = 4, 64
_BYTES = 2**20
"""What a portion shall hold, as far as the one before it tells."""


async def portions(
    store: SqliteStore, table: Literal["messages", "records"], session_id: str
) -> AsyncIterator[tuple[Row, ...]]:
    """Give the rows of a session in order, undecoded, some at a time."""
    after, most = 0, _FIRST
    while portion := await store.portion(table, session_id, after, most):
        yield portion
        after = portion[-1][0]
        mean = sum([len(body) for _, _, body, _ in portion]) // len(portion)
        most = max(1, min(_MOST, _BYTES // max(1, mean)))
