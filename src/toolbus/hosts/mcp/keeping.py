"""What is kept of a client's session: its messages and its ledger, in a store if there is one."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from toolbus.eager import Begun, to_the_end
from toolbus.events import MODEL_CALL_DELTA
from toolbus.store import Stored
from toolbus.transcript import Transcript

if TYPE_CHECKING:
    from toolbus.bus import EventBus
    from toolbus.ledger import DispatchRecord
    from toolbus.messages import Message
    from toolbus.store import Store

logger = logging.getLogger("toolbus")

_MOST_RECORDS = 1_000
"""How many records wait at most for a message to be written with, or for a store that fails."""


class Keeper:
    """Writes the session *session_id* to *store*; without one it keeps nothing."""

    def __init__(self, bus: EventBus, session_id: str, store: Store | None) -> None:
        self.session_id = session_id
        self._bus, self._store = bus, store
        self._unsaved: deque[DispatchRecord] = deque(maxlen=_MOST_RECORDS)
        self._end_tap = (
            bus.tap(self._log, idle=False, without=(MODEL_CALL_DELTA,), session_id=session_id)
            if store
            else None
        )

    @property
    def stores(self) -> bool:
        """Whether anything is kept."""
        return self._store is not None

    def transcript(self) -> Transcript:
        """Return the transcript of one call and its answer.

        A client may have many calls under way, and a proxy runs for weeks: so each has one of
        its own, in which the call and its answer are next to each other.
        """
        return Transcript(self._bus, self.session_id, self._write if self._store else None)

    async def close(self) -> None:
        """Write the last records."""
        if self._end_tap is None:
            return
        self._end_tap()
        if self._unsaved:
            try:
                await to_the_end(Begun(self._write(None)))
            except Exception as error:  # noqa: BLE001 - the messages are safe, the session is over
                logger.warning("ledger records of the session are lost: %s", error)

    async def _write(self, message: Message | None) -> None:
        if self._store is None:
            return
        records = tuple(self._unsaved)
        self._unsaved.clear()
        try:
            await self._store.append(self.session_id, Stored(message=message, records=records))
        except Exception:
            self._unsaved.extendleft(reversed(records))
            raise

    def _log(self, record: DispatchRecord) -> None:
        if len(self._unsaved) == _MOST_RECORDS:
            logger.warning("a ledger record is lost: too many wait for the next message")
        self._unsaved.append(record)
