"""What `specs` should not mention of `toolbus.store.portions`."""

import random

import pytest

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.events.catalogue import Scope
from toolbus.messages.records import UserMessage
from toolbus.store.portions import pages, portions
from toolbus.store.protocol import Stored
from toolbus.store.rows import read_messages, read_records
from toolbus.store.sqlite import SqliteStore


def record(number):
    return DispatchRecord(
        event="e",
        scope=Scope(),
        subject=f"m-{number}",
        started_ns=number,
        duration_ns=1,
        outcome="observed",
        original="",
    )


@pytest.mark.parametrize("seed", range(8))
async def test_portions_give_what_a_session_has_in_order(tmp_path, seed):
    draw, numbers = random.Random(seed), iter(range(10_000))
    async with SqliteStore(tmp_path / "store.db") as store:
        for number in range(draw.randint(0, 200)):
            records = tuple([record(next(numbers)) for _ in range(draw.randint(0, 3))])
            message = UserMessage(id=f"m-{number}", content="x" * draw.choice((1, 1, 100_000)))
            if draw.random() < 0.4 and records:
                await store.append("s", Stored(records=records))
            else:
                await store.append("s", Stored(message=message, records=records))

        messages = [row async for rows in portions(store, "messages", "s") for row in rows]
        found = [row async for rows in pages(store, "s") for row in rows]

        assert read_messages("s", messages) == await store.read("s")
        assert read_records("s", found) == await store.records("s")
        assert [one.started_ns for one in read_records("s", found)] == list(range(next(numbers)))
        assert [rows async for rows in pages(store, "nobody")] == []
