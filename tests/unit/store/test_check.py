"""A store's file, damaged at random: what a check and a recovery make of it."""

import asyncio
import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.cli import check as checking
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.errors import DecodeError, StoreError, WrongPathError
from toolbus.events.catalogue import Scope
from toolbus.messages.records import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    encode,
)
from toolbus.store.check.recovery import recover
from toolbus.store.check.session_check import check_file
from toolbus.store.protocol import AppendRequest, Original
from toolbus.store.rows import ENCODING, checked_json, decode_batch, decode_message
from toolbus.store.sqlite import SqliteStore
from toolbus.store.sqlite.files import connect

PAGE = 4096


def silent(done, pages):
    assert 0 < done <= pages


def message(session_id, at):
    name = f"{session_id}{at}"
    match at % 3:
        case 0:
            return UserMessage(id=name, content=f"hello from {name} " * (400 if at == 9 else 9))
        case 1:
            call = ToolCall(id=f"call-{name}", name="read", arguments={"path": name * 20})
            return AssistantMessage(id=name, tool_calls=(call,))
    call_id = f"call-{session_id}{at - 1}"
    response = ToolResponse.from_text(f"read by {name}")
    return ToolMessage(id=name, tool_call_id=call_id, tool_name="read", tool_response=response)


def record(session_id, at):
    return DispatchRecord(
        event="message:append:before",
        scope=Scope(session_id=session_id),
        subject=f"{session_id}{at}",
        call_id=f"call-{at}" if at % 3 == 1 else "",
        started_ns=at,
        duration_ns=0,
        outcome="unchanged",
        original="",
    )


async def write(path, count=24, sessions="abc", first=0):
    async with SqliteStore(path) as store:
        for at in range(first, first + count):
            for name in sessions:
                original = Original(
                    digest=f"{name}{at}", body=encode({"said": f"{name}{at} " * 40})
                )
                kept = (original,) * (at % 4 == 0)
                stored = AppendRequest(
                    message=message(name, at), records=(record(name, at),), originals=kept
                )
                await store.append(name, stored)
                if at % 8 == 0:
                    body = encode({"state": "pending", "tool": f"{name}{at} " * 40})
                    # No two are one bit apart.
                    await store.swap_state(name, f"question:{name}-{at * 37:x}", None, body)


async def read(path):
    """Return all that the store says, and every row of a session but its times."""
    async with SqliteStore(path, read_only=True) as store:
        return {
            one.id: (one.messages, await store.read(one.id), await store.records(one.id))
            for one in await store.sessions()
        }


TABLES = {
    "messages": (decode_message, "version, CAST(body AS BLOB), checksum"),
    "ledger": (decode_batch, "version, CAST(body AS BLOB), checksum"),
    "states": (checked_json, "version, CAST(body AS BLOB), checksum"),
    "originals": (checked_json, "1, CAST(body AS BLOB), NULL"),
}


def readable(path):
    """Return the sound rows that SQLite still gives for their keys, each with its table."""
    found = set()
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as other:
        other.execute("PRAGMA writable_schema = ON")
        for table, (decode, columns) in TABLES.items():
            query = f"SELECT {columns} FROM {table} WHERE key = ?"
            # Of a page whose message is lost the key is below zero.
            for key in range(-72, 73):
                with suppress(sqlite3.Error, DecodeError):
                    found.update([(table, decode(*row)) for row in other.execute(query, (key,))])
    return found


@pytest.fixture(scope="module")
def whole():
    """Return the bytes of a store, and what is in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        asyncio.run(write(path))
        return path.read_bytes(), asyncio.run(read(path))


@contextmanager
def stored(data, log=None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        path.write_bytes(data)
        if log is not None:
            path.with_name("store.db-wal").write_bytes(log)
        yield path


def trace(folder):
    return {one.name: hashlib.sha256(one.read_bytes()).digest() for one in folder.iterdir()}


def checked(path):
    """Return the report on *path*, None if it is no store; make sure that nothing is changed."""
    before = trace(path.parent)
    try:
        return check_file(str(path), silent)
    except WrongPathError:
        return None
    finally:
        assert trace(path.parent) == before


def recovered(path):
    """Return what a recovery saves; make sure that it is whole."""
    new = path.with_name("new.db")
    try:
        recover(str(path), str(new), silent)
    except StoreError as error:
        if "restore it from a copy" not in error.reason:
            raise
        assert not new.exists()
        return {}
    assert check_file(str(new), silent).problems == ()
    return asyncio.run(read(new))


places = st.integers(0, 10**9)


def flipped(data, bits):
    changed = bytearray(data)
    for bit in bits:
        place, power = divmod(bit % (8 * len(data)), 8)
        changed[place] ^= 1 << power
    return bytes(changed)


@pytest.mark.full
@given(bit=places)
@example(bit=160)  # The size of a page's reserved space.
@example(bit=8 * 28 + 1)  # The number of pages.
def test_one_flipped_bit_is_found_and_mixes_nothing_up(whole, bit):
    data, before = whole
    with stored(flipped(data, [bit])) as path:
        report = checked(path)
        if report is None:
            return
        if report.is_whole:
            assert asyncio.run(read(path)) == before
        after = recovered(path)

    for name, (_, messages, records) in before.items():
        _, kept, kept_records = after.get(name, (0, (), ()))
        assert list(kept) == [one for one in messages if one in kept]
        assert list(kept_records) == [one for one in records if one in kept_records]


@pytest.mark.full
@given(bits=st.lists(places, min_size=2, max_size=40), size=st.none() | places)
def test_no_damage_crashes_a_check_or_invents_a_message(whole, bits, size):
    data, before = whole
    damaged = flipped(data, bits)
    if size is not None:
        damaged = damaged[: size % len(data)]
    with stored(damaged) as path:
        report = checked(path)
        if report is None:
            return
        if report.is_whole:
            assert asyncio.run(read(path)) == before
        after = recovered(path)

    written = {one for _, messages, _ in before.values() for one in messages}
    assert {one for _, messages, _ in after.values() for one in messages} <= written


@pytest.mark.full
@given(sector=places, length=st.integers(1, 24))
def test_rows_that_a_tree_still_leads_to_are_saved(whole, sector, length):
    data, _ = whole
    start = sector % (len(data) // 512) * 512
    end = min(start + 512 * length, len(data))
    with stored(data[:start] + bytes(end - start) + data[end:]) as path:
        if checked(path) is None:
            return
        recovered(path)
        new = path.with_name("new.db")
        lost = readable(path) - (readable(new) if new.exists() else set())

    assert not lost


@pytest.mark.full
@given(bits=st.lists(places, min_size=1, max_size=24))
def test_rows_that_can_be_read_are_saved(whole, bits):
    data, _ = whole
    # Behind the first page, without whose list of tables nothing is found.
    with stored(data[:PAGE] + flipped(data[PAGE:], bits)) as path:
        if checked(path) is None:
            return
        recovered(path)
        new = path.with_name("new.db")
        lost = readable(path) - (readable(new) if new.exists() else set())

    # A message whose number is damaged may have no place.
    assert not [row for table, row in lost if table in {"originals", "states"}]


@pytest.mark.full
@given(bits=st.lists(places, min_size=1, max_size=4))
def test_a_sound_store_can_be_read_whole(whole, bits):
    data, _ = whole
    with stored(data) as path:
        rows = len(readable(path))
    with stored(flipped(data, bits)) as path:
        report = checked(path)
        if report is not None and report.is_whole:
            assert len(readable(path)) == rows


@pytest.mark.full
@given(body=st.binary(max_size=60), table=st.sampled_from(["originals", "states"]))
@example(body=b'"\xff"', table="originals")
def test_a_kept_value_of_anything_costs_nothing_else(whole, body, table):
    data, before = whole
    with stored(data) as path:
        rows = readable(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"UPDATE {table} SET body = CAST(? AS TEXT) WHERE key = 2", (body,))
        report = checked(path)
        left = readable(path)
        assert recovered(path) == before
        assert readable(path.with_name("new.db")) == left

    is_damaged = len(left) < len(rows)
    assert bool(report.problems) == is_damaged
    assert all("'b' cannot be read: it is damaged" in problem for problem in report.problems)


@pytest.mark.full
@given(body=st.binary(max_size=200) | st.text(max_size=200).map(str.encode), at=st.integers(0, 23))
def test_a_body_of_anything_is_named_and_the_others_stay(whole, body, at):
    data, before = whole
    with stored(data) as path:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            query = "UPDATE messages SET body = CAST(? AS TEXT) WHERE session = 1 AND seq = ?"
            other.execute(query, (body, at + 1))
        report = checked(path)
        after = recovered(path)

        async def look():
            async with SqliteStore(path) as store:
                with pytest.raises(StoreError, match=f"message {at + 1} of session 'a' is damaged"):
                    await store.read("a")
                assert await store.read("b") == before["b"][1]

        asyncio.run(look())

    assert any(f"session 'a': message {at + 1} cannot be read" in one for one in report.problems)
    _, messages, _ = before["a"]
    assert after["a"][1] == messages[:at] + messages[at + 1 :]
    assert after["b"] == before["b"]


@given(data=st.binary(max_size=300))
def test_no_body_crashes_a_decoder(data):
    for decode in (decode_message, decode_batch):
        with pytest.raises(DecodeError):
            decode(ENCODING, b"\0" + data, None)


# --- damage of one kind --------------------------------------------------------------------------


def page_of(data, table):
    with stored(data) as path, closing(sqlite3.connect(path)) as other:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        return other.execute(query, (table,)).fetchone()[0]


@pytest.mark.parametrize("name", ["sessions", "ledger", "calls", "messages_by_id"])
def test_a_destroyed_root_costs_no_message(whole, name):
    data, before = whole
    start = (page_of(data, name) - 1) * PAGE
    with stored(data[:start] + Random(1).randbytes(PAGE) + data[start + PAGE :]) as path:
        assert not checked(path).is_whole
        after = recovered(path)

    assert {key: value[:2] for key, value in after.items()} == {
        key: value[:2] for key, value in before.items()
    }


def test_a_destroyed_root_of_messages_costs_no_record(whole):
    data, before = whole
    start = (page_of(data, "messages") - 1) * PAGE
    with stored(data[:start] + Random(1).randbytes(PAGE) + data[start + PAGE :]) as path:
        states = checked(path).sessions
        after = recovered(path)

    assert [(one.lost[0].first, one.lost[0].last) for one in states] == [(1, 24)] * 3
    assert {key: value[2] for key, value in after.items()} == {
        key: value[2] for key, value in before.items()
    }


def on_page(data, page, messages):
    return [one.id for one in messages if data.index(f'"id":"{one.id}"'.encode()) // PAGE == page]


def test_a_leaf_without_its_head_costs_what_stands_on_it(whole):
    data, before = whole
    page = data.index(b'"id":"a4"') // PAGE
    with stored(data[: page * PAGE] + bytes(100) + data[page * PAGE + 100 :]) as path:
        assert not checked(path).is_whole
        after = recovered(path)

    for name, (_, messages, records) in before.items():
        lost = on_page(data, page, messages)
        assert 0 < len(lost) < 12
        assert after[name][1] == tuple([one for one in messages if one.id not in lost])
        assert after[name][2] == records


def test_a_cell_that_its_leaf_hides_is_told(whole):
    data, _ = whole
    page = data.index(b'"id":"a4"') // PAGE * PAGE
    count = int.from_bytes(data[page + 3 : page + 5], "big") - 1
    with stored(data[: page + 3] + count.to_bytes(2, "big") + data[page + 5 :]) as path:
        report = checked(path)
        after = recovered(path)

    assert sum([len(one.lost) for one in report.sessions]) == 1
    assert sum([len(messages) for _, messages, _ in after.values()]) == 71


def sql(data, *statements):
    """Return the bytes of a store after somebody else changed it."""
    with stored(data) as path:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            for statement in statements:
                other.execute(statement)
        return path.read_bytes()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE messages SET id = 'z' WHERE key = 5", "its id differs from the id in its body"),
        ("UPDATE messages SET seq = 0 WHERE key = 5", "message 2 cannot be read: no row is found"),
        ("UPDATE messages SET version = 9 WHERE key = 5", "has version 9, expected 1"),
        ("UPDATE sessions SET messages = 9 WHERE key = 1", "it counts 9 messages, but has 24"),
        ("UPDATE sessions SET records = 30 WHERE key = 1", "records 25 to 30 cannot be read"),
        ("DELETE FROM sessions WHERE key = 2", "session 'b' is missing in the table of sessions"),
        ("DELETE FROM messages WHERE key = 5", "message 2 cannot be read: no row is found"),
        (
            "INSERT INTO calls VALUES ('x', 1)",
            "the index of calls has 49 entries, and the messages have 48",
        ),
        ("DROP INDEX messages_by_id", "the table or index 'messages_by_id' is missing"),
        ("DROP TABLE ledger", "the table or index 'ledger' is missing"),
        ("DROP TABLE sessions", "the table or index 'sessions' is missing"),
        ("PRAGMA application_id = 7", "the application id 0x7 is not"),
        ("PRAGMA user_version = 0", "version 0 is not of any release"),
    ],
)
def test_what_disagrees_is_told_and_put_right(whole, statement, problem):
    data, _ = whole
    with stored(sql(data, statement)) as path:
        report = checked(path)
        assert [one for one in report.problems if problem in one], report.problems
        assert recovered(path)


def test_a_session_of_which_only_messages_are_left_gets_a_name(whole):
    data, before = whole
    changed = sql(data, "DELETE FROM sessions WHERE key = 2", "DELETE FROM ledger")
    with stored(changed) as path:
        after = recovered(path)

    assert after["recovered-2"][1] == before["b"][1]


def test_rows_that_fit_no_table_are_told(whole):
    data, _ = whole
    with stored(sql(data, "UPDATE sessions SET created_ns = 'soon' WHERE key = 1")) as path:
        report = checked(path)

    reason = "a row has a value of the wrong type"
    assert f"a part of the table 'sessions' cannot be read: {reason}" in report.problems
    assert "session 'a' is missing in the table of sessions" in report.problems


def test_free_pages_are_no_rows(whole):
    data, before = whole
    with stored(sql(data, "DELETE FROM messages", "DELETE FROM calls")) as path:
        report = checked(path)
        after = recovered(path)

    assert [one.messages for one in report.sessions] == [0, 0, 0]
    assert {name: after[name][1:] for name in after} == {
        name: ((), before[name][2]) for name in after
    }


def test_a_page_size_of_its_own_is_no_obstacle(tmp_path):
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as empty:
        empty.execute("PRAGMA page_size = 65536")
        empty.execute("PRAGMA journal_mode = WAL")
        empty.execute("VACUUM")
    asyncio.run(write(path))

    assert checked(path).problems == ()
    assert recovered(path) == asyncio.run(read(path))


# --- others, and the surroundings ----------------------------------------------------------------


async def test_a_log_that_was_left_is_read_with_the_file(tmp_path):
    path, copy = tmp_path / "store.db", tmp_path / "here/copy.db"
    copy.parent.mkdir()
    await write(path, 3)
    async with SqliteStore(path):
        await write(path, 3, first=3)
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", f"{copy}{end}")

    left = checked(copy)
    assert [one.messages for one in left.sessions] == [6, 6, 6]
    assert left.problems == ()
    with (tmp_path / "here/copy.db-wal").open("ab") as log:
        log.write(bytes(5_000))
    assert checked(copy) == left


@contextmanager
def read_only_folder():
    """Give a folder in which nobody may write, to somebody whom permissions stop."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder)
        asyncio.run(write(path / "store.db", 2))
        (path / "store.db").chmod(0o644)
        path.chmod(0o555)
        mine = os.geteuid()
        try:
            if not mine:
                os.seteuid(65534)
            yield path
        finally:
            os.seteuid(mine)
            path.chmod(0o755)


def test_a_read_only_folder_can_be_checked():
    with read_only_folder() as folder:
        assert checked(folder / "store.db").problems == ()
        with pytest.raises(StoreError, match="make its folder writable"):
            recover(str(folder / "store.db"), str(folder / "new.db"), silent)
        assert [one.name for one in folder.iterdir()] == ["store.db"]


def test_a_file_that_changes_meanwhile_is_told(whole):
    data, _ = whole
    with stored(data) as path:

        def disturb(done, pages):
            path.write_bytes(data + bytes(PAGE))

        with pytest.raises(StoreError, match="another program wrote to it while it was read"):
            check_file(str(path), disturb)


def test_an_interrupted_check_ends(whole, monkeypatch):
    data, _ = whole

    class Interrupted(sqlite3.Connection):
        def set_progress_handler(self, handler, steps):
            super().set_progress_handler(lambda: 1, 1)

    def connect_here(file, timeout, mode):
        return sqlite3.connect(file, factory=Interrupted, isolation_level=None)

    monkeypatch.setattr("toolbus.store.check.damaged_file.connect", connect_here)
    with stored(data) as path, pytest.raises(KeyboardInterrupt):
        check_file(str(path), silent)


def test_a_full_disk_leaves_no_part_of_a_new_file(whole, monkeypatch):
    data, _ = whole

    def connect_small(file, timeout, mode):
        connection = connect(file, timeout, mode)
        connection.execute("PRAGMA max_page_count = 15")
        return connection

    monkeypatch.setattr("toolbus.store.check.recovery.connect", connect_small)
    with stored(data) as path:
        with pytest.raises(StoreError, match="the disk is full"):
            recover(str(path), str(path.with_name("new.db")), silent)
        assert [one.name for one in path.parent.iterdir()] == ["store.db"]


class Terminal:
    encoding = "utf-8"

    def __init__(self):
        self.written = ""

    def isatty(self):
        return True

    def write(self, text):
        self.written += text

    def flush(self):
        pass


def test_progress_is_shown_to_a_person_who_waits(whole, monkeypatch):
    data, _ = whole
    clock = iter(range(10_000))
    quick = partial(ProgressLine, clock=lambda: next(clock))
    monkeypatch.setattr(checking, "ProgressLine", quick)
    output, errors = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stderr", errors)
    parser, run = checking.command()
    with stored(data) as path:
        code = run(parser.parse_all([str(path)]), Output(output))

    assert code == 0
    assert errors.written.startswith("\r[.")
    assert "100%  144 messages and records" in errors.written
    assert errors.written.endswith(" \r")


def test_a_person_sees_the_first_problems(whole):
    data, _ = whole
    output = Terminal()
    parser, run = checking.command()
    with stored(sql(data, "UPDATE messages SET body = '' WHERE key % 2")) as path:
        code = run(parser.parse_all([str(path)]), Output(output))

    assert code == 1
    assert output.written.count("✗") <= 22
    assert "more problems; see them with --json" in output.written


# --- the ledger -----------------------------------------------------------------------------------


async def test_a_page_outlives_its_message_and_keeps_its_place(tmp_path):
    path, new = tmp_path / "store.db", tmp_path / "new.db"
    await write(path, count=6, sessions="a")
    async with SqliteStore(path) as store:
        await store.append("a", AppendRequest(records=(record("a", 6), record("b", 7))))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE messages SET body = '' WHERE seq IN (2, 3)")
        other.execute("UPDATE ledger SET body = '' WHERE seq = 5")

    report = recover(str(path), str(new), silent)

    assert not report.is_whole
    async with SqliteStore(new) as store:
        assert [one.id for one in await store.read("a")] == ["a0", "a3", "a4", "a5"]
        subjects = [one.subject for one in await store.records("a")]
        assert subjects == ["a0", "a1", "a2", "a3", "a5", "a6", "b7"]
    with closing(sqlite3.connect(new)) as other:
        query = "SELECT key > 0, place, seq, records FROM ledger ORDER BY seq"
        pages = other.execute(query).fetchall()
        mentions = dict(other.execute("SELECT id, page FROM mentions"))
        assert pages == [
            (1, 1, 1, 1),
            (0, 2, 2, 1),
            (0, 2, 3, 1),
            (1, 2, 4, 1),
            (1, 4, 5, 1),
            (0, 5, 6, 2),
        ]
        assert set(mentions.values()) <= {key for (key,) in other.execute("SELECT key FROM ledger")}
