"""The schema of a store, made and brought up to date, by whichever process comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.errors import StoreError, WrongPathError
from toolbus.store.postgres.postgres_errors import READ_ONLY
from toolbus.store.postgres.tables import OLDEST, SCHEMA, TABLES, UPGRADES, VERSION

if TYPE_CHECKING:
    from toolbus.store.postgres.connection import PgConnection

_LOCK = int.from_bytes(b"toolbus", "big")
"""The advisory lock of who makes or changes the schema."""

_STANDS = """SELECT to_regclass('toolbus.meta') IS NOT NULL,
    (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('toolbus')),
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"""
_PARTITIONED = """SELECT relname FROM pg_class
    WHERE relnamespace = 'toolbus'::regnamespace AND relkind = 'p'"""


def read_version(where: str, connection: PgConnection, *, read_only: bool) -> int:
    """Return the version of the schema, 0 if there is none.

    Raises `StoreError` for a database that is not a store, or is a newer one.
    """
    is_ours, tables, only_reads = connection.execute(_STANDS).fetchone() or (False, 0, False)
    if only_reads and not read_only:
        raise StoreError(where, READ_ONLY)
    if not is_ours and tables:
        reason = f"its schema {SCHEMA!r} is another application's; give another database"
        raise WrongPathError(where, reason)
    if not is_ours:
        if read_only:
            raise StoreError(where, "it is empty; give the address of a store")
        return 0
    (version,) = connection.execute("SELECT version FROM toolbus.meta").fetchone() or (-1,)
    _check_version(where, version)
    return int(version)


def _check_version(where: str, version: int) -> None:
    if version > VERSION:
        reason = f"it has version {version}, newer than {VERSION}; update toolbus"
        raise WrongPathError(where, reason)
    if version < OLDEST:
        raise StoreError(where, f"it has version {version}, which no release wrote; restore it")


def prepare(where: str, connection: PgConnection) -> None:
    """Make the schema, or bring it up to date, in one transaction.

    Raises `StoreError` for a database that cannot be a store.
    """
    if read_version(where, connection, read_only=False) == VERSION:
        return
    with connection.transaction():
        # Another process that makes it waits here, and then sees that it is done.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = read_version(where, connection, read_only=False)
        if version == VERSION:
            return
        for statement in UPGRADES if version else TABLES:
            connection.execute(statement)
        _add_default_partitions(connection)
        connection.execute("DELETE FROM toolbus.meta")
        connection.execute("INSERT INTO toolbus.meta VALUES (%s)", (VERSION,))


def _add_default_partitions(connection: PgConnection) -> None:
    """Give each partitioned table of a store of 0.3 a partition for sessions of any time."""
    for (table,) in connection.execute(_PARTITIONED).fetchall():
        name = f"{SCHEMA}.{table}"
        connection.execute(f"CREATE TABLE {name}_rest PARTITION OF {name} DEFAULT")
