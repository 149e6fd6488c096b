"""What is kept beside messages, texts of every kind, and what is deleted on request."""

from __future__ import annotations

from store_laws.subject_store import (
    StoreSubject,
    entry,
    expect,
    expect_error,
    ids_of,
    law,
    record,
    user,
)
from toolbus.errors import StoreError
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage, ToolResponse
from toolbus.store.protocol import AppendRequest, Original
from toolbus.store.sql_reader import SqlReader

HOSTILE = (
    "",
    "nul \0 in it",
    "'; DROP TABLE messages; --",
    '"double" \\ back\\slash \\u0000 {"a": [1',
    "%s ? :name $1 %(x)s",
    "line\r\nbreak\ttab \x1b[2J \x7f \x85 \u2028",
    "héllo \N{PILE OF POO} \N{RIGHT-TO-LEFT OVERRIDE}abc \N{COMBINING ACUTE ACCENT}",
    "\uffff \ufffe \U0010ffff \ufeff",
    "long " * 4_000,
    "_%",
    "UPPER and upper, \N{LATIN CAPITAL LETTER I WITH DOT ABOVE} \N{LATIN SMALL LETTER DOTLESS I} ß",
)
"""Texts that break what puts them together with others, or takes one for another."""


class ContentLaws:
    """For every store."""

    @law
    async def test_records_come_back_without_values(self, stores: StoreSubject) -> None:
        """Beside messages and alone, in order; of what was refused nothing but digests is kept."""
        store = stores.open()
        digests = {"before": "d1", "after": "d2"}
        secret = record(1, **digests, value_before="canary", value_after={"x": "canary"})
        await store.append("s", AppendRequest(message=user("m1"), records=(secret, record(2))))
        await store.append("s", AppendRequest(records=(record(3),)))
        await store.append(
            "s", AppendRequest(before=(user("m2"),), message=user("m3"), records=(record(4),))
        )
        await store.append("t", entry("m4"))

        expected = (record(1, **digests), record(2), record(3), record(4))
        expect(await store.records("s"), expected, "the records of a session")
        expect(await store.records("t"), (), "the records of one that has none")
        expect(ids_of(await store.read("s")), ["m1", "m2", "m3"], "the messages")
        await store.close()

    @law
    async def test_originals_are_kept_once(self, stores: StoreSubject) -> None:
        """By their digests, byte by byte; forgetting them leaves all else."""
        store = stores.open()
        bodies = {"d2": b'{"b":1, "a":[]}', "d1": b'"x\\u0000"', "d3": b"1.0"}
        values = {digest: Original(digest=digest, body=body) for digest, body in bodies.items()}
        await store.append("s", entry("m", 1, originals=(values["d2"], values["d1"])))
        await store.append("s", AppendRequest(originals=(values["d2"], values["d3"])))
        await store.append("t", AppendRequest(originals=(values["d1"],)))
        originals = await store.originals("s")
        counts = [await store.forget_originals("s"), await store.forget_originals("s")]

        expect(originals, (values["d1"], values["d2"], values["d3"]), "the originals of a session")
        expect(counts, [3, 0], "how many originals were forgotten")
        expect(await store.originals("s"), (), "originals that were forgotten")
        expect(await store.originals("t"), (values["d1"],), "the originals of another session")
        expect(ids_of(await store.read("s")), ["m"], "the messages")
        expect(await store.records("s"), (record(1),), "the records")
        await store.close()

    @law
    async def test_hostile_texts_are_texts(self, stores: StoreSubject) -> None:
        """As content, and as ids of sessions, messages and calls, and names of tools and states."""
        store = stores.open()
        for text in HOSTILE:
            call = ToolCall(id=text, name=text, arguments={text: text})
            asked = AssistantMessage(id=text, content=text, tool_calls=(call,))
            response = ToolResponse.from_text(text)
            answer = ToolMessage(
                id=f"{text}!", tool_call_id=text, tool_name=text, tool_response=response
            )
            about = record(1, subject=text, call_id=text)
            await store.append(
                text, AppendRequest(before=(asked,), message=answer, records=(about,))
            )
            await store.swap_state(text, text, None, b"1")

            what = f"a session with the text {text[:40]!r}"
            expect(await store.read(text), (asked, answer), f"{what}: messages")
            expect(await store.records(text), (about,), f"{what}: records")
            expect(await store.read_state(text, text), b"1", f"{what}: state")
            with store.reader() as reader:
                row = reader.session(text)
                messages = reader.messages(row.key) if row else ()
                expect([each.message for each in messages], [asked, answer], f"{what}: by a reader")
        expect(tuple(ids_of(await store.sessions())), HOSTILE, "the ids of sessions")
        await store.close()

    @law
    async def test_half_a_character_is_refused(self, stores: StoreSubject) -> None:
        """A lone surrogate in an id, which UTF-8 cannot carry: nothing of it is there."""
        store = stores.open()
        for session_id in ("\ud83d", "s\udc80"):
            append = store.append(session_id, entry("m", 1))
            await expect_error(StoreError, append, f"an append to {session_id!r}")
            swap = store.swap_state(session_id, "n", None, b"1")
            await expect_error(StoreError, swap, f"a state of {session_id!r}")
        await store.append("s", entry("m"))

        expect(ids_of(await store.sessions()), ["s"], "the sessions after those were refused")
        await store.close()

    @law
    async def test_numbers_stay_what_they_are(self, stores: StoreSubject) -> None:
        """The largest integers, 1.0 beside 1, and what is nearly nothing."""
        store = stores.open()
        numbers = [2**64 - 1, -(2**63), 1, 1.0, 5e-324, 1.7976931348623157e308, -0.0, True, None]
        message = user("m")
        answer = ToolMessage(
            id="t",
            tool_call_id="c",
            tool_name="n",
            tool_response=ToolResponse(structured={"zeta": numbers, "alpha": {}}),
        )
        await store.append("s", AppendRequest(before=(message,), message=answer))

        messages = await store.read("s")
        expect(repr(messages), repr((message, answer)), "numbers, letter by letter")
        await store.close()


def _expect_no_trace(reader: SqlReader) -> None:
    """See that no index leads to the session "old" any more."""
    expect(reader.ids_like("message", "m-"), ["m-both", "m-new"], "the ids of messages")
    expect(reader.ids_like("call", "call-"), ["call-both", "call-new"], "the ids of calls")
    mentions = reader.ids_like("message", "refused-")
    expect(mentions, ["refused-both", "refused-new"], "the ids that records speak of")
    expect(reader.messages_of("m-old", None), [], "a deleted message")
    expect(reader.batches_mentioning("refused-old"), [], "records of a deleted session")


class ForgetLaws:
    """For every store: sessions that nobody wrote for long are deleted, whole."""

    @law
    async def test_older_sessions_are_deleted_whole(self, stores: StoreSubject) -> None:
        """By their last write; nothing of them can be found, and the others have all of theirs."""
        store = stores.open()
        for session_id, moment in (("old", 1_000), ("new", 2_000), ("both", 1_000)):
            call = ToolCall(id=f"call-{session_id}", name="read", arguments={})
            asked = AssistantMessage(id=f"m-{session_id}", tool_calls=(call,))
            records = (record(1, subject=f"refused-{session_id}"),)
            original = Original(digest="d", body=b"1")
            stored = AppendRequest(message=asked, records=records, originals=(original,))
            await store.append(session_id, AppendRequest(written_ns=moment))
            await store.append(session_id, _written(stored, moment))
            await store.append(session_id, _written(AppendRequest(records=records), moment))
        await store.append("both", entry("later", written_ns=2_000))
        forgotten = await store.forget_sessions(2_000)

        expect(forgotten, ("old",), "the sessions that were deleted")
        expect(ids_of(await store.sessions()), ["new", "both"], "the sessions that stay")
        rest = [await store.read("old"), await store.records("old"), await store.originals("old")]
        expect(rest, [(), (), ()], "what is left of a deleted session")
        with store.reader() as reader:
            expect(reader.session("old"), None, "a deleted session, as it is looked up")
            if isinstance(reader, SqlReader):
                _expect_no_trace(reader)
        expect(len(await store.records("new")), 2, "the records of another session")
        await store.close()

    @law
    async def test_they_are_deleted_some_at_once(self, stores: StoreSubject) -> None:
        """Those first that were made first, at most as many as were asked for."""
        store = stores.open()
        for number in range(7):
            await store.append(f"s{number}", entry("m", written_ns=1_000))
        rounds = [await store.forget_sessions(9_000, limit=3) for _ in range(4)]

        expected = [("s0", "s1", "s2"), ("s3", "s4", "s5"), ("s6",), ()]
        expect(rounds, expected, "what each round deleted")
        await store.close()

    @law
    async def test_who_is_at_work_is_left(self, stores: StoreSubject) -> None:
        """A session whose lease lasts is not deleted, whatever its times; after it, it is."""
        store = stores.open()
        position = await store.open_session("s", "a", 60)
        await store.append("s", entry("m", at=position, written_ns=1_000))
        during = await store.forget_sessions(9_000)
        await store.extend_lease("s", "a", 0)
        after = await store.forget_sessions(9_000)

        expect((during, after), ((), ("s",)), "what was deleted while it was written, and after")
        await store.close()

    @law
    async def test_a_deleted_session_can_be_made_anew(self, stores: StoreSubject) -> None:
        """It begins with nothing: no message, no state, no time of the old one."""
        store = stores.open()
        await store.append("s", entry("old", written_ns=1_000))
        await store.forget_sessions(2_000)
        await store.swap_state("s", "n", None, b"1")
        await store.forget_sessions(2_000)
        await store.append("s", entry("new", 1, written_ns=5_000))

        expect(ids_of(await store.read("s")), ["new"], "the messages of the new session")
        expect(await store.records("s"), (record(1),), "the records of the new session")
        position = await store.open_session("s", "a", 0)
        expect(position.length, 1, "the length of the new session")
        await store.close()


def _written(stored: AppendRequest, moment: int) -> AppendRequest:
    return AppendRequest(
        message=stored.message,
        records=stored.records,
        originals=stored.originals,
        written_ns=moment,
    )
