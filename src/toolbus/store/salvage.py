"""Every row that can still be read from the file of a store, and what is broken in it.

A message and an entry of the ledger carry the proof of themselves: a body that decodes, and its
checksum. So they are taken from any page on which they stand, without asking what leads there.
Other rows are taken only from the tree of their table: a page in no use may hold what was deleted.
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
from toolbus.store.rows import decode_message, decode_page
from toolbus.store.wal import Log, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from toolbus.ledger import DispatchRecord
    from toolbus.messages import Message
    from toolbus.store.shapes import Shape

Row = dict[str, Value]

PROVED: Mapping[str, Callable[[object, bytes, object], Message | tuple[DispatchRecord, ...]]] = {
    "messages": decode_message,
    "ledger": decode_page,
}
"""The tables whose rows prove themselves, and how."""

_LEAST = 32
"""No row of a message or of a record takes fewer bytes."""

_HEADS = range(7, 32)
"""How long the head of such a row may be; the letters of a text are greater numbers."""


class Found(NamedTuple):
    """A row of *table*: what its body holds, or why that cannot be told.

    One that was *carved* is where no row should be.
    """

    table: str
    row: Row
    body: Message | tuple[DispatchRecord, ...] | None
    damage: str = ""
    carved: bool = False


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
        """Read all messages and records, wherever they stand; also damaged ones, as far as seen.

        Those that nothing leads to come last: they may be copies of others, and older.
        """
        count = self.pages.count
        known, free = bytearray(count + 1), self.pages.free()
        for number in range(1, count + 1):
            progress(number, count)
            for cell in self._leaf(number, known):
                if found := self._judged(cell):
                    yield found
        for number in range(1, count + 1):
            if not known[number] and number not in free:
                yield from self._carved(self.pages, number)
        for number in self._behind:
            yield from self._carved(self._beyond, number)

    def _leaf(self, number: int, known: bytearray) -> Iterator[Cell]:
        """Read the cells of a page; in *known*, mark the pages on which nothing else can stand."""
        page = self.pages.read(number)
        start = start_of(number)
        kind = page[start] if len(page) > start else 0
        known[number] |= kind in {INDEX_LEAF, INDEX_BRANCH}
        if kind != TABLE_LEAF:
            return
        taken: list[tuple[int, int]] = []
        broken = self.broken_cells
        for at, cell in self.pages.cells(number, page):
            if cell is None:
                self.broken_cells += 1
                continue
            taken.append((at, cell.end))
            for one in cell.overflow:
                known[one] = True
            yield cell
        is_sound = broken == self.broken_cells
        known[number] = is_sound and not _has_holes(page, start, taken)

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
                return Found(table, row, None, f"it {error}")
        return None

    def _carved(self, pages: Pages, number: int) -> Iterator[Found]:
        """Look for rows at every byte of a page."""
        page, at = pages.read(number), 0
        while at < len(page):
            # Where nothing ever stood there are zeros, and no cell begins with one.
            found = self._at(pages, page, at) if page[at] else None
            if found is None:
                at += 1
            else:
                at = found[1]
                yield found[0]

    def _at(self, pages: Pages, page: bytes, at: int) -> tuple[Found, int] | None:
        try:
            cell = pages.cell(page, at, heads=_HEADS)
        except BrokenCellError:
            return None
        found = self._judged(cell)
        return (found._replace(carved=True), cell.end) if found and found.body else None


def _has_holes(page: bytes, start: int, taken: list[tuple[int, int]]) -> bool:
    """Tell whether the part of a leaf that should be full of cells has room for another one."""
    at = int.from_bytes(page[start + 5 : start + 7], "big") or len(page)
    for first, end in [*sorted(taken), (len(page), len(page))]:
        if first - at >= _LEAST:
            return True
        at = max(at, end)
    return False
