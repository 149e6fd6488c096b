"""A program to be killed: it appends to sessions of a store and prints what was acknowledged."""

import asyncio
import os
import sys

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.events.catalogue import Scope
from toolbus.messages.records import UserMessage
from toolbus.store.protocol import AppendRequest
from toolbus.store.sqlite import SqliteStore

SESSIONS = ("a", "b", "c", "d")


def stored(session_id, at):
    """Return what stands at place *at* of the session; some of it takes several pages."""
    name = f"{session_id}{at}"
    message = UserMessage(id=name, content=name * (3_000 if at % 7 == 0 else 20))
    record = DispatchRecord(
        event="message:append:before",
        scope=Scope(session_id=session_id),
        subject=name,
        started_ns=at,
        duration_ns=0,
        outcome="unchanged",
        original="",
    )
    return AppendRequest(message=message, records=(record,))


def say(line):
    # In one call to the system, so that a line is there as a whole or not at all.
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


async def write(store, session_id):
    at = len(await store.read(session_id))
    while True:
        await store.append(session_id, stored(session_id, at))
        say(f"{session_id} {at}")
        at += 1


async def main():
    say("ready")
    store = SqliteStore(sys.argv[1])
    await asyncio.gather(*[write(store, session_id) for session_id in sys.argv[2:]])


if __name__ == "__main__":
    asyncio.run(main())
