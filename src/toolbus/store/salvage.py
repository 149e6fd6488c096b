"""Every row that can still be read from the file of a store, and what is broken in it.

A message and a record carry the proof of themselves: a body that decodes, and its checksum. So
they are taken from any page on which they stand, without asking what leads there. Other rows are
taken only from the tree of their table: a page in no use may hold what was deleted.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

from toolbus.errors import DecodeError
from toolbus.store.pages import (
    INDEX_BRANCH,
    INDEX_LEAF,
    TABLE_LEAF,
    BrokenCellError,
    Cell,
    Pages,
    Place,
    Value,
    start_of,
)
from toolbus.store.paths import beside
from toolbus.store.rows import decode_message, decode_record
from toolbus.store.wal import Log, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from toolbus.ledger import DispatchRecord
    from toolbus.messages import Message
    from toolbus.store.shapes import Shape

Row = dict[str, Value]

PROVED: Mapping[str, Callable[[object, bytes, object], Message | DispatchRecord]] = {
    "messages": decode_message,
    "records": decode_record,
}
"""The tables whose rows prove themselves, and how."""


class Found(NamedTuple):
    """A row of *table*: what its body holds, or why that cannot be told."""

    table: str
    row: Row
    body: Message | DispatchRecord | None
    damage: str = ""


class Salvage:
    """Reads what is left of *file* and of the log beside it; a context manager."""

    def __init__(self, file: Path, shapes: Mapping[str, Shape]) -> None:
        self._shapes, self._open = shapes, ExitStack()
        main = self._open.enter_context(file.open("rb"))
        size = self.bytes = file.stat().st_size
        self.log: Log = read_log(beside(file, "-wal"))
        newer, behind = {}, {}
        if self.log.frames:
            wal = self._open.enter_context(beside(file, "-wal").open("rb"))
            newer = {page: Place(wal, at) for page, at in self.log.pages.items()}
            behind = {page: Place(wal, at) for page, at in self.log.pages_behind.items()}
        page_size = self.log.page_size if newer else 0
        self.pages = Pages(main, size, newer, page_size)
        self._beyond = Pages(main, size, newer | behind, page_size or self.log.page_size)
        self._behind = tuple(behind)
        self.broken_cells = 0
        self.roots = self._read_roots()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _read_roots(self) -> dict[str, int]:
        """Return the root page of each table and index, by name, as far as it can be told."""
        roots: dict[str, int] = {}
        for number in self.pages.tree(1):
            for _, cell in self.pages.cells(number, self.pages.read(number)):
                match cell.values if cell else []:
                    case [_, str(name), _, int(root), *_]:
                        roots[name] = root
        return roots

    def rows(self, table: str) -> Iterator[Row]:
        """Read the rows of a table by its tree."""
        shape = self._shapes[table]
        for cell in self.cells(table):
            row = shape.row(cell.rowid, cell.values)
            if row is None:
                self.broken_cells += 1
            else:
                yield row

    def cells(self, name: str) -> Iterator[Cell]:
        """Read the cells of the tree of a table or of an index."""
        for number in self.pages.tree(self.roots.get(name, 0)):
            for _, cell in self.pages.cells(number, self.pages.read(number)):
                if cell is None:
                    self.broken_cells += 1
                else:
                    yield cell

    def proved(self, progress: Callable[[int, int], None]) -> Iterator[Found]:
        """Read all messages and records, wherever they stand; also damaged ones, as far as seen."""
        count = self.pages.count
        claimed, free = bytearray(count + 1), self.pages.free()
        for number in range(1, count + 1):
            progress(number, count)
            yield from self._leaf(self.pages, number, claimed)
        for number in range(1, count + 1):
            if not claimed[number] and number not in free:
                yield from self._carved(self.pages, self.pages.read(number), [])
        for number in self._behind:
            yield from self._leaf(self._beyond, number, bytearray(self._beyond.count + 1))

    def _leaf(self, pages: Pages, number: int, claimed: bytearray) -> Iterator[Found]:
        page = pages.read(number)
        kind = page[start_of(number) : start_of(number) + 1]
        if kind in {bytes([INDEX_LEAF]), bytes([INDEX_BRANCH])}:
            claimed[number] = True
        if kind != bytes([TABLE_LEAF]):
            return
        claimed[number] = True
        taken: list[tuple[int, int]] = []
        for at, cell in pages.cells(number, page):
            found = self._judged(cell) if cell else None
            if cell and (found is None or found.body):
                taken.append((at, cell.end))
                _claim(claimed, cell.overflow)
            self.broken_cells += cell is None
            if found:
                yield found
        yield from self._carved(pages, page, taken)

    def _judged(self, cell: Cell) -> Found | None:
        """Return the message or record that *cell* is; None if it is of another table."""
        for table, decode in PROVED.items():
            row = self._shapes[table].row(cell.rowid, cell.values)
            if row is None:
                continue
            body = str(row["body"]).encode(errors="surrogateescape")
            try:
                return Found(table, row, decode(row["version"], body, row["checksum"]))
            except DecodeError as error:
                return Found(table, row, None, str(error))
        return None

    def _carved(self, pages: Pages, page: bytes, taken: list[tuple[int, int]]) -> Iterator[Found]:
        """Look for rows at every byte of *page* that is not *taken* by one."""
        at = 0
        for start, end in [*sorted(taken), (len(page), len(page))]:
            # Where nothing ever stood there are zeros, and no cell begins with one.
            while at < start:
                found = self._at(pages, page, at) if page[at] else None
                if found is None:
                    at += 1
                else:
                    at = found[1]
                    yield found[0]
            at = max(at, end)

    def _at(self, pages: Pages, page: bytes, at: int) -> tuple[Found, int] | None:
        try:
            cell = pages.cell(page, at)
        except BrokenCellError:
            return None
        found = self._judged(cell)
        return (found, cell.end) if found and found.body else None


def _claim(claimed: bytearray, numbers: list[int]) -> None:
    for number in numbers:
        claimed[number] = True
