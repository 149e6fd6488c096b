"""A store in an SQLite file."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.store.sqlite.sqlite_store import SqliteStore as SqliteStore

__getattr__, __dir__ = lazy_exports(__name__, {"SqliteStore": "sqlite_store"})
