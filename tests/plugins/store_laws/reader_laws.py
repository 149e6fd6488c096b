"""What `show`, `explain` and the like ask of a store: a few rows at a time, by id and position."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from store_laws.content_laws import HOSTILE
from store_laws.subject_store import (
    StoreSubject,
    entry,
    expect,
    expect_true,
    ids_of,
    law,
    record,
    user,
)
from toolbus.errors import StoreError
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage
from toolbus.store.protocol import AppendRequest, Original
from toolbus.store.sql_reader import SqlReader

if TYPE_CHECKING:
    from toolbus.messages.records import Message
    from toolbus.store.protocol import Store
    from toolbus.store.store_reader import RecordBatch, StoreReader

_MANY = 450
"""More sessions or messages than are read at once."""


def asking(name: str, call_id: str) -> AssistantMessage:
    """Return a message that asks for a call."""
    return AssistantMessage(id=name, tool_calls=(ToolCall(id=call_id, name="read", arguments={}),))


def answering(name: str, call_id: str) -> ToolMessage:
    """Return a message that answers a call."""
    return ToolMessage(id=name, tool_call_id=call_id, tool_name="read")


async def _append(store: Store, session_id: str, *messages: Message) -> None:
    for message in messages:
        await store.append(session_id, AppendRequest(message=message))


def _key(reader: StoreReader, session_id: str) -> int:
    row = reader.session(session_id)
    if row is None:
        raise AssertionError(f"the reader does not know session {session_id!r}")
    return row.key


def _numbers(batch: RecordBatch | None) -> list[int]:
    return [] if batch is None else [each.started_ns for each in batch.records]


class ReaderLaws:
    """For every store: what `Store.reader()` gives."""

    @law
    async def test_sessions_are_summed_up(self, stores: StoreSubject) -> None:
        """Each with its counts and times, in the order of the list, also if there are many."""
        store = stores.open()
        await store.append("s", entry("m", 1, 2, written_ns=5_000))
        await store.append("s", AppendRequest(records=(record(3),), written_ns=6_000))
        original = Original(digest="d", body=b"1")
        await store.append("t", AppendRequest(originals=(original,), written_ns=7_000))
        names = [f"n{number}" for number in range(_MANY)]
        appends = [
            store.append(name, AppendRequest(written_ns=9_000 + n)) for n, name in enumerate(names)
        ]
        await asyncio.gather(*appends)

        with store.reader() as reader:
            rows = list(reader.sessions())
            expect(rows[0][1:], ("s", 1, 3, 5_000, 6_000, False), "the summary of a session")
            expect(rows[1][1:], ("t", 0, 0, 7_000, 7_000, True), "one that keeps originals")
            expected = ["s", "t", *names]
            expect(ids_of(rows), expected, "the order of sessions")
            expect(sorted(rows), rows, "sessions by their keys")
            expect(reader.session("t"), rows[1], "a session by its id")
            expect(reader.session("none"), None, "a session that is not there")
        await store.close()

    @law
    async def test_messages_are_read_from_any_place(self, stores: StoreSubject) -> None:
        """Numbered from 1, with what they are; those of other sessions are not among them."""
        store = stores.open()
        numbers = range(1, _MANY + 1)
        others = [store.append("t", entry("other")) for _ in range(9)]
        await asyncio.gather(*[store.append("s", entry(f"m{n}")) for n in numbers], *others)

        with store.reader() as reader:
            key = _key(reader, "s")
            rows = list(reader.messages(key))
            expect([row.seq for row in rows], list(numbers), "the numbers of messages")
            messages = tuple([row.message for row in rows])
            expect(messages, await store.read("s"), "the messages, beside what `read` gives")
            expect({(row.session, row.damage) for row in rows}, {(key, "")}, "session and damage")
            expect(sorted(rows), rows, "messages by their keys")
            for after in (1, _MANY - 1, _MANY, _MANY + 9):
                ids = ids_of(reader.messages(key, after))
                expect(ids, ids_of(rows[after:]), f"the messages behind number {after}")
        await store.close()

    @law
    async def test_records_stand_where_they_came(self, stores: StoreSubject) -> None:
        """Those of a message with it, and the others before the next one."""
        store = stores.open()
        await store.append("s", AppendRequest(records=(record(1),)))
        await store.append("s", entry("a", 2, 3))
        await store.append("s", entry("b"))
        await store.append("s", AppendRequest(records=(record(4), record(5))))
        await store.append("s", AppendRequest(records=(record(6),)))
        await store.append(
            "s", AppendRequest(before=(user("c"),), message=user("d"), records=(record(7),))
        )
        await store.append("s", AppendRequest(records=(record(8),)))

        with store.reader() as reader:
            key = _key(reader, "s")
            batches = list(reader.record_batches(key))
            facts = [(batch.message_seq, batch.seq, _numbers(batch)) for batch in batches]
            expected = [
                (1, 1, [1]),
                (1, 2, [2, 3]),
                (3, 4, [4, 5]),
                (3, 6, [6]),
                (4, 7, [7]),
                (5, 8, [8]),
            ]
            expect(facts, expected, "the pages of records: place, first number, records")
            between = [_numbers(batch) for batch in reader.record_batches(key, 1, 4)]
            expect(between, [[4, 5], [6], [7]], "records of places 2 to 4")
            expect(list(reader.record_batches(key, 5, 9)), [], "records of places that have none")
            expected_kinds = [False, True, False, False, True, False]
            expect([batch.with_message for batch in batches], expected_kinds, "which had a message")
            expect({batch.session for batch in batches}, {key}, "the session of the pages")
        await store.close()

    @law
    async def test_values_and_states_are_given_one_by_one(self, stores: StoreSubject) -> None:
        """Originals by their digests, states by their names, of one session."""
        store = stores.open()
        originals = [Original(digest=f"d{n:02}", body=b"%d" % n) for n in range(30)]
        await store.append("s", AppendRequest(originals=tuple(reversed(originals))))
        await store.append("t", AppendRequest(originals=(Original(digest="x", body=b"1"),)))
        for name in ("b", "", "a"):
            await store.swap_state("s", name, None, b"[1, 2]")

        with store.reader() as reader:
            key = _key(reader, "s")
            expect(list(reader.originals(key)), originals, "the originals")
            bodies = [reader.original(key, digest) for digest in ("d07", "x")]
            expect(bodies, [b"7", None], "an original of the session, and one of another")
            states = [(state.name, state.body, state.damage) for state in reader.states(key)]
            expected = [(name, b"[1, 2]", "") for name in ("", "a", "b")]
            expect(states, expected, "the states")
        await store.close()

    @law
    async def test_states_are_found_by_their_beginning(self, stores: StoreSubject) -> None:
        """Of all sessions, by name, then the older session first; no wildcard is one."""
        store = stores.open()
        names = [f"q:{n:03}" for n in range(_MANY)]
        for session in ("t", "s"):
            await store.swap_state(session, "q:%", None, b'"wild"')
            await store.swap_state(session, "q", None, b'"before"')
            await store.swap_state(session, "r:1", None, b'"behind"')
        await asyncio.gather(*[store.swap_state("s", name, None, b"1") for name in names])
        await store.swap_state("t", names[7], None, b"%d" % 10**9)

        with store.reader() as reader:
            seen = [(session, state.name) for session, state in reader.states_like("q:")]
            expected = [("t", "q:%"), ("s", "q:%"), *[("s", name) for name in names]]
            expected.insert(2 + 7, ("t", names[7]))
            expect(seen, expected, "the states whose names begin with q:")
            bodies = [state.body for _, state in reader.states_like(names[7])]
            expect(bodies, [b"1000000000", b"1"], "what is kept under one name")
            expect([*reader.states_like("q:x")], [], "states of a name that nobody has")
            expect(len([*reader.states_like("")]), 2 * 3 + _MANY + 1, "how many states there are")
        await store.close()

    @law
    async def test_a_reader_sees_what_is_written(self, stores: StoreSubject) -> None:
        """What was appended before it is asked, and that something was at all."""
        store = stores.open()
        await store.append("s", entry("1"))
        with store.reader() as reader:
            key, before = _key(reader, "s"), reader.changes
            expect(reader.changes, before, "`changes` while nobody writes")
            await store.append("s", entry("2"))
            expect_true(reader.changes != before, "`changes` is the same after an append")
            expect(ids_of(reader.messages(key, 1)), ["2"], "what was appended meanwhile")
            following = reader.messages(key)
            expect(ids_of(islice(following, 1)), ["1"], "the first message of an iterator")
        expect(ids_of(await store.read("s")), ["1", "2"], "the messages after the reader closed")
        await store.close()

    @law
    async def test_a_whole_store_has_no_problems(self, stores: StoreSubject) -> None:
        """It says so of itself, with the version of its tables."""
        store = stores.open()
        await store.append("s", entry("m", 1))
        with store.reader() as reader:
            facts = reader.facts()
        expect(facts.problems, (), "the problems of a whole store")
        expect_true(facts.version >= 0 and facts.bytes >= 0, f"a version and a size: {facts}")
        await store.close()


def _look(store: Store) -> SqlReader:
    reader = store.reader()
    assert isinstance(reader, SqlReader)
    return reader


class LookupLaws:
    """For stores in a database: what their readers find by an index."""

    @law
    async def test_hostile_ids_are_found(self, stores: StoreSubject) -> None:
        """Of calls, whatever is in them."""
        store = stores.open()
        for text in HOSTILE:
            await _append(store, text, asking(f"{text}?", text), answering(f"{text}!", text))
        with _look(store) as reader:
            for text in HOSTILE:
                found = ids_of(reader.messages_of_call(text, _key(reader, text)))
                expect(found, [f"{text}?", f"{text}!"], f"the messages of the call {text[:40]!r}")
        await store.close()

    @law
    async def test_sessions_and_records_are_found_by_their_rows(self, stores: StoreSubject) -> None:
        """The session of a row, and the records that came with a message."""
        store = stores.open()
        await store.append("s", entry("a", 1, 2))
        await store.append("s", entry("b"))
        await store.append("s", AppendRequest(records=(record(3),)))
        await store.append(
            "s", AppendRequest(before=(user("c"),), message=user("d"), records=(record(4),))
        )

        with _look(store) as reader:
            (session,) = reader.sessions()
            expect(reader.session_of(session.key), session, "a session by its key")
            beside = [_numbers(reader.batch_of(row)) for row in reader.messages(session.key)]
            expect(beside, [[1, 2], [], [], [4]], "the records that came with each message")
            try:
                reader.session_of(session.key + 1_000)
            except StoreError:
                pass
            else:
                raise AssertionError("a session of an unknown key: no error")
        await store.close()

    @law
    async def test_places_of_states_alone_are_not_recent(self, stores: StoreSubject) -> None:
        """A session with neither messages nor records is among all sessions only."""
        store = stores.open()
        await store.append("s", entry("a"))
        await store.append("denied", AppendRequest(records=(record(1),)))
        await store.swap_state("place", "key", None, b"1")

        with _look(store) as reader:
            entries = {row.id: row.has_entries for row in reader.sessions()}
            expect(entries, {"s": True, "denied": True, "place": False}, "sessions with entries")
            recent = {row.id for row in reader.recent_sessions(9)}
            expect(recent, {"s", "denied"}, "the recent sessions")
        await store.close()

    @law
    async def test_a_session_is_held_by_its_writer(self, stores: StoreSubject) -> None:
        """Until the lease ends; a session that nobody opened is held by nobody."""
        store = stores.open()
        await store.open_session("s", "holder", 30)

        with _look(store) as reader:
            held = [reader.is_held("s"), reader.is_held("other")]
            await store.extend_lease("s", "holder", 0)
            await asyncio.sleep(0.01)  # The clock of a database may count milliseconds.
            held.append(reader.is_held("s"))
        expect(held, [True, False, False], "a held, an unknown and a released session")
        await store.close()

    @law
    async def test_ids_are_found_by_their_beginning(self, stores: StoreSubject) -> None:
        """Of sessions, messages and calls, also of those that only records speak of."""
        store = stores.open()
        await _append(store, "session-a", asking("m-1", "call-1"), answering("m-2", "call-1"))
        refused = record(1, subject="m-refused", call_id="call-inner")
        await store.append("session-b", AppendRequest(message=user("m-%"), records=(refused,)))
        await store.append("Session-c", entry("M-3"))

        with _look(store) as reader:
            expect(reader.ids_like("session", "session-"), ["session-a", "session-b"], "sessions")
            known = ["m-%", "m-1", "m-2", "m-refused"]
            expect(reader.ids_like("message", "m-"), known, "messages")
            expect(reader.ids_like("message", "m-%"), ["m-%"], "messages like one with a wildcard")
            expect(reader.ids_like("call", "call-"), ["call-1", "call-inner"], "calls")
            expect(reader.ids_like("call", "call_"), [], "calls like one with a wildcard")
            expect(reader.ids_like("session", "zzz"), [], "sessions that begin with zzz")
            near = [reader.ids_near(kind, "m-0") for kind in ("message", "call", "session")]
            expect_true("m-1" in near[0], "the message next to an id is not near it")
            expect_true("call-1" in near[1], "the call next to an id is not near it")
            expect(sorted(near[2]), ["Session-c", "session-a", "session-b"], "sessions near an id")
        await store.close()

    @law
    async def test_a_call_is_found_with_its_answer(self, stores: StoreSubject) -> None:
        """By its id, in the order of the messages; also if the id is used again, or elsewhere."""
        store = stores.open()
        first = (asking("a1", "c"), answering("t1", "c"))
        second = (asking("a2", "c"), answering("t2", "c"))
        await _append(store, "s", *first, user("u"), *second, asking("a3", "d"))
        await _append(store, "t", asking("x", "c"))

        with _look(store) as reader:
            key = _key(reader, "s")
            rows = reader.messages_of_call("c", key)
            expect(ids_of(rows), ["a1", "t1", "a2", "t2"], "the messages of a call in a session")
            expect(ids_of(reader.messages_of_call("c", None))[-1], "x", "the last one anywhere")
            before = ids_of(reader.messages_of_call("c", key, rows[3]))
            expect(before, ["a1", "t1", "a2"], "the messages of a call before one of them")
            after = [reader.after_in_call("c", row) for row in rows]
            expect([row and row.id for row in after], ["t1", "a2", "t2", None], "what came next")
            expect(ids_of(reader.messages_of("a1", None)), ["a1"], "a message by its id")
            expect(reader.messages_of("a1", _key(reader, "t")), [], "a message of elsewhere")
            expect(reader.messages_of_call("none", None), [], "a call that is not there")
        await store.close()

    @law
    async def test_records_are_found_by_their_ids(self, stores: StoreSubject) -> None:
        """Those that speak of an id, but for those that came with the message that has it."""
        store = stores.open()
        own_record = record(1, subject="a")
        await store.append("s", AppendRequest(message=asking("a", "c"), records=(own_record,)))
        await store.append("s", AppendRequest(message=user("b"), records=(record(2, call_id="c"),)))
        await store.append("s", AppendRequest(records=(record(3, call_id="c"),)))
        await store.append("t", AppendRequest(message=user("x"), records=(record(4, call_id="c"),)))

        with _look(store) as reader:
            numbers = [_numbers(batch) for batch in reader.batches_mentioning("c")]
            expect(sorted(numbers), [[2], [3], [4]], "records that speak of a call")
            expect(
                reader.batches_mentioning("a"), [], "records of a message besides those beside it"
            )
            later = reader.messages_of("b", None)[0]
            behind = [_numbers(batch) for batch in reader.batches_mentioning("c", later)]
            expect(sorted(behind), [[3], [4]], "those behind a message, and those without one")
        await store.close()
