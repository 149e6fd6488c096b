"""Factories of stores and readers, by address: the path of a file, or a PostgreSQL database."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolbus.errors import StoreError, WrongPathError

if TYPE_CHECKING:
    from toolbus.store.database_store import DatabaseStore
    from toolbus.store.sql_reader import SqlReader

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_POSTGRES = frozenset({"postgres", "postgresql"})
# libpq's URIs and its `service=`, which names an entry of pg_service.conf:
# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING
_SERVICE = "service="


def is_postgres(address: str | os.PathLike[str]) -> bool:
    """Return whether *address* is a PostgreSQL database: `postgresql://…` or `service=…`.

    An address without a scheme is the path of a file, such as `./service=x`. Raises
    `WrongPathError` for any other scheme.
    """
    if not isinstance(address, str):
        return False
    if address.startswith(_SERVICE):
        return True
    scheme = _SCHEME.match(address)
    if scheme is None:
        return False
    if scheme[1] in _POSTGRES:
        return True
    ways = "the path of a file, postgresql://HOST/DATABASE or service=NAME"
    # The rest of the address may contain a password.
    raise WrongPathError(scheme[0], f"unknown scheme of a store; give {ways}")


def open_store(address: str | os.PathLike[str], *, read_only: bool = False) -> DatabaseStore:
    """Open the store at *address*, and create it if it does not exist; not with *read_only*.

    Raises `StoreError` if it cannot be opened, also for a missing extra. `async with` closes it.

    >>> store = open_store("agent.db")
    >>> asyncio.run(store.sessions())
    ()
    >>> asyncio.run(store.close())
    """
    if is_postgres(address):
        store: DatabaseStore = _postgres("store").PostgresStore(address, read_only=read_only)
        return store
    from toolbus.store.sqlite import SqliteStore  # noqa: PLC0415 - only for files

    return SqliteStore(address, read_only=read_only)


def open_reader(address: str | os.PathLike[str], *, live: bool = False) -> SqlReader:
    """Open a reader of the store at *address*; it creates and changes nothing.

    With *live*, other programs may write meanwhile. Raises as `open_store`.

    >>> asyncio.run(open_store("agent.db").close())
    >>> with open_reader("agent.db") as reader:
    ...     list(reader.sessions())
    []
    """
    if is_postgres(address):
        reader: SqlReader = _postgres("reader").PostgresReader(os.fspath(address))
        return reader
    from toolbus.store.sqlite.sqlite_reader import SqliteReader  # noqa: PLC0415 - only for files

    return SqliteReader(address, live=live)


def _postgres(module: str) -> Any:
    try:
        return import_module(f"toolbus.store.postgres.{module}")
    except ImportError as error:
        raise StoreError("postgresql", str(error)) from error
