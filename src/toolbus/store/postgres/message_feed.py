"""A feed of a session's messages: the server notifies it of each message, with polling behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolbus.store.postgres.driver import psycopg
from toolbus.store.postgres.text_ids import indexed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from toolbus.messages.records import Message
    from toolbus.store.postgres.addresses import DatabaseAddress

_LOOK_AGAIN = 5.0
"""Seconds between polls of the session: a notification may be lost with its connection."""

_LISTEN = (
    "LISTEN toolbus",
    # Writers notify only while this lock is held, since notifications serialize commits.
    "SELECT pg_advisory_lock_shared(1952609651, hashtext(%s))",
)


async def follow_messages(
    address: DatabaseAddress,
    session_id: str,
    after: int,
    read: Callable[[int], Awaitable[tuple[Message, ...]]],
) -> AsyncGenerator[Message, None]:
    """Yield the messages after number *after*, including future ones, as *read* returns them."""
    connection: psycopg.AsyncConnection[Any] | None = None
    try:
        while True:
            if connection is None or connection.closed:
                connection = await _listen(address, session_id)
            # Read after LISTEN: later messages cause a notification.
            for message in await read(after):
                after += 1
                yield message
            connection = await _wait(connection, indexed(session_id))
    finally:
        if connection is not None:
            await connection.close()


async def _listen(address: DatabaseAddress, session_id: str) -> psycopg.AsyncConnection[Any] | None:
    """Return a connection that is notified of the session; None if there is none at present."""
    try:
        connection = await psycopg.AsyncConnection.connect(
            address.conninfo, autocommit=True, connect_timeout=5, application_name="toolbus follows"
        )
    except psycopg.Error:
        return None
    try:
        await connection.execute(_LISTEN[0])
        await connection.execute(_LISTEN[1], (indexed(session_id),))
    except psycopg.Error:
        # A standby server does not support notifications.
        await connection.close()
        return None
    return connection


async def _wait(
    connection: psycopg.AsyncConnection[Any] | None, name: str
) -> psycopg.AsyncConnection[Any] | None:
    """Wait for a write to the session *name*, or for the next poll; return the connection."""
    if connection is None:
        await asyncio.sleep(_LOOK_AGAIN / 5)
        return None
    try:
        async for notice in connection.notifies(timeout=_LOOK_AGAIN):
            if notice.payload == name:
                break
    except psycopg.Error:
        await connection.close()
        return None
    return connection
