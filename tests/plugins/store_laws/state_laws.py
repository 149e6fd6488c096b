"""What components keep: changed by compare-and-set, as exact bytes, and deleted on request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from store_laws.subject_store import StoreSubject, entry, expect, ids_of, law

if TYPE_CHECKING:
    from toolbus.store.protocol import Store


async def count_up(store: Store, session_id: str, name: str, times: int) -> None:
    """Add 1 to the number under *name*, *times* times, whoever else does the same."""
    for _ in range(times):
        while True:
            old = await store.read_state(session_id, name)
            if await store.swap_state(session_id, name, old, b"%d" % (int(old or b"0") + 1)):
                break


class StateLaws:
    """For every store."""

    @law
    async def test_a_state_is_swapped_for_what_stands_there(self, stores: StoreSubject) -> None:
        """And for nothing else; the bytes are compared, so 1.0 is not 1."""
        store = stores.open()
        swaps = [
            await store.swap_state("s", "n", b"1", b"2"),
            await store.swap_state("s", "n", None, None),
            await store.sessions() == (),
            await store.swap_state("s", "n", None, b"1"),
            await store.swap_state("s", "n", None, b"2"),
            await store.swap_state("s", "n", b"1.0", b"2"),
            await store.swap_state("s", "n", b"2", None),
            await store.swap_state("s", "n", b"1", b"1.0"),
            await store.swap_state("s", "other", None, b'{"b":1, "a":[]}'),
        ]
        states = [await store.read_state("s", name) for name in ("n", "other", "none")]

        expected = [False, True, True, True, False, False, False, True, True]
        expect(swaps, expected, "which swaps were made")
        expect(states, [b"1.0", b'{"b":1, "a":[]}', None], "the states, byte by byte")
        expect(await store.read_state("t", "n"), None, "the state of another session")
        await store.close()

    @law
    async def test_a_state_is_deleted(self, stores: StoreSubject) -> None:
        """By None in its place; the session stays, and it can be made anew."""
        store = stores.open()
        await store.swap_state("s", "n", None, b"1")
        swapped = [
            await store.swap_state("s", "n", b"1", None),
            await store.swap_state("s", "n", b"1", None),
            await store.swap_state("s", "n", None, b"2"),
        ]

        expect(swapped, [True, False, True], "which swaps were made")
        expect(await store.read_state("s", "n"), b"2", "the state that was made anew")
        expect(ids_of(await store.sessions()), ["s"], "the sessions")
        await store.close()

    @law
    async def test_a_copied_state_keeps_its_time(self, stores: StoreSubject) -> None:
        """It is no newer write of its session than it was where it came from."""
        store = stores.open()
        await store.append("s", entry("m", written_ns=5_000))
        await store.swap_state("s", "n", None, b"1", written_ns=6_000)
        await store.swap_state("t", "n", None, b"1", written_ns=7_000)

        times = [(info.created_ns, info.updated_ns) for info in await store.sessions()]
        expect(times, [(5_000, 6_000), (7_000, 7_000)], "the times of two sessions")
        await store.close()

    @law
    async def test_parallel_changes_lose_none(self, stores: StoreSubject) -> None:
        """Twenty tasks count up five times each."""
        store = stores.open()
        await asyncio.gather(*[count_up(store, "s", "n", 5) for _ in range(20)])

        expect(await store.read_state("s", "n"), b"100", "a number that was counted up 100 times")
        await store.close()

    @law
    async def test_a_cancelled_swap_is_whole(self, stores: StoreSubject) -> None:
        """It is made or not, and the next one finds which."""
        store = stores.open()
        task = asyncio.ensure_future(store.swap_state("s", "n", None, b"1"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await count_up(store, "s", "n", 1)

        expect(await store.read_state("s", "n"), b"2", "a state that was swapped, then counted up")
        await store.close()

    @law
    async def test_states_are_forgotten_alone(self, stores: StoreSubject) -> None:
        """Those of one session, while its messages and other sessions stay."""
        store = stores.open()
        await store.append("s", entry("m", 1))
        for session_id, name in (("s", "a"), ("s", "b"), ("t", "a")):
            await store.swap_state(session_id, name, None, b"1")
        counts = [await store.forget_states("s"), await store.forget_states("s")]

        expect(counts, [2, 0], "how many states were forgotten")
        expect(await store.read_state("s", "a"), None, "a state that was forgotten")
        expect(await store.read_state("t", "a"), b"1", "the state of another session")
        expect(ids_of(await store.read("s")), ["m"], "the messages")
        expect(len(await store.records("s")), 1, "the records")
        await store.close()
