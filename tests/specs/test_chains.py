"""The scenarios of `specs/chains.md`."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from small_records import record
from toolbus import UserMessage
from toolbus.store import AppendRequest, Original
from toolbus.store.check.chain_check import check_chains, questions_fit, read_heads
from toolbus.store.copy import copy_session
from toolbus.store.store_factory import open_reader, open_store

FIXTURES = Path(__file__).parents[1] / "fixtures"
PROGRAM = Path(__file__).parents[1] / "programs" / "write_chained.py"
FUTURE_NS = 2**62
ASKED, ANSWERED = b'{"answer":null}', b'{"answer":true}'


class Place:
    """A store's address, whose rows other programs change by SQL."""

    def __init__(self, address):
        self.address, self.is_file = address, isinstance(address, Path)

    def open(self):
        return open_store(self.address)

    def rows(self, statement, *values):
        """Return the rows of *statement*, or the number of rows that it changed."""
        with closing(self._connect()) as connection, connection:
            sql = statement if self.is_file else statement.replace("?", "%s")
            done = connection.execute(sql, values)
            return done.fetchall() if done.description else done.rowcount

    def _connect(self):
        if self.is_file:
            return sqlite3.connect(self.address)
        return psycopg.connect(self.address, options="-c search_path=toolbus")

    def change(self, statement, *values):
        """Change at least one row."""
        assert self.rows(statement, *values) > 0

    def check(self, seen=lambda *_: None):
        """Return the chains of the sessions by id."""
        with open_reader(self.address, live=True) as reader:
            return {each.session_id: each for each in check_chains(reader, no_progress, seen)}

    def questions_fit(self, session="s"):
        with open_reader(self.address, live=True) as reader:
            return questions_fit(reader, reader.session(session))

    def reasons(self, session="s", kind=""):
        """Return the findings in a session, in the chain of a *kind* only."""
        return [each for each in self.check()[session].breaks if kind in each]


def no_progress(done, total):
    assert 0 <= done <= total


@pytest.fixture
def file_place(tmp_path):
    """Return an empty place on a file."""
    return Place(tmp_path / "store.db")


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.full)])
def place(request, tmp_path):
    """Return an empty place on a file, and one on a server."""
    if request.param == "file":
        return Place(tmp_path / "store.db")
    return Place(request.getfixturevalue("database"))


def request(number, *records):
    message = UserMessage(id=f"m{number}", content=f"hello {number}")
    return AppendRequest(message=message, records=tuple(map(record, records)))


async def fill(store, session="s"):
    """Write 10 messages, 12 batches of 13 records, and two questions and a grant, each twice."""
    for number in range(1, 11):
        await store.append(session, request(number, f"r{number}"))
    await store.append(session, AppendRequest(records=(record("x"), record("y"))))
    await store.append(session, AppendRequest(records=(record("z"),)))
    for name in ("question:1", "question:2", "grant:1"):
        assert await store.swap_state(session, name, None, ASKED)
        assert await store.swap_state(session, name, ASKED, ANSWERED)


async def make(place, *sessions):
    async with place.open() as store:
        for session in sessions or ("s",):
            await fill(store, session)


# --- the links -----------------------------------------------------------------------------------


async def test_each_record_has_a_link(place):
    await make(place, "s", "t")

    links = []
    chains = place.check(lambda *link: links.append(link))

    assert [(each.breaks, each.unchained) for each in chains.values()] == [((), 0)] * 2
    assert chains["s"].name != chains["t"].name
    for chain in chains.values():
        own = [
            [link for name, at, link in links if (name, at) == (chain.name, kind)]
            for kind in range(3)
        ]
        assert [*map(len, own)] == [10, 12, 6]
        assert [each[-1] for each in own] == [*chain.heads]


async def test_other_states_have_no_link(place):
    async with place.open() as store:
        await store.swap_state("s", "count", None, b"1")
        await store.swap_state("s", "questions", None, b"1")
        await store.append("t", AppendRequest(originals=(Original(digest="d", body=b"1"),)))

    chains = place.check()

    found = [(each.name, each.breaks, each.unchained) for each in chains.values()]
    assert found == [(b"", (), 0)] * 2


async def test_equal_records_have_different_links(place):
    await make(place, "s", "t")

    seals = [bytes(seal) for (seal,) in place.rows("SELECT seal FROM messages")]

    assert len({seal[:16] for seal in seals}) == len({seal[16:] for seal in seals}) == 20


async def test_concurrent_stores_extend_one_chain(place):
    async with place.open() as one, place.open() as other:
        await asyncio.gather(
            *[store.append("s", request(at, "r")) for at in range(20) for store in (one, other)],
            *[one.swap_state("s", f"question:a{at}", None, ASKED) for at in range(20)],
            *[other.swap_state("s", f"question:b{at}", None, ASKED) for at in range(20)],
        )

    assert (place.reasons(), place.check()["s"].unchained) == ([], 0)


def start(place, name, count):
    """Start a process that writes the session; wait until it has the store open."""
    command = [sys.executable, str(PROGRAM), str(place.address), name, str(count)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.full
async def test_processes_answer_questions_in_one_chain(place):
    await make(place)

    children = [start(place, f"p{number}", 20) for number in range(3)]
    codes = [child.wait(120) for child in children]

    for child in children:
        child.stdout.close()
    assert (codes, place.reasons()) == ([0, 0, 0], [])
    assert place.rows("SELECT count(*) FROM links") == [(6 + 3 * 47,)]


@pytest.mark.full
async def test_a_killed_writer_leaves_whole_chains(place):
    await make(place)

    for turn in range(8):
        with start(place, f"turn{turn}", 100_000) as child:
            time.sleep(turn * 0.03)  # Killed at another step of its writes each time.
            child.kill()
        assert place.reasons() == []
    async with place.open() as store:
        await store.append("s", request("later", "r"))
        await store.swap_state("s", "question:later", None, ASKED)

    assert place.reasons() == []


async def test_a_copy_has_chains_of_its_own(place, tmp_path):
    await make(place)
    copy = Place(tmp_path / "copy.db")

    with open_reader(place.address) as reader:
        async with copy.open() as target:
            await copy_session(reader, reader.session("s"), target, lambda _: None)

    assert (copy.reasons(), copy.check()["s"].unchained) == ([], 0)
    assert copy.check()["s"].name != place.check()["s"].name


# --- what was changed ----------------------------------------------------------------------------


async def test_a_changed_body_is_found(place):
    await make(place)

    place.change("UPDATE messages SET body = replace(body, 'hello', 'bye') WHERE seq = 7")

    (reason,) = place.reasons()
    assert reason.startswith("message 7 does not fit: it or its link was changed")
    assert reason.endswith("; all after it, up to message 10, fit")


async def test_a_changed_ledger_is_found(place):
    await make(place)

    place.change("UPDATE ledger SET body = replace(body, 'unchanged', 'observed') WHERE seq = 9")

    (reason,) = place.reasons()
    assert reason.startswith("record 9 does not fit: it or its link was changed")
    assert reason.endswith("; all after it, up to record 13, fit")


async def test_changed_columns_are_found(place):
    await make(place)

    place.change("UPDATE messages SET version = 2 WHERE seq = 2")
    place.change("UPDATE ledger SET records = 3 WHERE seq = 11")

    first, second = place.reasons()
    assert first.startswith("message 2 does not fit")
    assert second.startswith("record 11 does not fit")


def seal_of(place, seq):
    ((seal,),) = place.rows("SELECT seal FROM messages WHERE seq = ?", seq)
    return bytes(seal)


async def test_a_changed_salt_is_found(place):
    await make(place)
    seal = bytes(16) + seal_of(place, 1)[16:]

    place.change("UPDATE messages SET seal = ? WHERE seq = 1", seal)

    (reason,) = place.reasons()
    assert reason.startswith("message 1 does not fit: it or its link was changed")


async def test_a_changed_link_is_found(place):
    await make(place)
    seal = seal_of(place, 4)[:16] + bytes(32)

    place.change("UPDATE messages SET seal = ? WHERE seq = 4", seal)

    (reason,) = place.reasons()
    assert reason.startswith("message 4 does not fit")
    assert reason.endswith("; later messages that do not fit either: 1")


async def test_a_removed_record_is_found(place):
    await make(place)

    place.change("DELETE FROM messages WHERE seq = 3")
    place.change("DELETE FROM links WHERE n = 2")

    (message,) = place.reasons(kind="message")
    question, *_ = place.reasons(kind="question")
    assert message.startswith("message 4 does not follow message 2: others were moved or removed")
    assert question.startswith("question 3 does not follow question 1: others")


def insert(place, seq):
    """Insert a message without a link, as a program does that knows of no chains."""
    columns, values = (
        "session, seq, id, version, body, checksum",
        "session, ?, 'm', 1, body, checksum",
    )
    if not place.is_file:
        columns, values = f"{columns}, key, written", f"{values}, key, written"
    first = "FROM messages ORDER BY seq DESC LIMIT 1"
    place.change(f"INSERT INTO messages ({columns}) SELECT {values} {first}", seq)


def move(place, distance, condition):
    """Move messages by *distance*, past the index that keeps their numbers apart."""
    place.change(f"UPDATE messages SET seq = seq + 1000 WHERE {condition}")
    place.change("UPDATE messages SET seq = seq - 1000 + ? WHERE seq > 1000", distance)


async def test_an_inserted_record_is_found(place):
    await make(place)

    move(place, 1, "seq > 4")
    insert(place, 5)

    (reason,) = place.reasons(kind="message")
    assert reason.startswith("message 5 has no link: it was inserted")
    assert reason.endswith("; later messages that do not fit either: 6")


async def test_two_swapped_records_are_found(place):
    await make(place)

    move(place, 100, "seq = 4")
    move(place, -1, "seq = 5")
    move(place, -99, "seq = 104")

    (reason,) = place.reasons(kind="message")
    assert reason.startswith("message 4 does not fit")
    assert reason.endswith("; later messages that do not fit either: 2")


async def test_a_cut_end_is_found(place):
    await make(place)

    place.change("DELETE FROM messages WHERE seq > 8")
    place.change("DELETE FROM links WHERE n = 6")

    (message,) = place.reasons(kind="message")
    grant, question = place.reasons(kind="question")
    assert message.startswith("the chain does not end with message 8: later ones were removed")
    assert question.startswith("the chain does not end with question 5")
    assert grant.startswith("question 'grant:1' is not as it was written last")


async def test_removed_links_are_found(place):
    await make(place, "s", "t")
    of = "session = (SELECT key FROM sessions WHERE id = ?)"

    place.change(f"UPDATE messages SET seal = NULL WHERE {of}", "s")
    place.change(f"DELETE FROM messages WHERE {of}", "t")

    for session in ("s", "t"):
        (reason,) = place.reasons(session, kind="message")
        assert reason.startswith("no message has a link: the links, or the messages with one, were")


async def test_a_moved_beginning_is_found(place):
    await make(place, "s", "t")
    of = "session = (SELECT key FROM sessions WHERE id = ?)"

    place.change(f"UPDATE messages SET seal = NULL WHERE seq < 4 AND {of}", "s")
    place.change(f"DELETE FROM messages WHERE seq < 4 AND {of}", "t")

    assert place.reasons("s")[0].startswith("message 4 does not fit: it or its link was changed")
    assert place.reasons("t")[0].startswith("message 4 is first, not message 1: others")


@pytest.mark.parametrize("number", [0, 1])
async def test_a_record_before_the_beginning_is_found(place, number):
    await make(place)

    if number:
        move(place, 1, "seq > 0")
    insert(place, number)

    (found,) = place.reasons(kind="message")
    first = "message 0 is first, not message 1: others" if number == 0 else "message 2 does not fit"
    assert found.startswith(first)


async def test_swapped_sessions_are_found(place):
    await make(place, "s", "t")

    for old, new in (("s", "u"), ("t", "s"), ("u", "t")):
        place.change("UPDATE sessions SET id = ? WHERE id = ?", new, old)

    for session in ("s", "t"):
        reasons = place.reasons(session)
        assert [reason.partition(":")[0] for reason in reasons] == [
            f"{kind} 1 does not fit" for kind in ("message", "record", "question")
        ]


async def test_a_removed_chain_is_found(place):
    await make(place, "s", "t")
    of = "(SELECT key FROM sessions WHERE id = 't')"

    place.change("UPDATE sessions SET chain = NULL")
    for change in ("UPDATE messages SET seal = NULL", "UPDATE states SET salt = NULL"):
        place.change(f"{change} WHERE session = {of}")
    place.change(f"UPDATE ledger SET seal = NULL WHERE session = {of}")
    place.change(f"DELETE FROM links WHERE session = {of}")

    assert place.reasons("s")[0].startswith("message 1 does not fit: it or its link was changed")
    assert (place.reasons("t"), place.check()["t"].unchained) == ([], 10 + 12 + 3)


async def test_a_question_put_back_is_found(place):
    async with place.open() as store:
        await fill(store)
        await store.swap_state("s", "question:3", None, ASKED)
        name = "name = 'question:3'"
        ((body, salt),) = place.rows(f"SELECT body, salt FROM states WHERE {name}")
        await store.swap_state("s", "question:3", ASKED, ANSWERED)

    place.change(f"UPDATE states SET body = ?, salt = ? WHERE {name}", body, salt)

    (reason,) = place.reasons()
    assert reason.startswith("question 'question:3' is not as it was written last")
    assert not place.questions_fit()


def forge(place, name):
    columns = "session, name, version, body, checksum"
    place.change(
        f"INSERT INTO states ({columns}) SELECT key, ?, 1, ?, 0 FROM sessions",
        name,
        "{}" if place.is_file else b"{}",
    )


async def test_a_forged_grant_is_found(place):
    await make(place)

    forge(place, "grant:2")

    (reason,) = place.reasons()
    assert reason.startswith("question 'grant:2' has no link: it was inserted, an older toolbus")


ROWS = {
    "sessions": ("id = 's'", ["chain"]),
    "messages": ("session = 1 AND seq = 5", ["seq", "id", "version", "body", "seal"]),
    "ledger": ("session = 1 AND seq = 5", ["seq", "records", "version", "body", "seal"]),
    "links": ("session = 1 AND n = 2", ["name", "seal"]),
    "states": ("session = 1 AND name = 'question:1'", ["name", "body", "salt"]),
}
"""A row of each table, and its chained columns."""


def damage(path, table, column, value):
    """Set the *column* of a row to *value*, which its type forbids."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA writable_schema = ON")
        file.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
        file.execute("PRAGMA writable_schema = RESET")
        statement = f"UPDATE {table} SET {column} = CAST(? AS {value[0]}) WHERE {ROWS[table][0]}"
        assert file.execute(statement, value[1:]).rowcount == 1


async def test_damaged_values_are_findings(file_place):
    await make(file_place, "s", "t")
    whole = file_place.address.read_bytes()
    columns = [(table, column) for table, (_, names) in ROWS.items() for column in names]

    for table, column in columns:
        for value in (("BLOB", None), ("TEXT", "x"), ("BLOB", b"\0\xff"), ("TEXT", b"\xff")):
            file_place.address.write_bytes(whole)
            damage(file_place.address, table, column, value)
            with open_reader(file_place.address) as reader:
                chains = list(check_chains(reader, no_progress, lambda *_: None))

            assert any(each.breaks for each in chains), (table, column, value)
            assert [each.breaks for each in chains if each.session_id == "t"] == [()]


async def test_a_missing_count_stops_no_check(file_place):
    await make(file_place, "s", "t")

    damage(file_place.address, "sessions", "records", ("BLOB", None))

    assert [each.breaks for each in file_place.check().values()] == [(), ()]


async def test_a_damaged_head_stops_its_session(place):
    await make(place, "s", "t")

    place.change("UPDATE sessions SET chain = ? WHERE id = 's'", b"short")

    async with place.open() as store:
        done = await asyncio.gather(
            store.append("s", request(11)),
            store.swap_state("s", "question:4", None, ASKED),
            store.append("t", request(11)),
            return_exceptions=True,
        )
    assert [getattr(each, "reason", each) for each in done] == [
        *["the chain in the session's row is damaged; see `toolbus check --chain`"] * 2,
        None,
    ]
    assert place.check()["t"].breaks == ()
    assert place.reasons("s") == ["the chain in its row is damaged"]
    assert place.rows("SELECT name FROM states WHERE name = 'question:4'") == []


# --- what was forgotten --------------------------------------------------------------------------


async def test_forgotten_states_keep_their_links(place):
    await make(place)

    async with place.open() as store:
        assert await store.forget_states("s") == 3
        forgotten_rows = place.rows("SELECT salt FROM states"), place.rows("SELECT name FROM links")
        assert await store.swap_state("s", "question:1", None, ASKED)

    assert place.reasons() == []
    assert forgotten_rows[0] == []
    assert [name for (name,) in forgotten_rows[1]][-1] == "*"


async def test_a_state_after_forgetting_needs_a_link(place):
    await make(place)
    async with place.open() as store:
        await store.forget_states("s")

    forge(place, "question:1")

    (reason,) = place.reasons()
    assert reason.startswith("question 'question:1' has no link")


async def test_forgotten_sessions_leave_their_heads(place):
    await make(place, "secret-session")
    chain = place.check()["secret-session"]

    async with place.open() as store:
        assert await store.forget_sessions(FUTURE_NS) == ("secret-session",)

    with open_reader(place.address) as reader:
        ((name, heads, forgotten_ns),) = read_heads(reader, forgotten=True)
    assert (name, heads) == (chain.name, chain.heads)
    assert abs(forgotten_ns - time.time_ns()) < 3600 * 10**9
    assert place.check() == {}
    if place.is_file:
        assert b"secret-session" not in place.address.read_bytes()


async def test_a_forgotten_chain_is_not_used_again(place):
    await make(place)

    place.change("INSERT INTO forgotten SELECT chain, 5 FROM sessions")

    assert place.reasons() == ["its chain is in the list of forgotten sessions"]


# --- older stores --------------------------------------------------------------------------------


async def test_an_older_store_has_no_chains(tmp_path):
    path = tmp_path / "store.db"
    shutil.copyfile(FIXTURES / "store-0.1.0.db", path)
    before = path.read_bytes()

    chains = Place(path).check()

    assert chains
    assert {(each.name, each.breaks) for each in chains.values()} == {(b"", ())}
    assert path.read_bytes() == before


def downgrade(place):
    """Remove the chains, as a store of before has none."""
    for table, column in (("messages", "seal"), ("ledger", "seal"), ("sessions", "chain")):
        place.rows(f"ALTER TABLE {table} DROP COLUMN {column}")
    place.rows("ALTER TABLE states DROP COLUMN salt")
    place.rows("DROP TABLE links")
    place.rows("DROP TABLE forgotten")
    place.rows("PRAGMA user_version = 6" if place.is_file else "UPDATE meta SET version = 7")


async def test_an_upgraded_store_begins_later(place):
    await make(place)
    downgrade(place)

    async with place.open() as store:
        await store.append("s", request(11, "r"))
        await store.swap_state("s", "question:1", ANSWERED, ASKED)
        await store.swap_state("s", "question:4", None, ASKED)

    chain = place.check()["s"]
    assert (chain.breaks, chain.unchained) == ((), 10 + 12 + 2)
    assert place.questions_fit()
    assert None not in chain.heads


async def test_younger_sessions_of_before_are_whole(place):
    async with place.open() as store:
        await store.append("s", request(1))
        await store.append("t", request(1, "r"))
    downgrade(place)

    async with place.open() as store:
        await store.append("s", AppendRequest(records=(record("first"),)))

    chains = place.check()
    assert [(each.breaks, each.unchained) for each in chains.values()] == [((), 1), ((), 2)]


@pytest.mark.full
async def test_rights_extend_to_the_new_tables(database):
    place, role = Place(database), f"agent_{database.rpartition('/')[2].partition('?')[0]}"
    await make(place)
    downgrade(place)
    rights = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA toolbus TO {role}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA toolbus TO {role}",
        f"GRANT {rights} IN SCHEMA toolbus TO {role}",
    ):
        place.rows(statement)

    await place.open().close()
    async with Place(database.replace("//postgres@", f"//{role}@")).open() as store:
        await store.append("s", request(11, "r"))
        await store.swap_state("s", "question:4", None, ASKED)
        assert await store.forget_states("s") == 4

    assert place.reasons() == []


async def test_a_record_of_an_older_writer_is_named(place):
    await make(place)

    insert(place, 11)
    place.change("UPDATE sessions SET messages = 11")
    async with place.open() as store:
        await store.append("s", request(12))

    (reason,) = place.reasons()
    assert reason.startswith("message 11 has no link: it was inserted, an older toolbus wrote it")
    assert reason.endswith("; all after it, up to message 12, fit")


# --- stores in use -------------------------------------------------------------------------------


async def test_a_growing_session_is_whole(place):
    await make(place)
    found, ended = [], threading.Event()

    def look():
        while not ended.is_set():
            found.append(place.reasons())

    async with place.open() as store:
        looking = asyncio.create_task(asyncio.to_thread(look))
        for number in range(11, 60):
            name = f"question:{number}"
            await asyncio.gather(
                store.append("s", request(number, "r")), store.swap_state("s", name, None, ASKED)
            )
            assert await store.swap_state("s", name, ASKED, ANSWERED)
        ended.set()
        await looking

    assert found
    assert not any(found)
