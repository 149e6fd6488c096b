"""One writer at a time: epochs and positions, which decide, and leases, which word it early."""

from __future__ import annotations

import asyncio

from store_laws.subject_store import (
    StoreSubject,
    entry,
    expect,
    expect_error,
    expect_true,
    ids_of,
    law,
    record,
)
from toolbus.errors import SessionBusyError
from toolbus.store.protocol import AppendRequest, Position


class WriterLaws:
    """For every store."""

    @law
    async def test_each_opening_has_a_higher_epoch(self, stores: StoreSubject) -> None:
        """And says how many messages there are; of an unknown session none, which makes none."""
        store = stores.open()
        first = await store.open_session("s", "a", 0)
        expect(await store.sessions(), (), "sessions after one was only opened")
        await store.append("s", entry("1", at=first))
        second = await store.open_session("s", "b", 0)

        expect((first.length, second.length), (0, 1), "how many messages an opening tells")
        expect_true(second.epoch > first.epoch, f"epoch {second.epoch} came after {first.epoch}")
        await store.close()

    @law
    async def test_an_overtaken_agent_writes_nothing(self, stores: StoreSubject) -> None:
        """The error says where the session stands now."""
        store = stores.open()
        first = await store.open_session("s", "a", 0)
        second = await store.open_session("s", "b", 0)
        late = store.append("s", entry("late", 1, at=first))
        error = await expect_error(SessionBusyError, late, "an append by who was overtaken")

        expect((await store.read("s"), await store.records("s")), ((), ()), "what it wrote")
        stands = (getattr(error, "epoch", None), getattr(error, "length", None))
        expect(stands, (second.epoch, 0), "where the error says that the session stands")
        await store.append("s", entry("1", at=second))
        expect(ids_of(await store.read("s")), ["1"], "the append of the newer writer")
        await store.close()

    @law
    async def test_a_message_of_another_is_noticed(self, stores: StoreSubject) -> None:
        """An append behind a message that its writer does not know of is refused."""
        store = stores.open()
        position = await store.open_session("s", "a", 0)
        await store.append("s", entry("stranger"))
        late = store.append("s", entry("m", at=position))
        await expect_error(SessionBusyError, late, "an append behind an unknown message")

        expect(ids_of(await store.read("s")), ["stranger"], "the messages")
        await store.close()

    @law
    async def test_records_and_state_take_no_place(self, stores: StoreSubject) -> None:
        """Any process may add them, and the writer's position holds."""
        store = stores.open()
        position = await store.open_session("s", "a", 0)
        await store.append("s", AppendRequest(records=(record(1),)))
        await store.swap_state("s", "n", None, b"1")
        await store.append("s", entry("m", at=position))

        expect(ids_of(await store.read("s")), ["m"], "the messages")
        await store.close()

    @law
    async def test_of_appends_at_one_place_one_wins(self, stores: StoreSubject) -> None:
        """Comparison and write are one: nobody gets in between."""
        store = stores.open()
        position = await store.open_session("s", "a", 0)
        appends = [store.append("s", entry(f"m{n}", at=position)) for n in range(20)]
        results = await asyncio.gather(*appends, return_exceptions=True)

        refused = [result for result in results if isinstance(result, SessionBusyError)]
        expect((results.count(None), len(refused)), (1, 19), "appends that won, and that lost")
        expect(len(await store.read("s")), 1, "messages at one place")
        await store.close()

    @law
    async def test_a_lease_keeps_others_out(self, stores: StoreSubject) -> None:
        """While it lasts; its holder may open again, and who is kept out changes nothing."""
        store = stores.open()
        await store.open_session("s", "a", 60)
        position = await store.open_session("s", "a", 60)
        await expect_error(SessionBusyError, store.open_session("s", "b", 60), "a second opening")

        await store.append("s", entry("m", at=position))
        expect(ids_of(await store.read("s")), ["m"], "what the holder appended")
        await store.close()

    @law
    async def test_a_lease_is_given_back(self, stores: StoreSubject) -> None:
        """With 0 seconds at once, by its holder alone."""
        store = stores.open()
        await store.open_session("s", "a", 60)
        await store.extend_lease("s", "b", 0)
        await expect_error(SessionBusyError, store.open_session("s", "b", 60), "a stranger's end")
        await store.extend_lease("s", "a", 0)
        position = await store.open_session("s", "b", 60)
        await store.extend_lease("unknown", "a", 60)

        await store.append("s", entry("m", at=position))
        expect(ids_of(await store.read("s")), ["m"], "what the next writer appended")
        expect(ids_of(await store.sessions()), ["s"], "sessions after leases were extended")
        await store.close()

    @law
    async def test_of_many_that_open_one_gets_it(self, stores: StoreSubject) -> None:
        """Twenty at the same time, each for a minute."""
        store = stores.open()
        openings = [store.open_session("s", f"holder-{n}", 60) for n in range(20)]
        results = await asyncio.gather(*openings, return_exceptions=True)

        positions = [result for result in results if isinstance(result, Position)]
        refused = [result for result in results if isinstance(result, SessionBusyError)]
        expect((len(positions), len(refused)), (1, 19), "who opened it, and who was kept out")
        await store.close()
