"""The rows of a session in portions, none of which takes much room, however large its rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolbus.store.reads import Part
    from toolbus.store.rows import Row
    from toolbus.store.sqlite import SqliteStore

_FIRST, _MOST = 4, 64
_BYTES = 2**20
"""What a portion shall hold, as far as the one before it tells."""


async def portions(store: SqliteStore, part: Part, session_id: str) -> AsyncIterator[list[Row]]:
    """Give the rows of a session in order, undecoded, some at a time."""
    after, most = 0, _FIRST
    while portion := await store.portion(part, session_id, after, most):
        rows = [row for _, row in portion]
        yield rows
        after = portion[-1][0]
        mean = sum([len(body) for _, _, body, _ in rows]) // len(rows)
        most = max(1, min(_MOST, _BYTES // max(1, mean)))


async def pages(store: SqliteStore, session_id: str) -> AsyncIterator[list[Row]]:
    """Give all pages of records in the order of the records, some at a time."""
    leftovers = portions(store, "leftovers", session_id)
    waiting: list[Row] = await anext(leftovers, [])
    async for portion in portions(store, "pages", session_id):
        rows, last = list(portion), portion[-1][0]
        while waiting and waiting[0][0] < last:
            earlier = [row for row in waiting if row[0] < last]
            rows += earlier
            waiting = waiting[len(earlier) :] or await anext(leftovers, [])
        yield sorted(rows)
    while waiting:
        yield waiting
        waiting = await anext(leftovers, [])
