"""A session in the order in which it happened: its messages, and between them the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.archive import Archive, MessageRow, Page


class Timeline:
    """What a session holds behind the message number *after*, a few rows at a time.

    Each `more` gives what has come since the last one.
    """

    def __init__(self, archive: Archive, session: int, after: int = 0) -> None:
        self._archive, self._session = archive, session
        self._after, self._told = after, 0

    def more(self) -> Iterator[MessageRow | Page]:
        """Give messages and pages of records, those that came before a message before it."""
        for row in self._archive.messages(self._session, self._after):
            yield from self._new(self._archive.leftovers(self._session, self._after, row.seq))
            if page := self._archive.page(row.key):
                yield from self._new(iter([page]))
            self._after = row.seq
            yield row
        last = self._after
        yield from self._new(self._archive.leftovers(self._session, last, last + 1))

    def _new(self, pages: Iterator[Page]) -> Iterator[Page]:
        for page in pages:
            # What came behind the last message comes before the next one, and was told.
            if page.seq > self._told:
                self._told = page.seq
                yield page
