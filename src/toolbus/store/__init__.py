"""Stores of sessions: in memory, in an SQLite file, on a PostgreSQL server."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports
from toolbus.store.protocol import AppendRequest as AppendRequest
from toolbus.store.protocol import Original as Original
from toolbus.store.protocol import Position as Position
from toolbus.store.protocol import SessionInfo as SessionInfo
from toolbus.store.protocol import Store as Store

if TYPE_CHECKING:
    from toolbus.store.memory import MemoryStore as MemoryStore
    from toolbus.store.postgres.store import PostgresStore as PostgresStore
    from toolbus.store.sqlite import SqliteStore as SqliteStore
    from toolbus.store.store_factory import open_reader as open_reader
    from toolbus.store.store_factory import open_store as open_store
    from toolbus.store.store_reader import StoreReader as StoreReader

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "MemoryStore": "memory",
        "open_reader": "store_factory",
        "open_store": "store_factory",
        "PostgresStore": "postgres.store",
        "SqliteStore": "sqlite",
        "StoreReader": "store_reader",
    },
)
