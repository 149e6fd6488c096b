"""Rows read off the pages of an SQLite file without SQLite, so that no damage hides another row.

The format: https://sqlite.org/fileformat2.html. A tree leads to its leaves; a leaf that no tree
leads to any more can still be read by itself, and so can a cell in a leaf whose head is damaged.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

Value: TypeAlias = int | float | str | bytes | None

INDEX_BRANCH, TABLE_BRANCH, INDEX_LEAF, TABLE_LEAF = 2, 5, 10, 13

_MAGIC = b"SQLite format 3\0"
_WIDTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_ANY = range(2, 1 << 16)


class BrokenCellError(Exception):
    """The bytes at a place are no cell."""


class Cell(NamedTuple):
    """A row as it stands in a page, up to its byte *end*; texts may hold surrogates.

    *rowid* is 0 in an index; *overflow* are the pages on which the rest of it stands.
    """

    rowid: int
    values: list[Value]
    end: int
    overflow: list[int]


_LOOKED_AT = 256
"""On how many pages it is seen whether their ends are in use."""


class Place(NamedTuple):
    """Where the image of a page stands."""

    file: BinaryIO
    offset: int


class Pages:
    """The pages of *file*, of which some have a newer image in another place: a log."""

    def __init__(self, file: BinaryIO, size: int, newer: dict[int, Place], page_size: int) -> None:
        self._file, self._newer = file, newer
        head = file.read(100)
        self.is_database = head.startswith(_MAGIC)
        self.size = page_size or _page_size(head)
        self.bytes = size + len(newer) * self.size
        self.count = max([-(-size // self.size), *newer])
        self.head = self.read(1)[:100].ljust(100, b"\0")
        self.promised = int.from_bytes(self.head[28:32], "big")
        self.usable = self.size - self._reserved(head)

    def _reserved(self, head: bytes) -> int:
        """Return how many bytes at the end of each page are in no use, as *head* says."""
        claimed = head[20] if self.is_database and head[20] <= self.size - 480 else 0
        # A damaged byte says so too, and then they are in use.
        pages = range(1, min(self.count, _LOOKED_AT) + 1)
        return 0 if any(any(self.read(one)[self.size - claimed :]) for one in pages) else claimed

    def read(self, number: int) -> bytes:
        """Return the page *number*, which begins at 1; shorter, or empty, where it was cut."""
        place = self._newer.get(number) or Place(self._file, (number - 1) * self.size)
        place.file.seek(place.offset)
        return place.file.read(self.size)

    def free(self) -> frozenset[int]:
        """Return the numbers of pages that are in no use, as far as they can be told."""
        found: set[int] = set()
        trunk = int.from_bytes(self.head[32:36], "big")
        while 0 < trunk <= self.count and trunk not in found:
            found.add(trunk)
            words = _words(self.read(trunk))
            trunk, length = words[:2] if len(words) > 1 else (0, 0)
            found.update(words[2 : 2 + length])
        return frozenset(found)

    def tree(self, root: int) -> Iterator[int]:
        """Walk the pages of the tree at *root* in order, whatever they are by now."""
        waiting, seen = [root], bytearray(self.count + 1)
        while waiting:
            number = waiting.pop()
            if 0 < number <= self.count and not seen[number]:
                seen[number] = True
                yield number
                waiting += reversed(self._children(number))

    def _children(self, number: int) -> list[int]:
        page = self.read(number)
        start = start_of(number)
        if page[start : start + 1] not in {bytes([TABLE_BRANCH]), bytes([INDEX_BRANCH])}:
            return []
        cells = [page[at : at + 4] for at in _pointers(page, start, 12)]
        return [int.from_bytes(cell, "big") for cell in [*cells, page[start + 8 : start + 12]]]

    def cells(self, number: int, page: bytes) -> Iterator[tuple[int, Cell | None]]:
        """Read the cells of *page* as its head says, each with its place; None is a broken one.

        What is no leaf, and no branch of an index, has none.
        """
        start = start_of(number)
        kind = page[start] if len(page) > start else 0
        if kind not in {TABLE_LEAF, INDEX_LEAF, INDEX_BRANCH}:
            return
        for at in _pointers(page, start, 12 if kind == INDEX_BRANCH else 8):
            try:
                branch = 4 if kind == INDEX_BRANCH else 0
                yield at, self.cell(page, at + branch, is_table=kind == TABLE_LEAF)
            except BrokenCellError:
                yield at, None

    def cell(self, page: bytes, at: int, *, is_table: bool = True, heads: range = _ANY) -> Cell:
        """Return the cell that stands at byte *at* of *page*; raises `BrokenCellError`.

        *heads* is how many bytes there may be before the first value.
        """
        length, at = _varint(page, at)
        rowid, at = _varint(page, at) if is_table else (0, at)
        if not 0 < length <= self.bytes or _varint(page, at)[0] not in heads:
            raise BrokenCellError
        most = self.usable - 35 if is_table else (self.usable - 12) * 64 // 255 - 23
        here = self._local(length, most)
        end = at + here
        payload, overflow = page[at:end], list[int]()
        _check_head(payload, length)
        if here < length:
            payload += self._overflow(page[end : end + 4], length - here, overflow)
            end += 4
        if len(payload) < length or end > len(page):
            raise BrokenCellError
        return Cell(_signed(rowid), _values(payload), end, overflow)

    def _local(self, length: int, most: int) -> int:
        """Return how much of a payload stands in the page itself."""
        if length <= most:
            return length
        least = (self.usable - 12) * 32 // 255 - 23
        share = least + (length - least) % (self.usable - 4)
        return share if share <= most else least

    def _overflow(self, link: bytes, length: int, seen: list[int]) -> bytes:
        parts: list[bytes] = []
        while length > 0:
            seen.append(int.from_bytes(link, "big"))
            page = self.read(seen[-1]) if 0 < seen[-1] <= self.count else b""
            part = page[4 : 4 + min(length, self.usable - 4)]
            if not part:
                raise BrokenCellError
            parts.append(part)
            link, length = page[:4], length - len(part)
        return b"".join(parts)


def _page_size(head: bytes) -> int:
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    return size if size >= 512 and size.bit_count() == 1 else 4096


def start_of(number: int) -> int:
    """Return where the head of a page begins: the first page has that of the file before it."""
    return 100 if number == 1 else 0


def _pointers(page: bytes, start: int, head: int) -> list[int]:
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    data = page[start + head : start + head + 2 * min(count, len(page) // 2)]
    return [at for (at,) in struct.iter_unpack(">H", data[: len(data) // 2 * 2])]


def _words(page: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(page) // 4}I", page[: len(page) // 4 * 4])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and where it ends."""
    number = 0
    for byte in data[at : at + 8]:
        at += 1
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at
    if at >= len(data):
        raise BrokenCellError
    return number << 8 | data[at], at + 1


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _check_head(payload: bytes, length: int) -> None:
    """Refuse what cannot be a payload of *length*, before the rest of it is read."""
    kinds, head = _kinds(payload)
    if sum(map(_width, kinds)) + head != length:
        raise BrokenCellError


def _kinds(payload: bytes) -> tuple[list[int], int]:
    """Return the serial types of a payload's values, and where the values begin."""
    head, at = _varint(payload, 0)
    if not at < head <= len(payload):
        raise BrokenCellError
    kinds = []
    while at < head:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if at != head:
        raise BrokenCellError
    return kinds, head


def _width(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    if kind in {10, 11}:
        raise BrokenCellError
    return _WIDTHS[kind]


def _values(payload: bytes) -> list[Value]:
    kinds, at = _kinds(payload)
    values: list[Value] = []
    for kind in kinds:
        width = _width(kind)
        values.append(_value(kind, payload[at : at + width]))
        at += width
    return values


def _value(kind: int, data: bytes) -> Value:
    if kind >= 12:
        return data.decode(errors="surrogateescape") if kind & 1 else data
    if kind == 0:
        return None
    if kind == 7:
        (number,) = struct.unpack(">d", data)
        return float(number)
    return kind - 8 if kind >= 8 else int.from_bytes(data, "big", signed=True)
