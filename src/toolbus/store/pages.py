"""The rows of a session in pages, none of which takes much room, however large its rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolbus.store.rows import Row
    from toolbus.store.sqlite import SqliteStore

_FIRST, _MOST = 4, 64
_BYTES = 2**20
"""What a page shall hold, as far as the one before it tells."""


async def pages(
    store: SqliteStore, table: Literal["messages", "records"], session_id: str
) -> AsyncIterator[tuple[Row, ...]]:
    """Give the rows of a session in order, undecoded, some at a time."""
    after, most = 0, _FIRST
    while page := await store.page(table, session_id, after, most):
        yield page
        after = page[-1][0]
        mean = sum([len(body) for _, _, body in page]) // len(page)
        most = max(1, min(_MOST, _BYTES // max(1, mean)))
