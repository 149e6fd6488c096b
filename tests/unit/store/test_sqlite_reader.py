"""What `specs/reading.md` should not mention: how a file is read, and what that costs."""

import asyncio
import io
import os
import random
import re
import shutil
import sqlite3
import sys
import tracemalloc
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.archives import make_archive

from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
from toolbus.cli import explain, sessions, show
from toolbus.cli.output.stream import Output
from toolbus.cli.show import SessionReader
from toolbus.errors import StoreError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Scope
from toolbus.messages.records import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.store.protocol import AppendRequest, Original
from toolbus.store.sqlite import SqliteStore, sqlite_reader
from toolbus.store.sqlite.sqlite_reader import SqliteReader
from toolbus.store.store_reader import MessageRow

STATEMENTS = sqlite_reader.STATEMENTS._asdict()
PRAGMA = STATEMENTS.pop("changes")
RECENT = STATEMENTS.pop("recent_sessions")
for name in ("ids_from", "ids_before"):
    STATEMENTS |= {f"{name} {kind}": text for kind, text in STATEMENTS.pop(name).items()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def run(module, output, path, *words):
    parser, command = module.command()
    return command(parser.parse_all([str(path), *words]), output)


def record(subject="", seq=0):
    return DispatchRecord(
        event="e",
        scope=Scope(),
        subject=subject,
        started_ns=seq,
        duration_ns=2,
        outcome="unchanged",
        original="abc",
    )


async def append(path, *stored, session_id="s"):
    async with SqliteStore(path) as store:
        for one in stored:
            await store.append(session_id, one)


def user(name, *records, text=""):
    message = UserMessage(id=name, content=text)
    return AppendRequest(message=message, records=tuple([record(seq=one) for one in records]))


def left(*records):
    return AppendRequest(records=tuple([record(seq=one) for one in records]))


# --- what it costs -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STATEMENTS)
async def test_nothing_is_found_by_a_scan(path, name):
    await append(path, user("m"))

    with closing(sqlite3.connect(path)) as other:
        values = [""] * (5 if "?1" in STATEMENTS[name] else STATEMENTS[name].count("?"))
        plan = [row[3] for row in other.execute(f"EXPLAIN QUERY PLAN {STATEMENTS[name]}", values)]
    assert any(line.startswith("SEARCH") for line in plan)
    assert not [line for line in plan if line.startswith(("SCAN", "USE TEMP"))]


async def test_recent_sessions_are_the_latest_written_first(path):
    for name in ("a", "b", "c", "a"):
        await append(path, user(f"{name}-{os.urandom(4).hex()}"), session_id=name)

    with SqliteReader(path) as reader:
        pages = [reader.recent_sessions(2), reader.recent_sessions(2, 2)]
    assert [[row.id for row in page] for page in pages] == [["a", "c"], ["b"]]
    assert [row.messages for row in pages[0]] == [2, 1]


async def test_originals_are_looked_up_for_the_listed_sessions_only(path):
    for name in ("a", "b", "c"):
        await append(path, user(name), session_id=name)

    with closing(sqlite3.connect(path)) as other:
        plan = [row[3] for row in other.execute(f"EXPLAIN QUERY PLAN {RECENT}", (2, 0))]
    assert [line for line in plan if line.startswith("SCAN")] == ["SCAN sessions"]


async def test_states_are_found_by_their_names_before_there_was_an_index(path):
    async with SqliteStore(path) as store:
        for session in ("b", "a"):
            await store.swap_state(session, "question:1", None, b"1")
    with closing(sqlite3.connect(path)) as older:
        older.execute("DROP INDEX states_by_name")
        older.execute("PRAGMA user_version = 5")

    with SqliteReader(path) as reader:
        found = [(session, row.body) for session, row in reader.states_like("question:")]

    assert found == [("b", b"1"), ("a", b"1")]


async def test_states_cost_what_of_them_is_read(tmp_path, statements):
    steps = []
    for size in (100, 2_000):
        path = tmp_path / f"{size}.db"
        async with SqliteStore(path) as store:
            writes = [store.swap_state(f"s{n}", "seen", None, b"1") for n in range(size)]
            writes += [store.swap_state("s0", f"question:{n}", None, b"1") for n in range(9)]
            await asyncio.gather(*writes)
        with SqliteReader(path) as reader:
            read = partial(list, reader.states_like("question:"))
            steps.append(statements(read))

    assert 0 < steps[1] <= steps[0] * 1.05


async def test_a_damaged_state_is_given_with_its_damage(path):
    async with SqliteStore(path) as store:
        await store.swap_state("s", "question:1", None, b'"hello"')
        await store.swap_state("s", "question:2", None, b'"hello"')
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE states SET body = '\"hullo\"' WHERE name = 'question:1'")

    with SqliteReader(path) as reader:
        found = [row for _, row in reader.states_like("question:")]

    assert [row.body for row in found] == [None, b'"hello"']
    assert "is damaged: the checksum" in found[0].damage


@pytest.fixture
def statements(monkeypatch):
    """Count the steps of SQLite's machine, which no other program can slow down."""
    seen = set()

    def steps(work):
        counted = 0

        def count():
            nonlocal counted
            counted += 1

        def spy(self, statement, *values):
            seen.add(statement)
            self._connection.set_progress_handler(count, 1)
            return rows(self, statement, *values)

        rows = SqliteReader.rows
        monkeypatch.setattr(SqliteReader, "rows", spy)
        work()
        monkeypatch.setattr(SqliteReader, "rows", rows)
        return counted

    steps.seen = seen
    return steps


@pytest.mark.parametrize(
    "work",
    [
        lambda path, out, size: run(show, out, path, "s", "--last=20"),
        lambda path, out, size: run(show, out, path, "s", f"--from={size - 20}"),
        lambda path, out, size: run(explain, out, path, "m-100"),
        lambda path, out, size: run(explain, out, path, "--call=c-50"),
        lambda path, out, size: run(explain, out, path, "m-100", "--session=s"),
    ],
    ids=["show the last", "show from", "explain a message", "explain a call", "in a session"],
)
def test_long_sessions_cost_what_short_ones_do(tmp_path, statements, work):
    steps = []
    for size in (200, 20_000):
        path = tmp_path / f"{size}.db"
        make_archive(path, size)
        out = io.StringIO()

        arguments = (path, Output(out), size)
        steps.append(statements(lambda arguments=arguments: work(*arguments)))

        assert out.getvalue()
    assert 0 < steps[1] <= steps[0] * 1.05
    assert statements.seen <= {*STATEMENTS.values(), PRAGMA}


@pytest.mark.full
async def test_a_long_session_is_shown_in_flat_memory(path):
    size, text = 3_000, "0123456789" * 1_000
    async with SqliteStore(path) as store:
        await asyncio.gather(*[store.append("s", user(f"m-{at}", text=text)) for at in range(size)])
    tracemalloc.start()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        run(show, Output(nowhere), path, "s", "--full")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < size * len(text) / 3


# --- the order ------------------------------------------------------------------------------------


def order(path, after=0):
    """Return ids of messages and the numbers of records, as a timeline gives them."""
    with SqliteReader(path) as reader:
        timeline = SessionReader(reader, reader.session("s").key, after)
        return [told for one in timeline.read_on() for told in names(one)]


def names(one):
    return [one.id] if isinstance(one, MessageRow) else [each.started_ns for each in one.records]


async def test_records_stand_before_what_they_led_to(path):
    await append(path, left(1), user("a", 2, 3), user("b"), left(4), left(5), user("c", 6), left(7))

    assert order(path) == [1, 2, 3, "a", "b", 4, 5, 6, "c", 7]
    assert order(path, after=1) == ["b", 4, 5, 6, "c", 7]
    assert order(path, after=2) == [4, 5, 6, "c", 7]
    assert order(path, after=3) == [7]
    assert order(path, after=9) == []


async def test_what_was_told_is_not_told_again(path):
    await append(path, user("a", 1), left(2))
    with SqliteReader(path, live=True) as reader:
        timeline, seen = SessionReader(reader, reader.session("s").key), []
        for more in ([], [left(3)], [user("b", 4), left(5)], []):
            before = reader.changes
            await append(path, *more)
            assert (reader.changes != before) == bool(more)
            seen.append([told for one in timeline.read_on() for told in names(one)])

    assert seen == [[1, "a", 2], [3], [4, "b", 5], []]


@pytest.mark.parametrize("seed", range(8))
async def test_a_reader_gives_what_a_store_holds_in_order(path, seed):
    draw, numbers = random.Random(seed), iter(range(10_000))
    async with SqliteStore(path) as store:
        for number in range(draw.randint(0, 200)):
            records = tuple([record(seq=next(numbers)) for _ in range(draw.randint(0, 3))])
            message = UserMessage(id=f"m-{number}", content="x" * draw.choice((1, 1, 100_000)))
            if draw.random() < 0.4 and records:
                await store.append("s", AppendRequest(records=records))
            else:
                await store.append("s", AppendRequest(message=message, records=records))
        messages, records = await store.read("s"), await store.records("s")

    with SqliteReader(path) as reader:
        key = reader.session("s").key if messages else 1
        assert tuple([row.message for row in reader.messages(key)]) == messages
        found = [one for page in reader.record_batches(key) for one in page.records]
    assert tuple(found) == records
    assert [one.started_ns for one in found] == list(range(next(numbers)))


# --- what is found --------------------------------------------------------------------------------


async def test_a_lost_session_is_told(path):
    await append(path, user("m"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("DELETE FROM sessions")

    with SqliteReader(path) as reader, pytest.raises(StoreError, match="session 1 is lost; see"):
        reader.session_of(1)


async def test_a_damaged_page_is_named(path):
    await append(path, user("m", 1))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE ledger SET body = '{'")

    with SqliteReader(path) as reader:
        page = reader.batch_of(next(reader.messages(1)))
        assert (page.records, page.problem[:20]) == ((), "record 1 is damaged:")
    out = io.StringIO()
    run(show, Output(out), path, "s")
    run(explain, Output(out), path, "m")
    assert out.getvalue().count("! record 1 is damaged: ") == 2
    run(show, Output(out), path, "s", "--json")
    assert '{"kind":"damage","reason":"record 1 is damaged: ' in out.getvalue()


def test_a_file_of_the_first_release_is_shown(path):
    shutil.copy(Path(__file__).parents[2] / "fixtures/store-0.1.0.db", path)
    before = path.read_bytes()

    out = io.StringIO()
    run(sessions, Output(out), path)
    run(show, Output(out), path, "plain")
    run(explain, Output(out), path, "--call=c2")

    assert out.getvalue().count("[removed]") == 3
    assert path.read_bytes() == before


# --- calls ----------------------------------------------------------------------------------------


def told(path, word):
    out = io.StringIO()
    run(explain, Output(out), path, word)
    return out.getvalue()


async def test_a_call_without_an_answer_is_told(path):
    calls = (ToolCall(id="c", name="read", raw="{broken"),)
    await append(path, AppendRequest(message=AssistantMessage(id="a", tool_calls=calls)))

    text = told(path, "--call=c")

    assert "answers call c: no answer" in text
    assert "read {broken" in text
    assert "not known" in text


async def test_an_answer_without_a_call_is_told(path):
    answer = ToolMessage(id="t", content="out of nowhere", tool_call_id="c", tool_name="read")
    await append(path, AppendRequest(message=answer))

    text = told(path, "t")

    assert text == told(path, "--call=c")
    assert "not in a message" in text
    assert "out of nowhere" in text


def passage(event, outcome, *entries):
    return DispatchRecord(
        event=event.name,
        scope=Scope(),
        subject="c",
        call_id="c",
        started_ns=1,
        duration_ns=2,
        outcome=outcome,
        original="abc",
        entries=entries,
    )


@pytest.mark.parametrize(
    ("error_type", "records", "status"),
    [
        (None, [], "ok"),
        ("KeyError", [], "error"),
        ("timeout", [], "timeout"),
        ("denied", [passage(TOOL_CALL_BEFORE, "denied")], "denied"),
        (None, [passage(TOOL_CALL_BEFORE, "answered")], "answered"),
        ("denied", [passage(MESSAGE_APPEND_BEFORE, "denied")], "ran, and its result was refused"),
    ],
)
async def test_the_status_of_a_call_is_told(path, error_type, records, status):
    said = ToolResponse.from_text("", is_error=bool(error_type), error_type=error_type)
    answer = ToolMessage(id="t", tool_call_id="c", tool_name="read", tool_response=said)
    await append(path, AppendRequest(message=answer, records=tuple(records)))

    assert f"answers call c: {status}\n" in told(path, "--call=c")


async def test_a_value_that_is_no_message_is_told(path):
    records = (
        DispatchRecord(
            event=MESSAGE_APPEND_BEFORE.name,
            scope=Scope(),
            subject="m",
            started_ns=1,
            duration_ns=2,
            outcome="changed",
            original="old",
            entries=(
                HandlerEntry(
                    name="h",
                    priority=1,
                    kind="transformer",
                    status="changed",
                    before="old",
                    after="new",
                    size_before=5,
                    size_after=7,
                ),
            ),
        ),
    )
    values = (Original(digest="old", body=b"[1,2]"), Original(digest="new", body=b'{"a":true}'))
    await append(path, AppendRequest(message=user("m").message, records=records, originals=values))

    text = told(path, "m")

    assert "changed 5 → 7 bytes" in text
    assert re.search(r"the value\n +\[1,2\] +│ \{\"a\":true\}", text)
    assert "as it came\n  [1,2]" in text


async def test_a_reader_that_has_left_stops_the_work(path):
    class Gone(io.StringIO):
        encoding, tries = "utf-8", 0

        def write(self, text):
            self.tries += 1
            raise BrokenPipeError

    await append(path, *[user(f"m{at}") for at in range(9)])
    await append(path, user("m"), session_id="t")
    for work in (
        lambda out: run(show, out, path, "s"),
        lambda out: run(show, out, path, "s", "--follow"),
        lambda out: run(sessions, out, path, "--json"),
    ):
        gone = Gone()
        assert work(Output(gone)) == 0
        assert gone.tries == 1


async def test_the_list_fits_what_a_session_keeps(path, capsys):
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(originals=(Original(digest="d", body=b"1"),)))

    run(sessions, Output(sys.stdout), path)

    assert capsys.readouterr().out.splitlines()[1].endswith("originals")


def test_the_rows_of_an_archive_are_those_of_a_store(path):
    make_archive(path, 40)

    async def look():
        async with SqliteStore(path) as store:
            return await store.read("s"), await store.records("s")

    messages, records = asyncio.run(look())
    assert [one.id for one in messages] == [f"m-{at}" for at in range(1, 41)]
    assert len(records) == 40
    assert all(one.started_ns < after.started_ns for one, after in pairwise(records))
