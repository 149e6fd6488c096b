"""The write-ahead log of SQLite, read frame by frame, so that damage in it is not silent.

SQLite reads a log up to the first frame whose checksum is wrong, and takes what follows for the
remains of a write that was cut off. Mostly it is. But a writer begins a commit only when the one
before is on the disk, so whole frames behind a broken one show that it was whole once. The
format: https://sqlite.org/fileformat2.html#the_write_ahead_log.
"""

from __future__ import annotations

import struct
from os import SEEK_END
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_BIG, _LITTLE = 0x377F0683, 0x377F0682
_FORMAT = 3_007_000
_PAGE_SIZES = frozenset(2**power for power in range(9, 17))

_MAX_BYTES = 16_000_000
"""Bytes of a log that are read in about half a second."""

Sums = tuple[int, int]
"""A checksum, or the two salts of a round of the log: two numbers of 32 bits."""


class Log(NamedTuple):
    """What a log holds.

    *broken_at* is the number of the frame at which SQLite stops, 0 for the header; *inside*,
    whether it is amid a commit. *commits_behind* are whole, and SQLite does not see them. *tail*
    is how many bytes behind the last frame are none.
    """

    frames: int = 0
    commits: int = 0
    broken_at: int | None = None
    inside: bool = False
    commits_behind: int = 0
    tail: int = 0

    @property
    def damage(self) -> str:
        """What is wrong, or may be, or ""; a last write that was cut off is nothing wrong."""
        if self.broken_at == 0:
            behind = f"{self.frames} frame{'s' * (self.frames != 1)}"
            return f"the log beside it has a damaged header, and SQLite would drop its {behind}"
        if not self.commits_behind:
            return ""
        behind = f"{self.commits_behind} commit{'s' * (self.commits_behind > 1)} behind it"
        where = f"the log beside it is damaged at frame {self.broken_at}"
        return f"{where}, and SQLite would drop {behind}"

    @property
    def is_certain(self) -> bool:
        """Whether what is wrong cannot be the remains of a process that was killed.

        Who shares the file goes on over what a killed process wrote of one commit.
        """
        return self.commits_behind > 1 or (self.commits_behind == 1 and self.inside)


class LogFrame(NamedTuple):
    """A frame of a log: the version of one page.

    *size* is that of the file in pages if the frame ends a commit, else 0; *current* tells those
    of this round of the log from those of earlier ones, *whole* whether the checksum is right.
    """

    number: int
    page: int
    size: int
    current: bool
    whole: bool


class LogScan(NamedTuple):
    """The frames of a log, of which the first *good* are good; -1 is for a bad header."""

    page_size: int
    salts: Sums
    frames: list[LogFrame]
    good: int


def damage_of(path: Path) -> str:
    """Return what is certainly wrong with the log at *path*, "" if nothing is or there is none.

    Of a log that somebody writes at this moment that cannot be told, and one of more than
    16 MB takes too long for who only wants to open the store; `toolbus check` reads them all.
    """
    if not path.exists() or path.stat().st_size > _MAX_BYTES:
        return ""
    log = read_log(path)
    # What was read while it was written may look damaged, but never twice in the same way.
    return log.damage if log.is_certain and read_log(path) == log else ""


def read_log(path: Path) -> Log:
    """Return what the log at *path* holds; nothing if there is none."""
    try:
        with path.open("rb") as file:
            scan = _read(file)
            tail = file.seek(0, SEEK_END) - _HEADER.size
    except FileNotFoundError:
        return Log()
    return _summary(scan, tail % (_FRAME.size + scan.page_size)) if scan else Log()


def reseal(path: Path, copy: Path) -> None:
    """Write the log at *path* to *copy* so that SQLite reads on behind what is damaged.

    All frames up to the last whole one get a checksum that fits them, the damaged ones as well:
    what they hold is for others to judge.
    """
    with path.open("rb") as file, copy.open("wb") as new:
        if not (scan := _read(file)):
            return
        head = struct.pack(">6I", _LITTLE, _FORMAT, scan.page_size, 0, *scan.salts)
        sums = _sums("<", head, (0, 0))
        new.write(head + struct.pack(">2I", *sums))
        file.seek(_HEADER.size)
        for frame in scan.frames[: _proof(scan.frames)]:
            data = file.read(_FRAME.size + scan.page_size)[_FRAME.size :]
            sums = _sums("<", data, _sums("<", struct.pack(">2I", frame.page, frame.size), sums))
            new.write(_FRAME.pack(frame.page, frame.size, *scan.salts, *sums) + data)


def _read(file: BinaryIO) -> LogScan | None:
    """Return the frames of a log, None if it is too short for one; its format is at the top."""
    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return None
    magic, _, page_size, _, *salts, first, second = _HEADER.unpack(head)
    order = ">" if magic == _BIG else "<"
    sums = _sums(order, head[:24], (0, 0))
    if magic in {_BIG, _LITTLE} and page_size in _PAGE_SIZES and sums == (first, second):
        own_salts = (salts[0], salts[1])
        frames = list(_frames(file, page_size, own_salts, sums, order))
        broken = (index for index, frame in enumerate(frames) if not frame.whole)
        return LogScan(page_size, own_salts, frames, next(broken, len(frames)))
    return _read_without_header(file, page_size, (sums, (first, second)))


def _read_without_header(
    file: BinaryIO, page_size: int, seeds: tuple[Sums, Sums]
) -> LogScan | None:
    """Return the frames behind a damaged header, as the one of *seeds* gives them that fits most.

    Any word of the header may be the wrong one, so the first frame tells which are right.
    """
    page_size = page_size if page_size in _PAGE_SIZES else 4096
    first_frame = file.read(_FRAME.size)
    if len(first_frame) < _FRAME.size:
        return None
    salts = _FRAME.unpack(first_frame)[2:4]
    tries = [list(_frames(file, page_size, salts, seed, order)) for order in "<>" for seed in seeds]
    best = max(tries, key=lambda frames: sum([frame.whole for frame in frames]))
    return LogScan(page_size, salts, best, -1)


def _frames(
    file: BinaryIO, page_size: int, salts: Sums, sums: Sums, order: str
) -> Iterator[LogFrame]:
    """Give the frames of a log; *sums* is the checksum of what stands before them."""
    number, length = 0, _FRAME.size + page_size
    file.seek(_HEADER.size)
    while len(data := file.read(length)) == length:
        number += 1
        page, size, first_salt, second_salt, first, second = _FRAME.unpack_from(data)
        current = (first_salt, second_salt) == salts
        whole = False
        # Those of an earlier round are skipped at the speed of reading.
        if current:
            expected = _sums(order, data[_FRAME.size :], _sums(order, data[:8], sums))
            whole = expected == (first, second)
        # Its own word is taken for what it should be, so the next one is judged by itself.
        sums = (first, second)
        yield LogFrame(number, page, size, current, whole)


def _summary(scan: LogScan, tail: int) -> Log:
    frames, rest = scan.frames, max(scan.good, 0)
    last_commit = next((index for index in reversed(range(rest)) if frames[index].size), -1)
    # A commit that is broken itself counts if something stands behind it.
    behind = frames[rest : max(rest, _proof(frames))]
    return Log(
        frames=len(frames),
        commits=sum([bool(frame.size) for frame in frames[: last_commit + 1]]),
        broken_at=scan.good + 1 if scan.good < len(frames) else None,
        inside=scan.good < 0 or last_commit < rest - 1,
        commits_behind=sum([frame.current and bool(frame.size) for frame in behind]),
        tail=tail if scan.good >= 0 else 0,
    )


def _proof(frames: list[LogFrame]) -> int:
    """Return the number of the last whole frame: all before it was written."""
    return next((frame.number for frame in reversed(frames) if frame.whole), 0)


def _sums(order: str, data: bytes, sums: Sums) -> Sums:
    """Carry on the checksum *sums* over *data*, whose length is a multiple of eight."""
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
