"""Partitions by the time when a session was made: each ahead of its time, dropped when empty."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from toolbus.store.postgres.tables import KEYS_PER_SECOND, PARTITIONED, SECONDS_OFFSET, Period

if TYPE_CHECKING:
    from toolbus.store.postgres.connection import PgConnection

_AHEAD = 2
"""How many periods after the running one have their partitions."""

_EXISTING = """SELECT child.relname FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
    WHERE inhparent = %s::regclass ORDER BY child.relname"""


def make_ahead(connection: PgConnection, period: Period) -> None:
    """Make the partitions of now and of what comes next, within the transaction of the caller."""
    (now,) = connection.execute("SELECT now()").fetchone() or (datetime.now(UTC),)
    start = start_of(now, period)
    for _ in range(_AHEAD + 1):
        end = next_start(start, period)
        for table in PARTITIONED:
            name = f"{table}_{start:%Y%m%d}"
            if connection.execute("SELECT to_regclass(%s)", (f"toolbus.{name}",)).fetchone() == (
                None,
            ):
                # Attached, not made in place: so those who write need not stand still.
                like = f"LIKE toolbus.{table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS"
                connection.execute(f"CREATE TABLE toolbus.{name} ({like})")
                connection.execute(
                    f"ALTER TABLE toolbus.{table} ATTACH PARTITION toolbus.{name}"
                    f" FOR VALUES FROM ({first_key(start)}) TO ({first_key(end)})"
                )
        start = end


def drop_empty(connection: PgConnection, before: datetime, period: Period) -> None:
    """Drop the partitions that end before *before* and hold nothing."""
    for table in PARTITIONED:
        for (name,) in connection.execute(_EXISTING, (f"toolbus.{table}",)).fetchall():
            start = datetime.strptime(name.rpartition("_")[2], "%Y%m%d").replace(tzinfo=UTC)
            if next_start(start, period) > before:
                continue
            rows = connection.execute(f"SELECT 1 FROM toolbus.{name} LIMIT 1").fetchall()
            if not rows:
                connection.execute(f"DROP TABLE toolbus.{name}")


def start_of(moment: datetime, period: Period) -> datetime:
    """Return when the period began in which *moment* is, in UTC."""
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day if period == "day" else day.replace(day=1)


def next_start(start: datetime, period: Period) -> datetime:
    """Return when the period ends that begins at *start*."""
    if period == "day":
        return start + timedelta(days=1)
    return (start + timedelta(days=32)).replace(day=1)


def first_key(moment: datetime) -> int:
    """Return the lowest key of a session that was made at *moment* or later."""
    return (int(moment.timestamp()) - SECONDS_OFFSET) * KEYS_PER_SECOND
