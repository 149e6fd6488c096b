"""What readers ask a connection to an SQLite store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from toolbus.store import rows, schema
from toolbus.store.protocol import Original, SessionInfo

if TYPE_CHECKING:
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message

Part: TypeAlias = Literal["messages", "pages", "leftovers"]
"""What of a session a portion is of; see `SqliteStore.portion`."""


class Connection(Protocol):
    """What is asked: a connection of the module that knows SQLite."""

    def execute(self, statement: str, parameters: Any = ..., /) -> Any:
        """Return the rows of *statement*."""


def messages(session_id: str, connection: Connection) -> tuple[Message, ...]:
    """Return the messages of a session, in order; raises `DecodeError`."""
    return rows.read_messages(session_id, connection.execute(schema.MESSAGES, (session_id,)))


def records(session_id: str, connection: Connection) -> tuple[DispatchRecord, ...]:
    """Return the records of a session, in order; raises `DecodeError`."""
    found = [connection.execute(one, (session_id,)) for one in (schema.PAGES, schema.LEFTOVERS)]
    return rows.read_records(session_id, sorted([row for one in found for row in one]))


def originals(session_id: str, connection: Connection) -> tuple[Original, ...]:
    """Return the values that a session kept."""
    found = connection.execute(schema.ORIGINALS, (session_id,))
    return tuple([Original(digest=digest, body=body) for digest, body in found])


def portion(
    part: Part, which: tuple[str, int, int], connection: Connection
) -> tuple[tuple[int, rows.Row], ...]:
    """Return some rows of a session, each with the number to go on behind."""
    found = connection.execute(schema.PORTIONS[part], which)
    return tuple([(row[0], row[1:]) for row in found])


def sessions(connection: Connection) -> tuple[SessionInfo, ...]:
    """Return a line for each session, the oldest first."""
    found = connection.execute(schema.SESSIONS)
    return tuple(
        [SessionInfo(id=i, messages=n, created_ns=c, updated_ns=u) for i, n, c, u in found]
    )
