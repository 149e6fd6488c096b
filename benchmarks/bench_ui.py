"""The list of sessions in a browser: its cost beside the bare query of the same rows."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.archives import make_archive
from benchmarks.bench_postgres import server_module
from benchmarks.harness import Rig, table
from toolbus.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BARE = "bare SELECT"
SIZES = ((1, 1_000_000), (1_000, 1_000), (100_000, 10))
SMALL = ((3, 10),)
TURNS = 15

_COLUMNS = "key, id, messages, records, created_ns, updated_ns"
_QUERY = "SELECT {} FROM {}sessions ORDER BY updated_ns DESC, key DESC LIMIT 51"
_FILL = """INSERT INTO toolbus.sessions (id, key, messages, created_ns, updated_ns)
    SELECT 's-' || n, n, 1, n, n FROM generate_series(1, {}::bigint) AS n"""


@table("ms", ours="", baseline=None)
def bench_ui(rig: Rig) -> None:
    """The list of sessions takes at most 0.3 s more than its rows, in a store of any size."""
    for sessions, size in SMALL if rig.once else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "store.db")
            make_archive(path, size, sessions)
            with closing(sqlite3.connect(path)) as connection:
                query = _QUERY.format(_COLUMNS, "")
                row = f"{sessions:,} sessions of {size:,}"
                _measure(rig, row, str(path), sessions, partial(_select, connection, query))
    sessions = 10 if rig.once else 100_000
    with server_module().running_server() as server:
        address = server.address("postgres")
        rig.run(PostgresStore(address).close())
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(_FILL.format(sessions))
            query = _QUERY.format(_COLUMNS, "toolbus.").replace(" ORDER", " WHERE key > 0 ORDER")
            row = f"PostgreSQL, {sessions:,} sessions"
            _measure(rig, row, address, sessions, partial(_select, connection, query))


def _select(connection: Any, query: Any) -> list[Any]:
    rows: list[Any] = connection.execute(query).fetchall()
    return rows


def _measure(rig: Rig, row: str, address: str, sessions: int, select: Callable[[], object]) -> None:
    """Enter the medians of the bare query and of the list, and their differences."""
    took: dict[str, list[float]] = {}
    turns = 1 if rig.once else TURNS

    def time(name: str, work: Callable[[], object]) -> None:
        start = perf_counter()
        work()
        took.setdefault(name, []).append((perf_counter() - start) * 1e3)

    for _ in range(1 if rig.once else 3):
        with _running_ui(address) as ui:
            time("first list", lambda: ui.get("/"))
    with _running_ui(address) as ui:
        for _ in range(turns):
            time(BARE, select)
            time("list while counting", lambda: ui.get("/"))
            time("filtered while counting", lambda: ui.get("/?denied=1"))
        while f"{sessions:,} of {sessions:,} sessions" not in ui.get("/figures").text:
            sleep(0.5)
        for _ in range(turns):
            time("list", lambda: ui.get("/"))
            time("filtered", lambda: ui.get("/?q=s&state=open"))
            time("figures", lambda: ui.get("/figures"))
    bare = median(took[BARE])
    for name, times in took.items():
        rig.put(row, name, None if rig.once else median(times))
        if name != BARE:
            rig.put(row, f"{name}, added", None if rig.once else median(times) - bare)


@contextmanager
def _running_ui(address: str) -> Iterator[Any]:
    folder = str(Path(__file__).parents[1] / "tests" / "plugins")
    if folder not in sys.path:
        sys.path.append(folder)
    import ui_server  # noqa: PLC0415 - found by the line above

    with ui_server.running_ui(address) as ui:
        yield ui
