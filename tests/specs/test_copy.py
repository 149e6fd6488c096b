"""The scenarios of `specs/copy.md`."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from toolbus import Agent, AssistantMessage, ToolCall, ToolMessage, UserMessage
from toolbus.bus.ledger import DispatchRecord
from toolbus.errors import SessionBusyError, StoreError
from toolbus.events import MESSAGE_APPEND_BEFORE, Scope
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest, MemoryStore, Original, SqliteStore
from toolbus.store.check.session_check import check_reader
from toolbus.store.copy import copy_session
from toolbus.store.store_factory import open_reader, open_store

FIXTURES = Path(__file__).parents[1] / "fixtures"
DAY = 86_400 * 10**9


def record(number, subject=""):
    return DispatchRecord(
        event="e",
        scope=Scope(session_id="s"),
        subject=subject,
        started_ns=number,
        duration_ns=2,
        outcome="unchanged",
        original="digest",
    )


def user(name, *numbers, **fields):
    records = tuple([record(number) for number in numbers])
    return AppendRequest(message=UserMessage(id=name, content=name), records=records, **fields)


async def fill(store, session_id="s", messages=5):
    """Write a session with all that there can be."""
    first = AppendRequest(records=(record(1),), written_ns=5_000_000)
    await store.append(session_id, first)
    for number in range(messages):
        await store.append(session_id, user(f"m{number}", number, written_ns=6_000_000))
        await store.append(session_id, user(f"n{number}", written_ns=6_000_000))
    call = AssistantMessage(id="a", tool_calls=[ToolCall(id="c", name="read", arguments={})])
    answer = ToolMessage(id="t", tool_call_id="c", tool_name="read")
    originals = tuple([Original(digest=f"d{n}", body=b'{"b":1, "a":%d}' % n) for n in range(20)])
    records = (record(7, subject="t"), record(8))
    both = AppendRequest(before=(call,), message=answer, records=records, written_ns=6_000_000)
    await store.append(session_id, both)
    await store.append(session_id, AppendRequest(originals=originals, written_ns=6_000_000))
    for number in (9, 10):
        await store.append(
            session_id, AppendRequest(records=(record(number),), written_ns=7_000_000)
        )
    for name in ("budget", "other"):
        await store.swap_state(session_id, name, None, b'{"n": 1.0}', written_ns=7_000_000)


def contents(store, session_id="s"):
    """Return all that a reader gives of a session, but for the store's own numbers."""
    with store.reader() as reader:
        row = reader.session(session_id)
        batches = [
            (each.message_seq, each.seq, each.records) for each in reader.record_batches(row.key)
        ]
        messages = list(reader.messages(row.key))
        beside = [each.message_seq for each in reader.record_batches(row.key) if each.with_message]
        return (
            row._replace(key=0),
            [message.message for message in messages],
            batches,
            beside,
            list(reader.originals(row.key)),
            list(reader.states(row.key)),
        )


def contents_of(address, session_id):
    """Return the same of the store at *address*."""
    store = open_store(address, read_only=True)
    try:
        return contents(store, session_id)
    finally:
        asyncio.run(store.close())


async def copy(source, target, session_id="s"):
    with source.reader() as reader:
        return await copy_session(reader, reader.session(session_id), target, lambda _: None)


def change(path, statement, *values):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(statement, values)


def on_disk(path, work):
    """Do *work*, an async function, on the store *path*."""

    async def run():
        async with SqliteStore(path) as store:
            return await work(store)

    return asyncio.run(run())


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a store of one kind."""
    paths = (tmp_path / f"made-{number}.db" for number in range(1_000))
    return lambda kind: MemoryStore() if kind == "memory" else SqliteStore(next(paths))


async def test_a_session_is_copied_completely(make):
    for kinds in product(("memory", "disk"), repeat=2):
        source, target = map(make, kinds)
        await fill(source)
        await source.append("records", AppendRequest(records=(record(1),)))

        result, other = await copy(source, target), await copy(source, target, "records")

        assert contents(target) == contents(source)
        assert contents(target, "records") == contents(source, "records")
        counts = (result.messages, result.records, result.originals, result.states)
        assert counts == (12, 10, 20, 2)
        assert (result.status, other.status) == ("copied", "copied")
        assert result.digest == (await copy(target, source)).digest
        await source.close()
        await target.close()


@pytest.mark.full
def test_stores_of_version_0_1_0_are_copied(tmp_path, command):
    for name in ("store-0.1.0.db", "twice-0.1.0.db"):
        old, new = tmp_path / name, tmp_path / f"new-{name}"
        shutil.copyfile(FIXTURES / name, old)
        before = old.read_bytes()

        done = command("copy", old, new)

        assert (done.returncode, done.stderr) == (0, "")
        assert old.read_bytes() == before
        exports = [command("export", path).stdout for path in (old, new)]
        assert exports[0] == exports[1] != ""


def test_a_damaged_session_stops_no_other(tmp_path, command):
    path, new = tmp_path / "a.db", tmp_path / "b.db"

    async def write(store):
        for session_id in "abc":
            await store.append(session_id, user("m"))

    on_disk(path, write)
    change(path, "UPDATE messages SET body = '{' WHERE session = 2")

    done = command("copy", path, new)

    assert (done.returncode, done.stderr) == (1, "")
    assert "✗ b\n  message 1 of session 'b' is damaged" in done.stdout
    assert "2 copied, 0 were there already, 1 failed" in done.stdout
    lines = command("sessions", new, "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a", "c"]


async def test_a_wrong_copy_is_reported():
    class Losing(MemoryStore):
        async def append(self, session_id, stored):
            message = stored.message
            if message is not None and message.id == "n3":
                stored = replace(stored, message=UserMessage(id="n3", content="n"))
            await super().append(session_id, stored)

    source, target = MemoryStore(), Losing()
    await fill(source)

    with pytest.raises(StoreError, match="'s': the copy differs from the original when read back"):
        await copy(source, target)


def test_some_sessions_can_be_chosen(tmp_path, command):
    path, new = tmp_path / "a.db", tmp_path / "b.db"

    async def write(store):
        for session_id in ("main", "main/sub", "mainly", "other"):
            await store.append(session_id, user("m"))

    on_disk(path, write)

    done = command("copy", path, new, "--session", "main")
    unknown = command("copy", path, new, "--session", "nobody")

    assert done.returncode == 0
    lines = command("sessions", new, "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["main", "main/sub"]
    assert (unknown.returncode, unknown.stderr[:33]) == (2, "error: no session 'nobody'; see `")


async def test_copied_content_is_not_copied_again(make):
    source, target = make("memory"), make("disk")
    await fill(source)
    first = await copy(source, target)
    commits = target.commits

    again = await copy(source, target)
    written = target.commits - commits
    await source.append("s", user("later", 3))
    await source.swap_state("s", "budget", b'{"n": 1.0}', b"2")
    grown = await copy(source, target)

    assert (again.status, again.digest, written) == ("unchanged", first.digest, 0)
    assert (grown.status, grown.messages) == ("copied", first.messages + 1)
    assert contents(target)[1:] == contents(source)[1:]
    await target.close()


class Failing(MemoryStore):
    """Fails for good at the write of a number."""

    def __init__(self, writes):
        super().__init__()
        self.writes = writes

    def count(self):
        self.writes -= 1
        if self.writes < 0:
            raise StoreError("memory", "it is full")

    async def append(self, session_id, stored):
        self.count()
        await super().append(session_id, stored)

    async def swap_state(self, *arguments, **options):
        self.count()
        return await super().swap_state(*arguments, **options)


async def test_a_killed_copy_continues(monkeypatch):
    monkeypatch.setattr("toolbus.store.copy._BATCH", 3)
    source, failures = MemoryStore(), 0
    await fill(source)
    for writes in range(40):
        target = Failing(writes)
        try:
            await copy(source, target)
        except StoreError:
            failures += 1
        target.writes = 10**9

        result = await copy(source, target)

        assert contents(target) == contents(source)
        assert result.messages == 12
    assert 15 < failures < 40


@pytest.mark.full
def test_a_killed_process_leaves_a_beginning(tmp_path, command, environment):
    path, new = tmp_path / "a.db", tmp_path / "b.db"

    async def write(store):
        messages = [user(f"m{n}", n) for n in range(3_000)]
        await asyncio.gather(*[store.append("s", stored) for stored in messages])

    def length():
        with suppress(StoreError), open_reader(new, live=True) as reader:
            row = reader.session("s")
            return row.messages if row else 0
        return 0

    on_disk(path, write)
    words = [sys.executable, "-m", "toolbus", "copy", path, new]
    lengths = []
    for wanted in (0, 1, 1_000, 2_000):
        with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as child:
            while length() < wanted and child.poll() is None:
                pass
            child.kill()
        lengths.append(length())

    done = command("copy", path, new, "--json")

    assert lengths == sorted(lengths)
    assert lengths[2] >= 1_000
    result = json.loads(done.stdout)
    assert (done.returncode, result["messages"], result["records"]) == (0, 3_000, 3_000)
    assert contents_of(new, "s") == contents_of(path, "s")
    assert json.loads(command("copy", new, path, "--json").stdout)["digest"] == result["digest"]


async def test_another_session_with_the_id_stays():
    source = MemoryStore()
    await fill(source)
    other, longer = MemoryStore(), MemoryStore()
    await other.append("s", AppendRequest(records=(record(1),)))
    await other.append("s", user("another"))
    await copy(source, longer)
    await longer.append("s", user("more"))
    for target, why in (
        (other, "its entry 2 differs in the target"),
        (longer, "more entries in the target"),
    ):
        before = contents(target)

        with pytest.raises(StoreError, match=why):
            await copy(source, target)

        assert contents(target) == before


async def test_a_session_in_use_is_left():
    source, target = MemoryStore(), MemoryStore()
    await fill(source)
    await target.open_session("s", "somebody", 60)

    with pytest.raises(SessionBusyError):
        await copy(source, target)

    assert await target.sessions() == ()


def test_programs_get_a_session_a_line(tmp_path, command):
    path, new = tmp_path / "a.db", tmp_path / "b.db"

    async def write(store):
        await fill(store, "whole")
        await store.append("damaged", user("m"))

    on_disk(path, write)
    change(path, "UPDATE messages SET body = '{' WHERE session = 2")

    done = command("copy", path, new, "--json")

    whole, damaged = map(json.loads, done.stdout.splitlines())
    digest = whole.pop("digest")
    expected = {"session": "whole", "status": "copied", "messages": 12, "records": 10}
    assert whole == expected | {"originals": 20, "states": 2, "reason": ""}
    assert len(digest) == 64
    assert (damaged["session"], damaged["status"]) == ("damaged", "failed")
    assert damaged["reason"].startswith("message 1 of session 'damaged' is damaged: ")


async def test_an_agent_opens_its_store(tmp_path):
    path = tmp_path / "agent.db"
    for store in (path, str(path)):
        async with Agent(ScriptedModel(["hello"]), store=store, session_id="s") as agent:
            await agent.run("hi")

    assert [file.name for file in tmp_path.iterdir()] == ["agent.db"]
    async with SqliteStore(path, read_only=True) as store:
        assert len(await store.read("s")) == 4


@pytest.mark.full
def test_another_scheme_is_refused(tmp_path, command):
    address = "mysql://user:" + "canary-7f3" + "@host/db"
    commands = (
        ("sessions", address),
        ("check", address),
        ("export", address),
        ("show", address, "s"),
        ("copy", address, tmp_path / "new.db"),
        ("forget", address, "s"),
        ("forget", address, "--before", "2020-01-01"),
    )
    for arguments in commands:
        done = command(*arguments)

        kinds = "give the path of a file, postgresql://HOST/DATABASE or service=NAME"
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (f"error: store 'mysql://': unknown scheme of a store; {kinds}\n")
    assert not (tmp_path / "new.db").exists()


def redact(ctx):
    if ctx.value.role == "tool":
        return ctx.value.with_tool_response(ctx.value.tool_response.with_text("[removed]"))
    return None


async def work(path):
    """Let an agent work, whose calls a handler changes."""
    call = ToolCall(id="call-1", name="read", arguments={"path": "/"})
    model = ScriptedModel([AssistantMessage(id="asked", tool_calls=[call]), "done"])

    def read(path: str) -> str:
        return f"it is {path}"

    agent = Agent(model, tools=[read], store=path, session_id="s", keep_originals=True, max_turns=3)
    async with agent:
        agent.on(MESSAGE_APPEND_BEFORE, redact)
        await agent.run("look")


@pytest.mark.full
def test_a_server_s_store_is_read_alike(tmp_path, command, database):
    path, back, handlers = tmp_path / "a.db", tmp_path / "b.db", tmp_path / "h.py"
    asyncio.run(work(path))
    on_disk(path, lambda store: fill(store, "t"))
    handlers.write_text("from toolbus import AgentComponent\nclass Nothing(AgentComponent): ...\n")
    for source, target in ((path, database), (database, back)):
        done = command("copy", source, target)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("2 copied, 0 were there already\n")
    for session_id in "st":
        first, *others = [contents_of(address, session_id) for address in (path, database, back)]
        assert others == [first, first]
    commands = (
        ("sessions", None, "--json"),
        ("show", None, "s", "--full"),
        ("show", None, "t", "--json"),
        ("show", None, "t", "--last", "2"),
        ("show", None, "zzz"),
        ("explain", None, "--call", "call-1"),
        ("explain", None, "--call", "call-2"),
        ("explain", None, "asked", "--json"),
        ("export", None),
        ("replay", None, "--with", handlers, "--json"),
        ("forget", None, "t"),
        ("forget", None, "t", "--state", "--json"),
        ("sessions", None, "--json"),
    )
    for words in commands:
        outputs = []
        for address in (path, database):
            done = command(*[address if word is None else word for word in words])
            outputs.append((done.returncode, done.stdout, done.stderr))
        if words[0] == "sessions":
            assert "updated_ns" in outputs[0][1]
        assert outputs[0] == outputs[1], words
    checks = [
        json.loads(command("check", address, "--json").stdout) for address in (path, database)
    ]
    assert checks[0]["sessions"] == checks[1]["sessions"]
    assert [check["is_whole"] for check in checks] == [True, True]
    exports = [command("export", address).stdout for address in (path, back)]
    assert exports[0] == exports[1]


@pytest.mark.full
def test_damage_on_a_server_is_reported(tmp_path, command, postgres, database):
    async def write():
        store = open_store(database)
        for name in ("m1", "m2", "m3"):
            await store.append("s", user(name, 1))
        await store.close()

    asyncio.run(write())
    name = database.rpartition("/")[2].partition("?")[0]
    postgres.execute("UPDATE toolbus.messages SET body = '{' WHERE seq = 2", name)

    checked = command("check", database)
    recovered = command("check", database, "--recover", tmp_path / "new.db")
    shown = command("show", database, "s")
    copied = command("copy", database, tmp_path / "new.db")

    problem = "✗ session 's': message 2 cannot be read: it is damaged"
    assert (checked.returncode, problem in checked.stdout) == (1, True)
    assert "✗ damaged; copy the sessions that are whole:" in checked.stdout
    assert (recovered.returncode, recovered.stderr.count("\n")) == (2, 1)
    assert "--recover needs a file; `toolbus copy` copies" in recovered.stderr
    assert "! message 2 is damaged" in shown.stdout
    assert (copied.returncode, "message 2 of session 's' is damaged" in copied.stdout) == (1, True)


async def test_a_check_covers_any_store(make):
    call = AssistantMessage(id="a", tool_calls=[ToolCall(id="c", name="read", arguments={})])
    for kind in ("memory", "disk"):
        store = make(kind)
        await fill(store, "whole")
        with store.reader() as reader:
            whole = check_reader("it", reader, lambda done, total: None)
        await store.append("twice", AppendRequest(message=call))
        for name in ("t1", "t2"):
            message = ToolMessage(id=name, tool_call_id="c", tool_name="read")
            await store.append("twice", AppendRequest(message=message))
        with store.reader() as reader:
            report = check_reader("it", reader, lambda done, total: None)

        (state,) = whole.sessions
        assert (whole.is_whole, whole.problems) == (True, ())
        assert (state.id, state.messages, state.records, state.states) == ("whole", 12, 10, 2)
        problem = "session 'twice': call 'c' is answered 2 times, by messages 2 and 3"
        assert (report.is_whole, report.problems) == (False, (problem,))
        await store.close()


def test_sessions_before_a_day_are_deleted(tmp_path, command):
    path = tmp_path / "a.db"
    first = int(datetime(2026, 1, 30, tzinfo=UTC).timestamp()) * 10**9

    async def write(store):
        for number, name in enumerate(("first", "second", "third")):
            await store.append(name, user(f"canary-{name}", written_ns=first + number * DAY))

    on_disk(path, write)

    listed = command("forget", path, "--before", "2026-01-31", "--dry-run")
    before = len(command("sessions", path, "--json").stdout.splitlines())
    done = command("forget", path, "--before", "2026-01-31T01:00+01:00", "--json")
    again = command("forget", path, "--before", "2026-01-31")

    assert listed.stdout == (
        "2026-01-30 00:00:00  first\n"
        "1 session would be deleted, except those being written at that time\n"
    )
    assert before == 3
    assert json.loads(done.stdout) == {"before_ns": first + DAY, "forgotten": 1}
    assert again.stdout.startswith("0 sessions last written before 2026-01-31 00:00:00 UTC del")
    lines = command("sessions", path, "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["second", "third"]
    for file in tmp_path.glob("a.db*"):
        assert b"canary-first" not in file.read_bytes()
    assert command("check", path).returncode == 0


@pytest.mark.full
def test_a_wrong_day_is_refused(tmp_path, command):
    path = tmp_path / "a.db"
    on_disk(path, lambda store: store.append("s", user("m", written_ns=1_000)))
    wrong = {
        (
            "--before",
            "soon",
        ): "expected a day such as 2026-01-31 or 2026-01-31T18:00+02:00, got 'soon'",
        ("--before", "9999-01-01"): "'9999-01-01' is in the future; give a past day",
        ("s", "--before", "2026-01-31"): "expected either SESSION or --before DAY",
        (): "expected either SESSION or --before DAY",
        ("s", "--dry-run"): "--dry-run lists sessions before a day; add --before",
        ("--state", "--before", "2026-01-31"): "--before deletes the state as well; leave out",
    }
    for arguments, why in wrong.items():
        done = command("forget", path, *arguments)

        assert done.returncode == 2
        assert why in done.stderr

    assert len(command("sessions", path, "--json").stdout.splitlines()) == 1
