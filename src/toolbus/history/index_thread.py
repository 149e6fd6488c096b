"""A thread that keeps the index of a store's sessions up to date."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbus.errors import ToolbusError
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.history.session_index import SessionIndex
    from toolbus.store.sql_reader import SqlReader

logger = logging.getLogger("toolbus")

_PAUSE, _RETRY = 0.25, 2.0
"""Seconds between looks at the store, and after a failure."""


@contextmanager
def following(address: str, index: SessionIndex) -> Iterator[None]:
    """Keep *index* up to date with the store at *address*, by a thread, within the context.

    The end waits for the thread a second at most.
    """
    stopping, name = threading.Event(), "toolbus session index"
    thread = threading.Thread(target=_run, args=(address, index, stopping), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(1.0)


def _run(address: str, index: SessionIndex, stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            with open_reader(address, live=True) as reader:
                _follow(reader, index, stopping)
        except Exception as error:
            if not isinstance(error, ToolbusError):
                logger.exception("the index of sessions failed")
            index.resume(f"sessions cannot be counted at the moment: {error}")
            stopping.wait(_RETRY)


def _follow(reader: SqlReader, index: SessionIndex, stopping: threading.Event) -> None:
    while not stopping.is_set():
        started = time.monotonic()
        if index.read_on(reader, started + _PAUSE):
            # At most half of the time is spent on a store that changes all the time.
            stopping.wait(max(_PAUSE, time.monotonic() - started))
