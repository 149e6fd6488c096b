"""Appending to SQLite: what it costs to survive a killed process."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.harness import OURS, Rig, table
from toolbus.messages import ToolMessage, ToolResponse, encode
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SESSIONS = 64
EACH = "sqlite3, one transaction per message"
TOGETHER = "sqlite3, one transaction per 64"
ROUNDS = 30


@table("µs", baseline=None)
def bench_append(rig: Rig) -> None:
    """Per message, 64 sessions at once cost little more than one transaction for all of them."""
    rig.lacks |= {
        EACH: "decode, count, find calls, isolate a bad append; it blocks its thread",
        TOGETHER: "the same; and nobody is told before all are written",
    }
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        contenders = list(_contenders(rig, Path(folder), opened))
        took: dict[tuple[str, str], list[float]] = {}
        for _ in range(1 if rig.once else ROUNDS):
            for row, name, messages, append in contenders:
                start = perf_counter()
                append()
                seconds = perf_counter() - start
                took.setdefault((row, name), []).append(seconds / messages * 1e6)
    for (row, name), times in took.items():
        # The median, since a disk's best moment says nothing of the next.
        rig.put(row, name, None if rig.once else median(times))


@table("commits", baseline=None)
def bench_append_commits(rig: Rig) -> None:
    """64 concurrent appends need at most 4 commits."""
    most = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1 if rig.once else 10):
            most = max(most, rig.run(_commits(Path(folder, f"store-{number}.db"))))
    rig.put("64 sessions", OURS, float(most))
    rig.put("64 sessions", EACH, float(SESSIONS))
    rig.put("64 sessions", TOGETHER, 1.0)


async def _commits(path: Path) -> int:
    async with SqliteStore(path) as store:
        before = store.commits
        await _gathered(store, 0)
        return store.commits - before


async def _gathered(store: SqliteStore, turn: int) -> None:
    jobs = [
        store.append(f"s-{at}", AppendRequest(message=_message(turn, at))) for at in range(SESSIONS)
    ]
    await asyncio.gather(*jobs)


def _contenders(
    rig: Rig, folder: Path, opened: ExitStack
) -> Iterator[tuple[str, str, int, Callable[[], object]]]:
    """Give row, name, how many messages it appends, and the appending."""
    turns = iter(range(1_000_000))

    store = SqliteStore(folder / "ours.db")
    opened.callback(lambda: rig.run(store.close()))

    def one() -> None:
        rig.run(store.append("s-one", AppendRequest(message=_message(next(turns), 0))))

    yield "1 session", OURS, 1, one
    yield "64 sessions", OURS, SESSIONS, lambda: rig.run(_gathered(store, next(turns)))
    each, together = _raw(folder / "each.db"), _raw(folder / "together.db")
    opened.callback(each.close)
    opened.callback(together.close)
    yield "1 session", EACH, 1, lambda: _insert(each, next(turns), 1)

    def singly() -> None:
        for _ in range(SESSIONS):
            _insert(each, next(turns), 1)

    yield "64 sessions", EACH, SESSIONS, singly
    yield "64 sessions", TOGETHER, SESSIONS, lambda: _insert(together, next(turns), SESSIONS)
    yield "1 session", TOGETHER, 1, lambda: _insert(together, next(turns), 1)


def _raw(path: Path) -> sqlite3.Connection:
    """Return a connection that is as careful as ours."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE messages"
        " (session TEXT, seq INTEGER, id TEXT, body TEXT, PRIMARY KEY (session, seq))"
    )
    return connection


def _insert(connection: sqlite3.Connection, turn: int, messages: int) -> None:
    with closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        for at in range(messages):
            message = _message(turn, at)
            row = (f"s-{at}", turn, message.id, encode(message).decode())
            cursor.execute("INSERT INTO messages VALUES (?, ?, ?, ?)", row)
        cursor.execute("COMMIT")


def _message(turn: int, at: int) -> ToolMessage:
    said = ToolResponse.from_text("42 files, 3 of them changed since the last release")
    return ToolMessage(
        id=f"m-{turn}-{at}", tool_call_id=f"c-{turn}-{at}", tool_name="read", tool_response=said
    )
