"""Sources of recorded sessions: files, folders, databases and standard input."""

from __future__ import annotations

import sys
from contextlib import closing, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from urllib.parse import urlsplit

from toolbus.errors import StoreError
from toolbus.formats.items import Item, MessageItem, Problem, SessionEnd, SessionStart, SkippedLine
from toolbus.formats.session_files import LINE_LIMIT, read
from toolbus.history.lookup import first_folder
from toolbus.settings.files import reason_of
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import is_postgres, open_reader

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from toolbus.store.store_reader import MessageRow, StoreReader

SQLITE = "sqlite"

_MAGIC = b"SQLite format 3\0"
_SUFFIXES = frozenset({".jsonl", ".ndjson", ".db", ".sqlite", ".sqlite3"})
_BATCH, _BATCH_BYTES, _FIRST_BATCHES = 64, 2**20, 20
_BUFFER = 2**18
"""The bytes of a file in one read; each read is a system call."""


class Source(NamedTuple):
    """A file, None for standard input; *name* is its name in reports.

    *address* is the address of a store outside the file system.
    """

    path: Path | None
    name: str
    address: str | None = None


class SourceBatch(NamedTuple):
    """A few items of a source; *done* is the part of it that was read, from 0 to 1."""

    source: Source
    items: list[Item]
    done: float | None = None


def find_sources(arguments: Sequence[str]) -> tuple[list[Source], int]:
    """Return the sources of *arguments*, and the number of other files in their folders.

    Names are relative to the given folder, so they are the same on every machine. Raises
    `UsageError` for a missing file.
    """
    sources: list[Source] = []
    others = 0
    for argument in arguments:
        path = Path(argument)
        if argument == "-":
            sources.append(Source(None, "stdin"))
        elif is_postgres(argument):
            sources.append(Source(None, _label(argument), argument))
        elif path.is_dir():
            files = sorted([file for file in path.rglob("*") if file.is_file()])
            chosen = [file for file in files if file.suffix.lower() in _SUFFIXES]
            others += len(files) - len(chosen)
            sources += [Source(file, file.relative_to(path).as_posix()) for file in chosen]
        elif path.exists():
            sources.append(Source(path, path.name))
        else:
            raise UsageError(
                f"there is no file {argument!r}; give a file, a folder, or - for stdin"
            )
    if not sources:
        kinds = ", ".join(sorted(_SUFFIXES))
        raise UsageError(f"nothing to replay in {arguments[0]!r}; expected a file of {kinds}")
    return sources, others


def _label(address: str) -> str:
    """Return *address* without its secrets."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}" if parts.scheme else address


def read_sources(
    sources: Sequence[Source],
    *,
    kind: str | None = None,
    limit: int = LINE_LIMIT,
    session: str | None = None,
) -> Generator[SourceBatch]:
    """Yield the items of *sources*, a few at a time; only those of *session*, if it is given.

    A source that becomes unreadable yields a `Problem` of line 0.
    """
    for source in sources:
        try:
            with closing(_read(source, kind, limit, session)) as batches:
                for batch in batches:
                    items = batch.items
                    if session is not None:
                        items = [item for item in items if _belongs(item, session)]
                    yield batch._replace(items=items)
        # The sources after an unreadable one are still replayed.
        except StoreError as error:
            yield SourceBatch(source, [Problem(0, str(error))])
        except OSError as error:
            yield SourceBatch(source, [Problem(0, reason_of(error))])


def _read(
    source: Source, kind: str | None, limit: int, session: str | None
) -> Generator[SourceBatch]:
    if kind in {None, SQLITE} and _is_database(source, sure=kind == SQLITE):
        return _read_database(source, session)
    return _read_lines(source, None if kind == SQLITE else kind, limit)


def _belongs(item: Item, session: str) -> bool:
    return isinstance(item, Problem | SkippedLine) or item.session == session


def _is_database(source: Source, *, sure: bool) -> bool:
    if source.path is None:
        return source.address is not None
    # Bytes read here from a pipe would be lost.
    if sure or not source.path.is_file():
        return sure
    with source.path.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _read_lines(source: Source, kind: str | None, limit: int) -> Generator[SourceBatch]:
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
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._readline, self.bytes = stream.readline, 0

    def readline(self, limit: int = -1, /) -> bytes:
        """Read a line, or its first *limit* bytes."""
        data = self._readline(limit)
        self.bytes += len(data)
        return data


@contextmanager
def _opened(source: Source) -> Iterator[tuple[BinaryIO, int]]:
    """Yield the stream of a source and its size, 0 for an unknown one."""
    if source.path is None:
        stream: AbstractContextManager[BinaryIO] = nullcontext(sys.stdin.buffer)
        size = 0
    else:
        stream = source.path.open("rb", _BUFFER)
        size = source.path.stat().st_size if source.path.is_file() else 0
    with stream as opened:
        yield opened, size


def _read_database(source: Source, session_id: str | None) -> Generator[SourceBatch]:
    with open_reader(source.address or str(source.path), live=True) as reader:
        sessions = [row for row in reader.sessions() if session_id in {None, row.id}]
        total, done = sum([session.messages for session in sessions]), 0
        for session in sessions:
            folder = first_folder(reader, session.key)
            is_partial = _is_partial(reader, session.key)
            yield SourceBatch(source, [SessionStart(session.id, folder, is_partial)])
            rows = reader.messages(session.key)
            while batch := list(islice(rows, _BATCH)):
                done += len(batch)
                items = [_item(session.id, row) for row in batch]
                yield SourceBatch(source, items, min(1.0, done / total) if total else None)
            yield SourceBatch(source, [SessionEnd(session.id)])


def _is_partial(reader: StoreReader, session: int) -> bool:
    """Return whether a session has records, and none of a run: its host did not show all texts."""
    batches = islice(reader.record_batches(session), _FIRST_BATCHES)
    runs = [record.scope.run_id for batch in batches for record in batch.records]
    return bool(runs) and not any(runs)


def _item(session_id: str, row: MessageRow) -> Item:
    if row.message is None:
        return Problem(row.seq, row.problem_in(session_id))
    return MessageItem(session_id, row.message)
