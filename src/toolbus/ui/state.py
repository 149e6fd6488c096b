"""The state of one running page, shared by its routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.history.session_index import SessionIndex
    from toolbus.store.sql_reader import SqlReader
    from toolbus.ui.locks import UiLocks


class UiState(NamedTuple):
    """The store at *address*, and *targets* for replays: files named on the command line, by name.

    *locks* judge each request before a route gets it; *sessions* follows the store.

    Routes that read the store are plain functions, which Starlette runs in threads.
    """

    address: str
    locks: UiLocks
    sessions: SessionIndex
    targets: Mapping[str, str] = {}

    def reading(self) -> SqlReader:
        """Open a reader for one request; a reader belongs to one thread."""
        return open_reader(self.address, live=True)
