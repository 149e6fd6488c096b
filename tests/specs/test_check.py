"""The scenarios of `specs/check.md`."""

import json
import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from small_records import record
from toolbus import AssistantMessage, ToolCall, ToolMessage, ToolResponse, UserMessage
from toolbus.store import AppendRequest, Original
from toolbus.store.sqlite import SqliteStore

PAGE = 4096


def message(name):
    return UserMessage(id=name, content=f"I am {name}, and this is my text. " * 10)


async def add(store, names, session_id="s"):
    for name in names:
        await store.append(session_id, AppendRequest(message=message(name), records=[record(name)]))


NAMES = [f"m{at}" for at in range(1, 41)]


@pytest.fixture
def path(tmp_path):
    """Return the path of the store, in a folder of its own."""
    (tmp_path / "stores").mkdir()
    return tmp_path / "stores/store.db"


async def make(path):
    async with SqliteStore(path) as store:
        await add(store, NAMES)


async def make_with_log(path, tmp_path):
    """Make what a killed process leaves: its last commits are in the log only."""
    source = tmp_path / "source.db"
    await make(source)
    async with SqliteStore(source) as store:
        await add(store, [f"n{at}" for at in range(20)])
        for end in ("", "-wal"):
            shutil.copyfile(f"{source}{end}", f"{path}{end}")


def flip(path, place, bit=1):
    data = bytearray(path.read_bytes())
    data[place] ^= bit
    path.write_bytes(data)


def destroy(path, page):
    """Overwrite a page, as a failing disk does."""
    data = bytearray(path.read_bytes())
    data[(page - 1) * PAGE : page * PAGE] = bytes(range(256)) * (PAGE // 256)
    path.write_bytes(data)


def root(path, table):
    with closing(sqlite3.connect(path)) as other:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        return other.execute(query, (table,)).fetchone()[0]


def trace(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


async def read(path):
    async with SqliteStore(path, read_only=True) as store:
        return {one.id: await store.read(one.id) for one in await store.sessions()}


def report(command, path, *more):
    """Return the exit code and the report of a check."""
    done = command("check", path, "--json", *more)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


async def test_a_whole_store_is_called_whole(command, path):
    await make(path)
    call = ToolCall(id="c", name="read")
    async with SqliteStore(path) as store:
        await store.append("t", AppendRequest(message=AssistantMessage(id="a", tool_calls=(call,))))

    done = command("check", path)

    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0].startswith(f"{path}"[:20])
    assert lines[1:] == [
        "s 40 messages 40 records",
        "t 1 message 0 records 1 call without result",
        "✓ no damage found",
    ]


async def test_a_changed_character_is_found(command, path):
    await make(path)
    flip(path, path.read_bytes().index(b"I am m7,") + 30)

    code, found = report(command, path)
    text = " ".join(command("check", path).stdout.split())

    assert code == 1
    (session,) = found["sessions"]
    assert (session["messages"], session["records"]) == (39, 40)
    (lost,) = session["lost"]
    assert (lost["kind"], lost["first"], lost["last"]) == ("message", 7, 7)
    assert "session 's': message 7 cannot be read: it is damaged: the checksum" in text


async def test_a_destroyed_page_is_found(command, path):
    await make(path)
    data = path.read_bytes()
    page = data.index(b'"id":"m12"') // PAGE + 1
    there = [
        at
        for at, name in enumerate(NAMES, 1)
        if data.index(f'"id":"{name}"'.encode()) // PAGE + 1 == page
    ]
    destroy(path, page)

    code, found = report(command, path)

    assert code == 1
    (session,) = found["sessions"]
    lost = [at for one in session["lost"] for at in range(one["first"], one["last"] + 1)]
    assert lost == there
    assert session["messages"] == 40 - len(there)


async def test_a_cut_file_is_found(command, path):
    await make(path)
    data = path.read_bytes()

    for size in (len(data) - PAGE, len(data) - 1, 5 * PAGE, PAGE, 100, 50, 0):
        path.write_bytes(data[:size])
        done = command("check", path)
        assert (done.returncode, done.stderr) == (1, "")


async def test_wrong_counts_are_found(command, path):
    await make(path)
    async with SqliteStore(path) as store:
        response = ToolResponse.from_text("x")
        answer = ToolMessage(id="t", tool_call_id="c", tool_name="n", tool_response=response)
        await store.append("s", AppendRequest(message=answer))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE sessions SET messages = messages - 1")
        other.execute("DELETE FROM calls")

    code, found = report(command, path)

    assert code == 1
    assert found["problems"] == [
        "session 's': it counts 40 messages, but has 41",
        "the index of calls has 0 entries, and the messages have 1",
    ]


async def test_a_program_gets_one_document(command, path):
    await make(path)
    flip(path, path.read_bytes().index(b"I am m7,"))

    code, found = report(command, path)

    assert (code, found["is_whole"], found["path"], found["version"]) == (1, False, str(path), 7)
    assert found["bytes"] == path.stat().st_size
    assert [one["id"] for one in found["sessions"]] == ["s"]
    assert len(found["problems"]) == 1


def asking(name, *calls):
    return AssistantMessage(id=name, tool_calls=[ToolCall(id=one, name="read") for one in calls])


def answering(name, call, text="done", error_type=None):
    response = ToolResponse.from_text(text, is_error=bool(error_type), error_type=error_type)
    return ToolMessage(id=name, tool_call_id=call, tool_name="read", tool_response=response)


async def append(path, session_id, *messages):
    """Write as a program that has not opened the session, so nothing is compared."""
    async with SqliteStore(path) as store:
        for one in messages:
            await store.append(session_id, AppendRequest(message=one))


TORN = (
    message("go"),
    asking("a", "1", "2"),
    answering("i1", "1", "not run again", "interrupted"),
    answering("t2", "2"),
    message("and now?"),
    asking("b", "3"),
    answering("t1", "1", "true"),
    message("between"),
    answering("t3", "3"),
    answering("again", "3", "once more"),
    answering("stray", "9"),
)


async def test_two_answers_to_a_call_are_found(command, path):
    await append(path, "twice", *TORN)

    code, found = report(command, path)

    assert code == 1
    assert found["problems"] == [
        "session 'twice': call '1' is answered 2 times, by messages 3 and 7",
        "session 'twice': call '3' is answered 2 times, by messages 9 and 10",
        "session 'twice': message 8 is between call '3' and its answer",
    ]
    stray = "session 'twice': message 11 answers call '9', which no message requests"
    assert found["notes"] == [stray]
    assert (found["sessions"][0]["unanswered"], found["sessions"][0]["unasked"]) == (0, 1)


async def test_overlapping_calls_of_a_proxy_are_whole(command, path):
    overlapping = (asking("a", "1"), asking("b", "2"), answering("t2", "2"), answering("t1", "1"))
    await append(path, "record", *overlapping)

    assert report(command, path)[1]["problems"] == []


@pytest.mark.full
async def test_a_checked_store_stays_unchanged(command, path, tmp_path):
    await make_with_log(path, tmp_path)
    closed, damaged = path.with_name("closed.db"), path.with_name("damaged.db")
    await make(closed)
    shutil.copyfile(closed, damaged)
    destroy(damaged, root(closed, "messages"))
    for place in (0, 40):
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", path.with_name(f"log{place}.db{end}"))
        flip(path.with_name(f"log{place}.db-wal"), place)
    before = trace(path.parent)

    codes = [command("check", one).returncode for one in sorted(path.parent.glob("*.db"))]

    assert trace(path.parent) == before
    assert codes == [0, 1, 0, 0, 0]


async def test_a_store_in_use_can_be_checked(command, path):
    async with SqliteStore(path) as store:
        await add(store, NAMES)

        code, found = report(command, path)
        await add(store, ["next"])

        assert (code, found["sessions"][0]["messages"]) == (0, 40)
        assert len(await store.read("s")) == 41


@pytest.mark.full
async def test_a_file_of_another_kind_exits_with_2(command, path):
    folder = path.parent
    (folder / "text.db").write_text("dear diary\n" * 1000)
    with closing(sqlite3.connect(folder / "other.db")) as other:
        other.execute("CREATE TABLE diary (line)")
    await make(folder / "newer.db")
    with closing(sqlite3.connect(folder / "newer.db")) as newer:
        newer.execute("PRAGMA user_version = 9")

    for name, why in (
        ("missing.db", "there is no such file"),
        (".", "expected a file, got a directory"),
        ("text.db", "not a store"),
        ("other.db", "the database is of another application"),
        ("newer.db", "version 9 is newer than 7; update toolbus"),
    ):
        done = command("check", folder / name)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith(f"error: store '{folder / name}': {why}")


async def test_an_empty_file_is_damage(command, path):
    path.write_bytes(b"")

    done = command("check", path)

    assert done.returncode == 1
    assert "the file is empty: it was never written, or all of it was cut off" in done.stdout


async def test_the_rest_keeps_order_and_ids(command, path):
    await make(path)
    flip(path, path.read_bytes().index(b"I am m7,"))
    before, new = path.read_bytes(), path.with_name("new.db")

    code, found = report(command, path, "--recover", new)

    assert (code, found["recovered"]) == (1, str(new))
    assert path.read_bytes() == before
    assert command("check", new).returncode == 0
    kept = [message(name) for name in NAMES if name != "m7"]
    assert await read(new) == {"s": tuple(kept)}
    async with SqliteStore(new) as store:
        await add(store, ["next"])
        assert await store.read("s") == (*kept, message("next"))
        assert len(await store.records("s")) == 41


async def test_a_damaged_original_costs_itself_alone(command, path, tmp_path):
    await make(path)
    bodies = {digest: f'"I am {digest}"'.encode() for digest in ("d1", "d2", "d3")}
    originals = [Original(digest=digest, body=body) for digest, body in bodies.items()]
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(originals=tuple(originals)))
        await store.swap_state("s", "notes", None, b'{"left":3}')
    flip(path, path.read_bytes().index(b"I am d2"), 0x80)
    new = tmp_path / "new.db"

    code, found = report(command, path)
    recovery = command("check", path, "--recover", new)

    assert code == 1
    (problem,) = found["problems"]
    assert problem.startswith(
        "original 'd2' of session 's' cannot be read: it is damaged: invalid UTF-8"
    )
    assert recovery.returncode == 1
    assert "original 'd2'" in recovery.stdout
    assert await read(new) == await read(path)
    async with SqliteStore(new, read_only=True) as store:
        assert await store.originals("s") == (originals[0], originals[2])
        assert await store.read_state("s", "notes") == b'{"left":3}'


async def test_a_lost_list_of_sessions_is_rebuilt(command, path):
    await make(path)
    destroy(path, root(path, "sessions"))
    new = path.with_name("new.db")

    code, _ = report(command, path, "--recover", new)

    assert code == 1
    assert await read(new) == {"s": tuple([message(name) for name in NAMES])}
    assert command("check", new).returncode == 0


async def test_a_lost_table_costs_its_rows_only(command, path):
    await make(path)
    destroy(path, root(path, "messages"))
    new = path.with_name("new.db")

    code, found = report(command, path, "--recover", new)

    assert code == 1
    (session,) = found["sessions"]
    assert [(one["kind"], one["first"], one["last"]) for one in session["lost"]] == [
        ("message", 1, 40)
    ]
    async with SqliteStore(new) as store:
        assert [one.subject for one in await store.records("s")] == NAMES
    assert command("check", new).returncode == 0


async def test_a_cut_file_keeps_its_beginning(command, path):
    await make(path)
    data = path.read_bytes()
    kept = data[: (len(data) // PAGE - 3) * PAGE]
    path.write_bytes(kept)
    there = [name for name in NAMES if f'"id":"{name}"'.encode() in kept]
    new = path.with_name("new.db")

    code, found = report(command, path, "--recover", new)

    assert code == 1
    assert 0 < len(there) < len(NAMES)
    assert [one.id for one in (await read(new))["s"]] == there
    lost = [one for one in found["sessions"][0]["lost"] if one["kind"] == "message"]
    assert sum([one["last"] - one["first"] + 1 for one in lost]) == len(NAMES) - len(there)
    assert command("check", new).returncode == 0


async def test_a_file_without_a_head_gives_nothing(command, path):
    await make(path)
    cut = path.with_name("cut.db")
    cut.write_bytes(path.read_bytes()[:1_000])
    destroy(path, 1)

    for damaged in (path, cut):
        done = command("check", damaged, "--recover", path.with_name("new.db"))
        assert (done.returncode > 0, done.stdout, done.stderr.count("\n")) == (True, "", 1)
        assert "restore it from a copy" in done.stderr

    assert {one.name for one in path.parent.iterdir()} == {"store.db", "cut.db"}


async def test_a_damaged_log_gives_its_beginning(command, path, tmp_path):
    await make_with_log(path, tmp_path)
    log = path.with_name("store.db-wal")
    # The first frame with this message; later ones repeat its page.
    flip(log, log.read_bytes().index(b"I am n9,"))
    before, new = trace(path.parent), tmp_path / "new.db"

    code, found = report(command, path, "--recover", new)

    assert (code, found["problems"]) == (0, [])
    assert [one.id for one in (await read(new))["s"]] == [*NAMES, *[f"n{at}" for at in range(9)]]
    assert trace(path.parent) == before


async def test_the_saved_rows_are_counted(command, path, tmp_path):
    await make(path)
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(originals=(Original(digest="d", body=b"1"),)))
        await store.swap_state("s", "notes", None, b"2")
    flip(path, path.read_bytes().index(b"I am m7,"))

    code, found = report(command, path, "--recover", tmp_path / "one.db")
    text = " ".join(command("check", path, "--recover", tmp_path / "two.db").stdout.split())

    saved = {"sessions": 1, "messages": 39, "records": 40, "originals": 1, "states": 1}
    assert (code, found["saved"]) == (1, saved)
    counts = "1 session, 39 messages, 40 records, 1 original, 1 state"
    assert f"{counts} were written to {tmp_path / 'two.db'}"[:60] in text
    assert "s 39 messages 40 records 1 state 1 message lost" in text


async def test_nothing_is_overwritten(command, path):
    await make(path)
    taken = path.with_name("taken.db")
    taken.write_text("mine")
    before = trace(path.parent)

    for new in (taken, path):
        done = command("check", path, "--recover", new)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: store '{new}': the file exists already")

    assert trace(path.parent) == before


async def test_a_recovered_file_is_private(command, path):
    await make(path)
    new = path.with_name("new.db")

    before = os.umask(0)
    try:
        report(command, path, "--recover", new)
    finally:
        os.umask(before)

    assert new.stat().st_mode & 0o777 == 0o600


async def test_a_failed_recovery_leaves_nothing(command, path):
    await make(path)
    text = path.with_name("text.db")
    text.write_text("dear diary\n")
    before = trace(path.parent)

    nowhere = command("check", path, "--recover", path.parent / "no/new.db")
    nothing = command("check", text, "--recover", path.parent / "new.db")

    assert (nowhere.returncode, nothing.returncode) == (2, 2)
    assert "there is no folder" in nowhere.stderr
    assert "not a store" in nothing.stderr
    assert trace(path.parent) == before


async def test_a_recovered_session_has_one_answer_each(command, path):
    await append(path, "torn", *TORN[:-1])
    await append(path, "fine", message("hi"), asking("x", "8"), answering("t8", "8"))
    new = path.with_name("new.db")

    code, found = report(command, path, "--recover", new)

    assert code == 1
    assert found["notes"] == [
        "session 'torn': message 3 was left out: call '1' keeps the answer of message 7",
        "session 'torn': message 10 was left out: call '3' keeps the answer of message 9",
        "session 'torn': message 7 was moved next to its call '1'",
        "session 'torn': message 9 was moved next to its call '3'",
    ]
    saved = await read(new)
    order = [one.id for one in saved["torn"]]
    assert order == ["go", "a", "t2", "t1", "and now?", "b", "t3", "between"]
    assert [one.id for one in saved["fine"]] == ["hi", "x", "t8"]
    assert report(command, new)[0] == 0
    await append(new, "torn", message("on"))
    assert len((await read(new))["torn"]) == 9
