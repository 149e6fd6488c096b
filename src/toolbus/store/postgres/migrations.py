"""The schema of a store, made and brought up to date, by whichever process comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import StoreError, WrongPathError
from toolbus.store.postgres import partitions
from toolbus.store.postgres.postgres_errors import READ_ONLY
from toolbus.store.postgres.tables import SCHEMA, VERSION, Period, steps

if TYPE_CHECKING:
    from toolbus.store.postgres.connection import PgConnection

_LOCK = int.from_bytes(b"toolbus", "big")
"""The advisory lock of who makes or changes the schema."""

_STANDS = """SELECT to_regclass('toolbus.meta') IS NOT NULL,
    (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('toolbus')),
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"""


class SchemaFacts(NamedTuple):
    """The *version* of a schema, 0 if there is none, and how long its partitions are, if any."""

    version: int
    period: Period | None


def read_facts(where: str, connection: PgConnection, *, read_only: bool) -> SchemaFacts:
    """Return what the database has; raises `StoreError` for what is no store, or a newer one."""
    is_ours, tables, only_reads = connection.execute(_STANDS).fetchone() or (False, 0, False)
    if only_reads and not read_only:
        raise StoreError(where, READ_ONLY)
    if not is_ours and tables:
        reason = f"its schema {SCHEMA!r} is another application's; give another database"
        raise WrongPathError(where, reason)
    if not is_ours:
        if read_only:
            raise StoreError(where, "it is empty; give the address of a store")
        return SchemaFacts(0, None)
    row = connection.execute("SELECT version, period FROM toolbus.meta").fetchone()
    facts = SchemaFacts(*row) if row else SchemaFacts(-1, None)
    check_version(where, facts.version)
    return facts


def check_version(where: str, version: int) -> None:
    """Raise `StoreError` for a schema that a newer toolbus made, or nobody."""
    if version > VERSION:
        reason = f"it has version {version}, newer than {VERSION}; update toolbus"
        raise WrongPathError(where, reason)
    if version < 1:
        raise StoreError(where, f"it has version {version}, so it is damaged; restore it")


def prepare(where: str, connection: PgConnection, wished: Period | None) -> SchemaFacts:
    """Make the schema, or bring it up to date; each step is one transaction.

    With *wished* a new one is partitioned by the time when a session was made. Raises `StoreError`
    for what cannot be a store.
    """
    facts = read_facts(where, connection, read_only=False)
    while facts.version < VERSION:
        with connection.transaction():
            # Whoever else makes it waits here, and then sees what is done.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            facts = read_facts(where, connection, read_only=False)
            if facts.version < VERSION:
                _take_step(connection, facts, wished)
        facts = read_facts(where, connection, read_only=False)
    if wished not in {None, facts.period}:
        now = f"by the {facts.period}" if facts.period else "without partitions"
        raise StoreError(where, f"it was made {now}; copy it into a new database for partitions")
    if facts.period:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            partitions.make_ahead(connection, facts.period)
    return facts


def _take_step(connection: PgConnection, facts: SchemaFacts, wished: Period | None) -> None:
    period = facts.period if facts.version else wished
    if not facts.version:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    for statement in steps(facts.version, period)[0]:
        connection.execute(statement)
    if not facts.version:
        connection.execute("INSERT INTO toolbus.meta VALUES (1, %s)", (period,))
    else:
        connection.execute("UPDATE toolbus.meta SET version = version + 1")
