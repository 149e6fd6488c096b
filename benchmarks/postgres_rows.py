"""By hand: what commands and an append cost in 10,000,000 rows on PostgreSQL beside 10,000.

`python -m benchmarks.postgres_rows [ROWS]` fills a database with so many rows of messages and
calls (half an hour of a small machine's time at most, 5 GB), and prints what each takes in turns.
"""

from __future__ import annotations

import asyncio
import io
import sys
from contextlib import redirect_stdout
from itertools import islice
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks.bench_postgres import server_module
from toolbus.cli import main as toolbus
from toolbus.messages import ToolMessage, ToolResponse, UserMessage, encode
from toolbus.store import AppendRequest, PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.store_reader import SessionRow, StoreReader

PER_SESSION = 50
"""Messages of a session; half of them answer a call."""

TURNS = 15

Costs: TypeAlias = dict[str, list[float]]
"""The milliseconds of each verb, a turn each."""

# Sessions of the past: their keys are below those that are made from now on.
_FILL = (
    "DROP INDEX toolbus.messages_by_id, toolbus.calls_by_session",
    "ALTER TABLE toolbus.calls DROP CONSTRAINT calls_pkey",
    """INSERT INTO toolbus.sessions (id, key, messages, created_ns, updated_ns)
        SELECT 's-' || substr(md5(n::text), 1, 12), n * 2048, {per}, n, n
        FROM generate_series(1, {sessions}::bigint) AS n""",
    """INSERT INTO toolbus.messages (session, seq, key, id, version, body, checksum, written)
        SELECT n * 2048, seq, -((n * {per} + seq) << 11),
            substr(md5('m' || n || '-' || seq), 1, 16), 1,
            replace(replace(%s, 'ID', substr(md5('m' || n || '-' || seq), 1, 16)),
                'CALL', substr(md5('c' || n || '-' || seq / 2), 1, 16)), 0, now()
        FROM generate_series(1, {sessions}::bigint) AS n, generate_series(1, {per}) AS seq""",
    """INSERT INTO toolbus.calls (id, key, session, seq, tool, status)
        SELECT substr(md5('c' || n || '-' || seq / 2), 1, 16),
            -((n * {per} + seq) << 11), n * 2048, seq,
            'read', CASE seq % 2 WHEN 1 THEN 'ok' END
        FROM generate_series(1, {sessions}::bigint) AS n, generate_series(1, {per}) AS seq""",
    "ALTER TABLE toolbus.calls ADD CONSTRAINT calls_pkey PRIMARY KEY (id, key, session)",
    "CREATE INDEX calls_by_session ON toolbus.calls (session, seq)",
    "CREATE INDEX messages_by_id ON toolbus.messages (id, key)",
    # As the server does by itself, some time after so many rows.
    "VACUUM ANALYZE",
    "CHECKPOINT",
)
SERVER = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "maintenance_work_mem": "512MB",
    "full_page_writes": "on",
    "autovacuum": "on",
}


def main(rows: int) -> None:
    """Fill two databases and print the median milliseconds of each verb, and their ratio."""
    with server_module().running_server(**SERVER) as server:
        databases = {}
        for count in (10_000, rows):
            since = perf_counter()
            databases[count] = name = server.create_database()
            _fill(server, name, count)
            size = server.execute("SELECT pg_database_size(current_database())", name)[0][0]
            seconds = perf_counter() - since
            print(f"{count:,} rows: {seconds:.0f} s to fill, {size / count:.0f} bytes a row")
        addresses = {count: server.address(name) for count, name in databases.items()}
        costs: dict[int, Costs] = {count: {} for count in addresses}
        # In turns, for what else the machine does lasts longer than a verb.
        for number in range(TURNS):
            for count, address in addresses.items():
                _take_turn(costs[count], address, number)
    small, large = costs.values()
    for verb in small:
        before, after = median(small[verb]), median(large[verb])
        print(f"{verb:<24} {before:9.2f} ms {after:9.2f} ms  {after / before:.2f}")


def _fill(server: Any, name: str, rows: int) -> None:
    address = server.address(name)
    asyncio.run(PostgresStore(address).close())
    response = ToolResponse.from_text("42 files, 3 of them changed since the last release")
    body = encode(
        ToolMessage(id="ID", tool_call_id="CALL", tool_name="read", tool_response=response)
    )
    numbers = {"per": PER_SESSION, "sessions": max(1, rows // PER_SESSION // 2)}
    quoted = "'" + body.decode().replace("'", "''") + "'"
    for statement in _FILL:
        server.execute(statement.format(**numbers).replace("%s", quoted), name)
    asyncio.run(_write_some(address))


async def _write_some(address: str) -> None:
    """Write the sessions that are looked at: with bodies whose checksums are right."""
    async with PostgresStore(address) as store:
        for number in range(TURNS):
            for seq in range(PER_SESSION):
                await store.append(
                    f"look-{number}", AppendRequest(message=_answer(f"{number}-{seq}"))
                )


def _answer(name: str) -> ToolMessage:
    said = ToolResponse.from_text("42 files, 3 of them changed since the last release")
    return ToolMessage(
        id=f"look-{name}", tool_call_id=f"call-{name}", tool_name="read", tool_response=said
    )


def _take_turn(costs: Costs, address: str, number: int) -> None:
    _time(costs, "show", _command, "show", address, f"look-{number}")
    _time(costs, "explain", _command, "explain", address, f"look-{number}-25")
    _time(costs, "explain --call", _command, "explain", address, "--call", f"call-{number}-7")
    store = PostgresStore(address)
    with store.reader() as reader:
        for turn in range(10):
            name = f"look-{(number + turn) % TURNS}"
            _time(costs, "a session by its id", reader.session, name)
            _time(costs, "ids that begin so", reader.ids_like, "message", f"{turn:x}{number:x}")
        _time(costs, "the first 200 sessions", _some, reader, 200)
    asyncio.run(store.close())
    asyncio.run(_time_appends(costs, address))


def _some(reader: StoreReader, count: int) -> list[SessionRow]:
    return list(islice(reader.sessions(), count))


async def _time_appends(costs: Costs, address: str) -> None:
    async with PostgresStore(address) as store:
        for number in range(40):
            since = perf_counter()
            await store.append("new", AppendRequest(message=UserMessage(content=f"hello {number}")))
            costs.setdefault("append", []).append((perf_counter() - since) * 1e3)


def _time(costs: Costs, verb: str, work: Callable[..., object], *values: object) -> None:
    since = perf_counter()
    work(*values)
    costs.setdefault(verb, []).append((perf_counter() - since) * 1e3)


def _command(*words: str) -> None:
    with redirect_stdout(io.StringIO()):
        assert toolbus([*words]) == 0, words


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
