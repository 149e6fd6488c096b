"""Stores by their addresses: the path of a file, or a PostgreSQL server's."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolbus.errors import StoreError, WrongPathError

if TYPE_CHECKING:
    from toolbus.store.protocol import Store
    from toolbus.store.sql_reader import SqlReader

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_POSTGRES = frozenset({"postgres", "postgresql"})
# libpq's URIs and its `service=`, which names an entry of pg_service.conf:
# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING
_SERVICE = "service="


def is_postgres(address: str | os.PathLike[str]) -> bool:
    """Return whether *address* is a PostgreSQL server's: `postgresql://…` or `service=…`.

    An address without a scheme is the path of a file, as `./service=x` is. Raises
    `WrongPathError` for other schemes.
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
    # The rest of it may hold a password.
    raise WrongPathError(scheme[0], f"no store has addresses of this kind; give {ways}")


def open_store(address: str | os.PathLike[str], *, read_only: bool = False) -> Store:
    """Open the store at *address*, which is made if it is not there; with *read_only* neither.

    Raises `StoreError` if it cannot be opened, also for a missing extra. The caller closes it.

    >>> store = open_store("agent.db")
    >>> asyncio.run(store.sessions())
    ()
    >>> asyncio.run(store.close())
    """
    if is_postgres(address):
        store: Store = _postgres("store").PostgresStore(os.fspath(address), read_only=read_only)
        return store
    from toolbus.store.sqlite import SqliteStore  # noqa: PLC0415 - not for all

    return SqliteStore(address, read_only=read_only)


def open_reader(address: str | os.PathLike[str], *, live: bool = False) -> SqlReader:
    """Open the store at *address* to look into it; nothing is made or changed.

    With *live* another program may write meanwhile. Raises as `open_store`.

    >>> asyncio.run(open_store("agent.db").close())
    >>> with open_reader("agent.db") as reader:
    ...     list(reader.sessions())
    []
    """
    if is_postgres(address):
        reader: SqlReader = _postgres("reader").PostgresReader(os.fspath(address))
        return reader
    from toolbus.store.sqlite.sqlite_reader import SqliteReader  # noqa: PLC0415 - not for all

    return SqliteReader(address, live=live)


def _postgres(module: str) -> Any:
    try:
        return import_module(f"toolbus.store.postgres.{module}")
    except ImportError as error:
        raise StoreError("postgresql", str(error)) from error
