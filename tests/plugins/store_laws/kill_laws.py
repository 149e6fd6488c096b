"""Processes that are killed at any moment: what was acknowledged is there, whole and in order."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from store_laws.child_process import numbered, start_child
from store_laws.subject_store import StoreSubject, entry, expect, expect_true, law
from toolbus.errors import SessionBusyError

if TYPE_CHECKING:
    import subprocess

    from toolbus.store.protocol import Store

_SESSIONS = ("a", "b", "c", "d")
_KILLS = 12
_MOMENT_NS = 2_000_000


class KilledStoreLaws:
    """For stores that are `durable`; takes a minute."""

    @law
    async def test_what_was_acknowledged_survives_a_kill(self, stores: StoreSubject) -> None:
        """Writers are killed again and again: nothing is lost, torn, twice or out of order."""
        chance, lengths = random.Random(1), dict.fromkeys(_SESSIONS, 0)
        for _ in range(_KILLS):
            child = start_child(stores, "write", *_SESSIONS)
            lines = chance.choice([0, 1, chance.randrange(200)])
            acknowledged = await asyncio.to_thread(_kill_after, child, lines, chance)
            lengths = await _check(stores.open(), lengths | acknowledged)

        expect_true(sum(lengths.values()) > 0, "no child acknowledged anything")

    @law
    async def test_who_is_killed_disturbs_nobody(self, stores: StoreSubject) -> None:
        """Of two writers one is killed; the other goes on."""
        chance, expected = random.Random(2), dict.fromkeys(_SESSIONS, 0)
        first = start_child(stores, "write", "a", "b")
        second = start_child(stores, "write", "c", "d")
        expected |= await asyncio.to_thread(_kill_after, first, chance.randrange(50), chance)
        expected |= await asyncio.to_thread(_kill_after, second, 100, chance)
        lengths = await _check(stores.open(), expected)

        expect_true(min(lengths["c"], lengths["d"]) > 0, "the other writer wrote nothing")

    @law
    async def test_the_lease_of_a_killed_process_ends(self, stores: StoreSubject) -> None:
        """When its seconds are over, or earlier, if the store can tell that the process is gone."""
        child = start_child(stores, "hold", "2")
        assert child.stdout is not None
        await asyncio.to_thread(child.stdout.readline)
        child.kill()
        child.stdout.close()
        child.wait()
        store = stores.open()
        position = None
        while position is None:
            with suppress(SessionBusyError):
                position = await store.open_session("s", "parent", 60)
            await asyncio.sleep(0.05)
        await store.append("s", entry("m", at=position))
        expect(len(await store.read("s")), 1, "what was appended after the lease ended")
        await store.close()


def _kill_after(child: subprocess.Popen[str], lines: int, chance: random.Random) -> dict[str, int]:
    """Kill a writer after so many *lines* and a moment; return the numbers that come next.

    By session, as far as it has acknowledged any.
    """
    assert child.stdout is not None
    child.stdout.readline()
    seen = [child.stdout.readline() for _ in range(lines)]
    until = time.perf_counter_ns() + chance.randrange(_MOMENT_NS)
    while time.perf_counter_ns() < until:
        pass
    child.send_signal(signal.SIGKILL)
    acknowledged: dict[str, int] = {}
    # What stood in the pipe when it died was acknowledged as well.
    for line in [*seen, *child.stdout]:
        session_id, number = line.split()
        acknowledged[session_id] = int(number) + 1
    child.stdout.close()
    expect(child.wait(), -signal.SIGKILL, "how a killed writer ended")
    return acknowledged


async def _check(store: Store, acknowledged: dict[str, int]) -> dict[str, int]:
    """Check each session against what was acknowledged; return how many messages each has."""
    lengths: dict[str, int] = {}
    for session_id, number in acknowledged.items():
        messages, records = await store.read(session_id), await store.records(session_id)
        expected = [numbered(session_id, each) for each in range(len(messages))]
        expect(messages, tuple([each.message for each in expected]), "messages after a kill")
        expect(
            records, tuple([made for each in expected for made in each.records]), "their records"
        )
        # One append of each session may have been written and not yet acknowledged.
        within = number <= len(messages) <= number + 1
        expect_true(within, f"{number} messages acknowledged, {len(messages)} there")
        lengths[session_id] = len(messages)
    with store.reader() as reader:
        expect(reader.facts().problems, (), "what the store finds wrong with itself")
    await store.close()
    return lengths
