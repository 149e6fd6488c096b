"""`toolbus export`: sessions of a store as JSON Lines, which `toolbus replay` reads back."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from toolbus.formats.native import (
    EndLine,
    Header,
    Line,
    MessageLine,
    RecordLine,
    SessionLine,
    encode_line,
)
from toolbus.settings.hints import nearest
from toolbus.store.portions import pages, portions
from toolbus.store.rows import read_messages, read_records
from toolbus.store.sqlite import SqliteStore
from toolbus.terminal.files import replacing
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from toolbus.store.protocol import SessionInfo
    from toolbus.terminal.output import Output


def run_export(
    output: Output,
    database: str,
    *,
    sessions: Sequence[str] = (),
    file: str | None = None,
    force: bool = False,
) -> int:
    """Write *sessions* of *database*, all if none is named, to *file* or to *output*; return 0.

    The file is there whole or not at all. Raises `StoreError`, `DecodeError` for a damaged row,
    and `UsageError` for a file that is there, without *force*.
    """
    if file is None or file == "-":
        asyncio.run(_to_output(output, database, sessions))
        return 0
    with replacing(Path(file), force=force) as stream:
        count = asyncio.run(_to_stream(stream, database, sessions))
    noun = "session" if count == 1 else "sessions"
    print(f"toolbus: {count} {noun} written to {file}", file=sys.stderr)  # noqa: T201 - for a person
    return 0


async def _to_output(output: Output, database: str, sessions: Sequence[str]) -> None:
    async for lines in _pages(database, sessions):
        output.write(b"".join(map(encode_line, lines)).decode())
        if output.lost is not None:
            return


async def _to_stream(stream: BinaryIO, database: str, sessions: Sequence[str]) -> int:
    count = 0
    async for lines in _pages(database, sessions):
        stream.write(b"".join(map(encode_line, lines)))
        count += sum([isinstance(line, EndLine) for line in lines])
    return count


async def _pages(database: str, sessions: Sequence[str]) -> AsyncIterator[list[Line]]:
    """Give the lines of the export, some at a time."""
    async with SqliteStore(database, read_only=True) as store:
        chosen = _chosen(await store.sessions(), sessions)
        yield [Header()]
        for info in chosen:
            yield [SessionLine(id=info.id, created_ns=info.created_ns, updated_ns=info.updated_ns)]
            messages = records = 0
            async for page in portions(store, "messages", info.id):
                messages += len(page)
                yield [MessageLine(message=one) for one in read_messages(info.id, page)]
            async for rows in pages(store, info.id):
                read = read_records(info.id, rows)
                records += len(read)
                yield [RecordLine(record=one) for one in read]
            yield [EndLine(messages=messages, records=records)]


def _chosen(known: Sequence[SessionInfo], wanted: Sequence[str]) -> list[SessionInfo]:
    """Return the sessions that are *wanted*, each once, in the order of the store."""
    ids = [info.id for info in known]
    for one in wanted:
        if one not in ids:
            hint = nearest(one, ids) or f"; there are {len(ids)}"
            raise UsageError(f"there is no session {one!r}{hint}")
    return [info for info in known if not wanted or info.id in wanted]
