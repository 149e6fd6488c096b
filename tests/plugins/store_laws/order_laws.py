"""What is appended: whole, in order, once; and how a store is shared by threads, and closed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Thread

from store_laws.subject_store import (
    StoreSubject,
    entry,
    expect,
    expect_error,
    expect_true,
    ids_of,
    law,
    record,
    user,
)
from toolbus.errors import ClosedError, SessionBusyError
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
)
from toolbus.store.protocol import AppendRequest, Original, Position, SessionInfo

_CALL = ToolCall(id="c", name="read", arguments={"n": 1.5, "deep": [{"a": None}]})
ROLES = (
    SystemMessage(id="s", content="be brief"),
    user("u", "héllo"),
    AssistantMessage(id="a", content="I look.", tool_calls=(_CALL,)),
    ToolMessage(
        id="t", tool_call_id="c", tool_name="read", tool_response=ToolResponse(structured=[1, "x"])
    ),
)
"""A message of each role."""


class OrderLaws:
    """For every store."""

    @law
    async def test_messages_come_back_unchanged(self, stores: StoreSubject) -> None:
        """Two sessions that are written in turn keep their own messages, equal and in order."""
        store = stores.open()
        for message in ROLES:
            for session_id in ("one", "two"):
                await store.append(session_id, AppendRequest(message=message))

        expect(await store.read("one"), ROLES, "the messages of one session")
        expect(await store.read("two"), ROLES, "the messages of the other")
        await store.close()

    @law
    async def test_an_unknown_session_is_empty(self, stores: StoreSubject) -> None:
        """Reading one gives nothing, and makes none."""
        store = stores.open()
        nothing = [
            await store.read("x"),
            await store.records("x"),
            await store.originals("x"),
            await store.read_state("x", "n"),
            await store.forget_originals("x"),
            await store.forget_states("x"),
        ]

        expect(nothing, [(), (), (), None, 0, 0], "what an unknown session holds")
        expect(await store.sessions(), (), "the sessions of an empty store")
        await store.close()

    @law
    async def test_sessions_are_listed_oldest_first(self, stores: StoreSubject) -> None:
        """By their first append, with both times, of which a copy keeps its own."""
        store = stores.open()
        for session_id, moment in (("b", 5_000), ("a", 6_000), ("b", 7_000), ("b", 3_000)):
            await store.append(session_id, entry("m", written_ns=moment))
        await store.append("records", AppendRequest(records=(record(),), written_ns=8_000))

        expected = (
            SessionInfo(id="b", messages=3, created_ns=5_000, updated_ns=7_000),
            SessionInfo(id="a", messages=1, created_ns=6_000, updated_ns=6_000),
            SessionInfo(id="records", messages=0, created_ns=8_000, updated_ns=8_000),
        )
        expect(await store.sessions(), expected, "the list of sessions")
        await store.close()

    @law
    async def test_read_messages_do_not_change(self, stores: StoreSubject) -> None:
        """What a read returned is as it was, whatever is appended later."""
        store = stores.open()
        await store.append("s", entry("1", 1))
        messages, records = await store.read("s"), await store.records("s")
        await store.append("s", entry("2", 2))

        expect(ids_of(messages), ["1"], "messages that were read before")
        expect(records, (record(1),), "records that were read before")
        await store.close()

    @law
    async def test_concurrent_appends_keep_their_order(self, stores: StoreSubject) -> None:
        """Those that one task starts stand in the order in which it started them."""
        store = stores.open()
        names = [f"m{number}" for number in range(200)]
        await asyncio.gather(*[store.append("s", entry(name)) for name in names])

        expect(ids_of(await store.read("s")), names, "the order of appends")
        await store.close()

    @law
    async def test_a_call_and_its_answer_go_in_together(self, stores: StoreSubject) -> None:
        """*before* stands right before the message, whoever else appends meanwhile."""
        store = stores.open()
        pairs = [AppendRequest(before=(user(f"q{n}"),), message=user(f"a{n}")) for n in range(20)]
        await asyncio.gather(*[store.append("s", stored) for stored in pairs])

        expected = [name for n in range(20) for name in (f"q{n}", f"a{n}")]
        expect(ids_of(await store.read("s")), expected, "messages that came in pairs")
        await store.close()

    @law
    async def test_what_is_refused_leaves_nothing(self, stores: StoreSubject) -> None:
        """Of an append at another position neither message, record, original nor session stays."""
        store = stores.open()
        stored = AppendRequest(
            before=(user("b"),),
            message=user("m"),
            records=(record(1),),
            originals=(Original(digest="d", body=b"1"),),
            at=Position(7, 3),
        )
        await expect_error(SessionBusyError, store.append("s", stored), "an append elsewhere")

        left_behind = [await store.read("s"), await store.records("s"), await store.originals("s")]
        expect(left_behind, [(), (), ()], "what a refused append left behind")
        expect(await store.sessions(), (), "sessions after a refused append")
        await store.close()

    @law
    async def test_an_id_may_stand_twice(self, stores: StoreSubject) -> None:
        """Ids of messages are their sender's; a store does not count on them."""
        store = stores.open()
        for text in ("once", "again"):
            await store.append("s", AppendRequest(message=user("m", text)))

        expected = (user("m", "once"), user("m", "again"))
        expect(await store.read("s"), expected, "two messages of one id")
        await store.close()

    def test_any_thread_may_use_it(self, stores: StoreSubject) -> None:
        """Opened outside any loop, used by four threads, each in an event loop of its own."""
        store = stores.open()
        names = {letter: [f"{letter}{n}" for n in range(25)] for letter in "abcd"}

        async def write(letter: str) -> None:
            for name in names[letter]:
                await store.append("s", entry(name))

        threads = [Thread(target=asyncio.run, args=(write(letter),)) for letter in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stored_ids = ids_of(asyncio.run(store.read("s")))

        expect(len(stored_ids), 100, "the appends of four threads")
        for letter, expected in names.items():
            own_ids = [name for name in stored_ids if name.startswith(letter)]
            expect(own_ids, expected, "the appends of one thread")
        asyncio.run(store.close())

    @law
    async def test_a_cancelled_append_is_whole(self, stores: StoreSubject) -> None:
        """Cancelling takes no write back that was begun, breaks no later one, and keeps order."""
        store = stores.open()
        names = [f"m{number}" for number in range(50)]
        tasks = [asyncio.ensure_future(store.append("s", entry(name, 1))) for name in names]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        await store.append("s", entry("end"))

        expect(ids_of(await store.read("s")), [*names, "end"], "appends, every second cancelled")
        expect(len(await store.records("s")), len(names), "the records that came with them")
        await store.close()

    @law
    async def test_a_closed_store_refuses(self, stores: StoreSubject) -> None:
        """Every verb raises `ClosedError` after `close`, which may be called again."""
        store = stores.open()
        await store.append("s", entry("m"))
        await store.close()
        await store.close()

        works: dict[str, tuple[object, ...]] = {
            "append": ("s", entry("n")),
            "read": ("s",),
            "records": ("s",),
            "sessions": (),
            "originals": ("s",),
            "forget_originals": ("s",),
            "forget_states": ("s",),
            "forget_sessions": (1,),
            "open_session": ("s", "me", 1),
            "extend_lease": ("s", "me", 1),
            "read_state": ("s", "n"),
            "swap_state": ("s", "n", None, b"1"),
        }
        for verb, arguments in works.items():
            work = getattr(store, verb)(*arguments)
            await expect_error(ClosedError, work, f"`{verb}` after close")
        try:
            store.reader()
        except ClosedError:
            return
        raise AssertionError("`reader` after close: no error")

    @law
    async def test_an_append_with_nothing_is_allowed(self, stores: StoreSubject) -> None:
        """It makes the session, as a first one, and adds nothing."""
        store = stores.open()
        await store.append("s", AppendRequest(written_ns=4_000))

        expect(await store.read("s"), (), "messages of an append with nothing")
        expected = (SessionInfo(id="s", messages=0, created_ns=4_000, updated_ns=4_000),)
        expect(await store.sessions(), expected, "sessions after an append with nothing")
        expect_true(store.durable in {True, False}, "`durable` is neither True nor False")
        await store.close()
