"""Each statement that reads rows of sessions finds them by an index, as the server's plans say.

So it is in the order of that index: a sort could need a temporary file, for which a full disk has
no room.
"""

import asyncio
import re

import psycopg
import pytest

from toolbus import ToolMessage
from toolbus.store import AppendRequest, PostgresStore
from toolbus.store.postgres import reader
from toolbus.store.postgres.addresses import parse_address
from toolbus.store.postgres.connection import PostgresLink, Watchdog

STATEMENTS = {
    f"{name} {kind}".strip(): statement
    for name, value in reader.STATEMENTS._asdict().items()
    if name not in {"changes", "recent_sessions"}
    for kind, statement in (value.items() if isinstance(value, dict) else [("", value)])
}
NUMBERS = {"session", "key", "seq", "place", "LIMIT", "coalesce"}


def with_values(statement):
    """Return *statement* with plain values in the places of those that are given."""
    parts = statement.split("%s")
    text = parts[0]
    for part in parts[1:]:
        word = re.findall(r"\w+", text)[-1]
        is_row = text.endswith((") > (", ", "))
        text += ("'1'" if word in NUMBERS or is_row else "'m-1'") + part
    return text


async def fill(address):
    async with PostgresStore(address) as store:
        message = ToolMessage(id="m", tool_call_id="c", tool_name="t", content="hello")
        await store.append("s", AppendRequest(message=message))


@pytest.fixture(scope="module", params=[False, True], ids=["new", "analyzed"])
def connection(postgres, request):
    address = postgres.address(postgres.create_database())
    asyncio.run(fill(address))
    copies = (
        """INSERT INTO toolbus.sessions (id, key) SELECT 's-' || n, n
        FROM generate_series(1, 3000) AS n""",
        """INSERT INTO toolbus.messages (session, seq, key, id, version, body, checksum, written)
        SELECT n / 10, n % 10, n, 'm-' || n, version, body, checksum, written
        FROM toolbus.messages, generate_series(1, 20000) AS n""",
        """INSERT INTO toolbus.calls (id, key, session, seq, tool)
        SELECT 'c-' || n, n, n / 10, n % 10, 't' FROM generate_series(1, 20000) AS n""",
        """INSERT INTO toolbus.mentions (id, key, session, place, seq)
        SELECT 'm-' || n, n, n / 10, n % 10, n FROM generate_series(1, 20000) AS n""",
        """INSERT INTO toolbus.ledger
        (session, place, seq, key, records, version, checksum, written, body)
        SELECT n / 10, n % 10, n, n, 1, 1, 0, now(), '[]' FROM generate_series(1, 20000) AS n""",
        """INSERT INTO toolbus.originals SELECT n / 10, 'd' || n, ''
        FROM generate_series(1, 20000) AS n""",
        """INSERT INTO toolbus.states SELECT n / 10, 'd' || n, 1, 0, ''
        FROM generate_series(1, 20000) AS n""",
    )
    with psycopg.connect(address, autocommit=True) as made:
        for statement in copies:
            made.execute(statement)
        watchdog = Watchdog()
        link = PostgresLink(parse_address(address), 5.0, watchdog, read_only=True, name="plans")
        if request.param:
            made.execute("ANALYZE")
        yield link.connect()
        link.drop()
        watchdog.close()


@pytest.mark.full
@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_are_found_by_an_index(connection, name):
    rows = connection.execute(f"EXPLAIN {with_values(STATEMENTS[name])}").fetchall()

    plan = "\n".join([line for (line,) in rows])
    assert "Seq Scan" not in plan, plan
    assert "Index" in plan
    assert "Sort" not in plan, plan
