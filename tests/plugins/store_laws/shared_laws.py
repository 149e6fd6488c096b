"""A store that outlives its process: opened again, and by several connections and processes."""

from __future__ import annotations

import asyncio

from store_laws.child_process import lines_of, start_child
from store_laws.state_laws import count_up
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
from toolbus.store.protocol import Original

_MOST_COMMITS = 50


class SharedStoreLaws:
    """For stores that are `durable`, and that several may open."""

    @law
    async def test_a_reopened_store_continues_its_sessions(self, stores: StoreSubject) -> None:
        """With all that was in it, and epochs that go on growing."""
        store = stores.open()
        expect_true(store.durable, "a store that outlives its process is not `durable`")
        position = await store.open_session("s", "a", 0)
        original = Original(digest="d", body=b"1")
        await store.append("s", entry("1", 1, at=position, originals=(original,)))
        await store.swap_state("s", "n", None, b"1")
        sessions = await store.sessions()
        await store.close()

        store = stores.open()
        expect(await store.sessions(), sessions, "the sessions of a store opened again")
        again = await store.open_session("s", "b", 0)
        expect_true(again.epoch > position.epoch, "an epoch that does not grow behind a close")
        await store.append("s", entry("2", 2, at=again))
        expect(ids_of(await store.read("s")), ["1", "2"], "its messages")
        expect(await store.records("s"), (record(1), record(2)), "its records")
        expect(await store.originals("s"), (original,), "its originals")
        expect(await store.read_state("s", "n"), b"1", "its state")
        await store.close()

    @law
    async def test_what_was_begun_is_there_after_close(self, stores: StoreSubject) -> None:
        """`close` waits for appends that were started before it."""
        store = stores.open()
        tasks = [asyncio.ensure_future(store.append("s", entry(f"m{n}"))) for n in range(50)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*tasks)

        store = stores.open()
        expect(len(await store.read("s")), 50, "appends that were begun before a close")
        await store.close()

    @law
    async def test_two_connections_see_the_same(self, stores: StoreSubject) -> None:
        """What one appended the other reads, and its writer is overtaken."""
        first_store, other = stores.open(), stores.open()
        first = await first_store.open_session("s", "a", 0)
        await first_store.append("s", entry("1", at=first))
        expect(ids_of(await other.read("s")), ["1"], "what another connection appended")
        second = await other.open_session("s", "b", 0)
        await other.append("s", entry("2", at=second))
        late = first_store.append("s", entry("late", at=first))
        await expect_error(SessionBusyError, late, "an append of who was overtaken elsewhere")

        expect(ids_of(await first_store.read("s")), ["1", "2"], "the messages")
        await asyncio.gather(count_up(first_store, "s", "n", 25), count_up(other, "s", "n", 25))
        expect(await first_store.read_state("s", "n"), b"50", "a number that both counted up")
        await first_store.close()
        await other.close()

    @law
    async def test_those_who_wait_share_a_commit(self, stores: StoreSubject) -> None:
        """A hundred appends at the same time take far fewer commits, where they are counted."""
        store = stores.open()
        count = stores.commits or (lambda _: 0)
        before = count(store)
        await asyncio.gather(*[store.append(f"s{n}", entry("m")) for n in range(100)])

        commits = count(store) - before
        expect_true(commits <= _MOST_COMMITS, f"{commits} commits for 100 appends at the same time")
        expect(len(await store.sessions()), 100, "the sessions of those appends")
        await store.close()

    @law
    async def test_processes_lose_no_count(self, stores: StoreSubject) -> None:
        """Three processes and this one count up the same number."""
        store = stores.open()
        await store.append("s", entry("m"))
        children = [start_child(stores, "count", "n", "50") for _ in range(3)]
        await count_up(store, "s", "n", 50)
        for child in children:
            await asyncio.to_thread(lines_of, child)

        expect(await store.read_state("s", "n"), b"200", "a number that four processes counted up")
        await store.close()

    @law
    async def test_another_process_takes_over(self, stores: StoreSubject) -> None:
        """It opens the session; who had it before writes nothing any more."""
        store = stores.open()
        position = await store.open_session("s", "parent", 0)
        await store.append("s", entry("1", at=position))
        await asyncio.to_thread(lines_of, start_child(stores, "take", "child"))
        late = store.append("s", entry("late", at=position))
        await expect_error(SessionBusyError, late, "an append of who was overtaken by a process")

        expect(ids_of(await store.read("s")), ["1", "child"], "the messages of both processes")
        await store.close()
