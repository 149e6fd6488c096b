"""Appending to PostgreSQL: what a shared place costs beside the same rows written by hand."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.harness import OURS, Rig, table
from toolbus.messages import ToolMessage, ToolResponse, encode
from toolbus.store import AppendRequest, PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    _Contender = tuple[str, str, int, Callable[[], object]]

SESSIONS = 64
RAW = "psycopg, the same rows and commits"
ROUNDS = 60
SAFE = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "128MB", "autovacuum": "on"}
"""As a server is that shall lose nothing."""

_SCHEMA = ["CREATE SCHEMA raw"] + [
    f"CREATE TABLE raw.{name} (LIKE toolbus.{name} INCLUDING ALL)"
    for name in ("sessions", "messages", "calls")
]
_COUNT = "UPDATE raw.sessions SET messages = messages + 1, updated_ns = %s WHERE id = %s"
_MESSAGE = """INSERT INTO raw.messages (session, seq, key, id, version, body, checksum, written)
    VALUES (%s, %s, %s, %s, 1, %s, 0, now())"""
_CALL = """INSERT INTO raw.calls (id, key, session, seq, tool, status)
    VALUES (%s, %s, %s, %s, 'read', 'ok')"""


def server_module() -> Any:
    """Return what starts a server, as the tests do."""
    folder = str(Path(__file__).parents[1] / "tests" / "plugins")
    if folder not in sys.path:
        sys.path.append(folder)
    import postgres_server  # noqa: PLC0415 - found by the line above

    return postgres_server


@table("µs", baseline=RAW)
def bench_postgres(rig: Rig) -> None:
    """64 sessions append at least half as fast as bare psycopg, and one takes at most 3 times."""
    rig.lacks[RAW] = "decode, fence, find out what became of a lost commit; it blocks its thread"
    with server_module().running_server(**SAFE) as server, ExitStack() as opened:
        contenders = list(_contenders(rig, server.address("postgres"), opened))
        took: dict[tuple[str, str], list[float]] = {}
        # Row by row, since whoever comes right behind a large batch waits for the disk as well.
        for row, name, messages, append in _by_turns(contenders, 1 if rig.once else ROUNDS):
            start = perf_counter()
            append()
            took.setdefault((row, name), []).append((perf_counter() - start) / messages * 1e6)
    for (row, name), times in took.items():
        # The median, since a disk's best moment says nothing of the next.
        rig.put(row, name, None if rig.once else median(times))


def _by_turns(contenders: Sequence[_Contender], rounds: int) -> Iterator[_Contender]:
    """Give the contenders of each row in turn, *rounds* times."""
    for row in dict.fromkeys([row for row, *_ in contenders]):
        for _ in range(rounds):
            yield from [each for each in contenders if each[0] == row]


def _contenders(rig: Rig, address: str, opened: ExitStack) -> Iterator[_Contender]:
    """Give row, name, how many messages it appends, and the appending."""
    store = PostgresStore(address)
    opened.callback(lambda: rig.run(store.close()))
    raw = opened.enter_context(psycopg.connect(address))
    raw.prepare_threshold = 2
    for statement in _SCHEMA:
        raw.execute(statement)
    for number in range(SESSIONS):
        raw.execute("INSERT INTO raw.sessions (id) VALUES (%s)", (f"s-{number}",))
    raw.commit()
    turns = iter(range(1, 1_000_000))

    async def gathered(count: int) -> None:
        appends = [store.append(f"s-{n}", AppendRequest(message=_message())) for n in range(count)]
        await asyncio.gather(*appends)

    for row, count in (("1 session", 1), ("64 sessions", SESSIONS)):
        yield row, OURS, count, lambda count=count: rig.run(gathered(count))  # type: ignore[misc]
        yield row, RAW, count, lambda count=count: _write(raw, next(turns), count)  # type: ignore[misc]


def _write(connection: psycopg.Connection[Any], turn: int, count: int) -> None:
    messages = [_message() for _ in range(count)]
    keys = [turn * SESSIONS + number for number in range(count)]
    rows = [
        (number, turn, key, message.id, encode(message).decode())
        for number, (key, message) in enumerate(zip(keys, messages, strict=True))
    ]
    calls = [
        (message.tool_call_id, key, number, turn)
        for number, (key, message) in enumerate(zip(keys, messages, strict=True))
    ]
    counts = [(time_ns(), f"s-{number}") for number in range(count)]
    with connection.cursor() as cursor:
        for statement, values in ((_COUNT, counts), (_MESSAGE, rows), (_CALL, calls)):
            if count == 1:
                cursor.execute(statement, values[0])
            else:
                cursor.executemany(statement, values)
    connection.commit()


def _message() -> ToolMessage:
    said = ToolResponse.from_text("42 files, 3 of them changed since the last release")
    return ToolMessage(tool_call_id=os.urandom(8).hex(), tool_name="read", tool_response=said)
