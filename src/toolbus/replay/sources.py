"""Where recorded sessions come from: files, folders, databases and the standard input."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from toolbus.errors import DecodeError, StoreError
from toolbus.formats.items import Aside, Closed, Item, Opened, Problem, Said
from toolbus.formats.lines import LINE_LIMIT
from toolbus.formats.reading import read
from toolbus.store.portions import portions
from toolbus.store.rows import read_messages
from toolbus.store.sqlite import SqliteStore
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from toolbus.store.rows import Row

SQLITE = "sqlite"

_MAGIC = b"SQLite format 3\0"
_SUFFIXES = frozenset({".jsonl", ".ndjson", ".db", ".sqlite", ".sqlite3"})
_BATCH, _BATCH_BYTES = 64, 2**20
_BUFFER = 2**18
"""Bytes of a file that are read at once; each read is a call of the system."""


class Source(NamedTuple):
    """A file, None for the standard input; *name* is how its lines and sessions are called."""

    path: Path | None
    name: str


class SourceBatch(NamedTuple):
    """A few items of a source; *done* is how much of the source was read, from 0 to 1."""

    source: Source
    items: list[Item]
    done: float | None = None


def find_sources(arguments: Sequence[str]) -> tuple[list[Source], int]:
    """Return the files that *arguments* mean, and how many others their folders hold.

    Names are relative to the folder that was given, so that they are the same on every machine.
    Raises `UsageError` for what is not there.
    """
    sources: list[Source] = []
    others = 0
    for one in arguments:
        path = Path(one)
        if one == "-":
            sources.append(Source(None, "stdin"))
        elif path.is_dir():
            files = sorted([file for file in path.rglob("*") if file.is_file()])
            chosen = [file for file in files if file.suffix.lower() in _SUFFIXES]
            others += len(files) - len(chosen)
            sources += [Source(file, file.relative_to(path).as_posix()) for file in chosen]
        elif path.exists():
            sources.append(Source(path, path.name))
        else:
            raise UsageError(f"there is no {one!r}; give a file, a folder, or - for stdin")
    return sources, others


async def read_sources(
    sources: Sequence[Source],
    *,
    kind: str | None = None,
    limit: int = LINE_LIMIT,
    session: str | None = None,
) -> AsyncIterator[SourceBatch]:
    """Give what *sources* hold, a few items at a time; of one *session* alone, if it is given.

    A source that cannot be read (further) is a `Problem` of line 0.
    """
    for source in sources:
        try:
            async for batch in _read(source, kind, limit, session):
                if session is None:
                    yield batch
                else:
                    kept = [one for one in batch.items if _concerns(one, session)]
                    yield batch._replace(items=kept)
        except (StoreError, OSError) as error:
            # The sources after this one are replayed all the same.
            yield SourceBatch(source, [Problem(0, str(error))])


def _read(
    source: Source, kind: str | None, limit: int, session: str | None
) -> AsyncIterator[SourceBatch]:
    if kind in {None, SQLITE} and _is_database(source, sure=kind == SQLITE):
        return _read_database(source, session)
    return _read_lines(source, None if kind == SQLITE else kind, limit)


def _concerns(item: Item, session: str) -> bool:
    return isinstance(item, Problem | Aside) or item.session == session


def _is_database(source: Source, *, sure: bool) -> bool:
    if source.path is None:
        return False
    # A pipe would lose what is read here.
    if sure or not source.path.is_file():
        return sure
    with source.path.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


async def _read_lines(source: Source, kind: str | None, limit: int) -> AsyncIterator[SourceBatch]:
    with _opened(source) as (stream, size):
        counted, batch = _Counted(stream), list[Item]()
        due = _BATCH_BYTES
        for item in read(counted, source.name, kind=kind, limit=limit):
            batch.append(item)
            if len(batch) == _BATCH or counted.bytes > due:
                yield SourceBatch(source, batch, min(1.0, counted.bytes / size) if size else None)
                batch, due = [], counted.bytes + _BATCH_BYTES
        if batch:
            yield SourceBatch(source, batch)


class _Counted:
    """A stream that counts what was read of it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._readline, self.bytes = stream.readline, 0

    def readline(self, limit: int = -1, /) -> bytes:
        """Read a line, or as much of it as *limit* says."""
        data = self._readline(limit)
        self.bytes += len(data)
        return data


@contextmanager
def _opened(source: Source) -> Iterator[tuple[BinaryIO, int]]:
    """Give the stream of a source and its size, 0 if that is not known."""
    if source.path is None:
        stream: AbstractContextManager[BinaryIO] = nullcontext(sys.stdin.buffer)
        size = 0
    else:
        stream = source.path.open("rb", _BUFFER)
        size = source.path.stat().st_size if source.path.is_file() else 0
    with stream as opened:
        yield opened, size


async def _read_database(source: Source, session: str | None) -> AsyncIterator[SourceBatch]:
    async with SqliteStore(str(source.path), read_only=True) as store:
        infos = [one for one in await store.sessions() if session in {None, one.id}]
        total, done = sum([info.messages for info in infos]), 0
        for info in infos:
            yield SourceBatch(source, [Opened(info.id)])
            async for page in portions(store, "messages", info.id):
                done += len(page)
                items = [_item(info.id, row) for row in page]
                yield SourceBatch(source, items, min(1.0, done / total) if total else None)
            yield SourceBatch(source, [Closed(info.id)])


def _item(session: str, row: Row) -> Item:
    try:
        (message,) = read_messages(session, [row])
    except DecodeError as error:
        return Problem(row[0], str(error))
    return Said(session, message)
