"""The scenarios of `specs/store.md`."""

import asyncio
import logging
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from toolbus import (
    Agent,
    AssistantMessage,
    Deny,
    Scope,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.bus.ledger import DispatchRecord, HandlerEntry
from toolbus.errors import ClosedError, MessageDenied, StoreError
from toolbus.events import MESSAGE_APPEND_BEFORE, MESSAGE_PERSIST_BEFORE, RUN_AFTER
from toolbus.messages import decode, encode
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest, Original, SessionInfo
from toolbus.store.check.recovery import recover
from toolbus.store.check.session_check import check_file
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.testing.fakes import FakeClock

ROLES = (
    SystemMessage(id="s", content="be brief"),
    UserMessage(id="u", content="héllo", metadata={"a": [1, {"b": None}]}),
    AssistantMessage(id="a", tool_calls=[ToolCall(id="c", name="read", arguments={"n": 1.5})]),
    ToolMessage(
        id="t", tool_call_id="c", tool_name="read", tool_response=ToolResponse(structured=[1, "x"])
    ),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture(params=["memory", "disk"])
def make(request, path):
    """Return what makes a store of one kind."""

    def make(**options):
        if request.param == "memory":
            return MemoryStore(**options)
        return SqliteStore(path, **options)

    return make


SECRET = "canary-7f3a9c"


def leak(kind: str) -> str:
    return f"{kind}: the password is {SECRET}"


def redact(ctx):
    match ctx.value:
        case ToolMessage(tool_response=ToolResponse() as said) if "redact" in said.text:
            clean = said.map_text(lambda text: text.replace(SECRET, "***"))
            return ctx.value.with_tool_response(clean)
        case AssistantMessage(content=text) if SECRET in text:
            return AssistantMessage(id=ctx.value.id, content="redacted")
    return None


def withhold(ctx):
    if ctx.value.role == "tool" and "withhold" in ctx.value.text:
        return ctx.value.with_tool_response(ToolResponse.from_text("withheld"))
    return None


def refuse(ctx):
    text = ctx.value.text
    if "crash" in text:
        raise ValueError(text)
    if SECRET in text and (ctx.value.role == "user" or "refuse" in text):
        return Deny("refused", detail=text)
    return None


@pytest.fixture
def log_file(tmp_path):
    """Write all that is logged to a file beside the store, but what handlers tell operators."""
    root, handler = logging.getLogger(), logging.FileHandler(tmp_path / "agent.log")
    handler.addFilter(lambda record: not hasattr(record, "handler"))
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield
    root.setLevel(before)
    root.removeHandler(handler)
    handler.close()


def user(name: str) -> AppendRequest:
    return AppendRequest(message=UserMessage(id=name, content=f"I am {name}"))


def record(name: str, *entries: HandlerEntry, **values: object) -> DispatchRecord:
    return DispatchRecord(
        event=name,
        scope=Scope(session_id="s"),
        started_ns=1,
        duration_ns=2,
        outcome="changed",
        original="digest",
        entries=entries,
        **values,
    )


def refusal(path, **options) -> str:
    """Return why *path* is refused; make sure that it is left as it was."""
    before = path.read_bytes()
    with pytest.raises(StoreError) as refused:
        SqliteStore(path, **options)
    assert path.read_bytes() == before
    assert refused.value.where == str(path)
    assert str(refused.value).startswith(f"store {str(path)!r}: ")
    return refused.value.reason


async def filled(path, *names: str) -> None:
    async with SqliteStore(path) as store:
        for name in names:
            await store.append("s", user(name))


async def test_messages_come_back_unchanged(make):
    async with make() as store:
        for message in ROLES:
            for session_id in ("one", "two"):
                await store.append(session_id, AppendRequest(message=message))

        assert await store.read("one") == ROLES
        assert await store.read("two") == ROLES


async def test_an_unknown_session_is_empty(make):
    async with make() as store:
        await store.append("s", user("1"))

        assert await store.read("t") == ()
        assert await store.records("t") == ()
        assert [one.id for one in await store.sessions()] == ["s"]


async def test_sessions_are_listed_oldest_first(make):
    clock = FakeClock(5)
    async with make(clock=clock) as store:
        for session_id in ("second", "first", "second"):
            await store.append(session_id, user("1"))
            clock.now_ns += 1

        assert await store.sessions() == (
            SessionInfo(id="second", messages=2, created_ns=5, updated_ns=7),
            SessionInfo(id="first", messages=1, created_ns=6, updated_ns=6),
        )


async def test_read_messages_do_not_change(make):
    async with make() as store:
        await store.append("s", user("1"))
        messages = await store.read("s")

        await store.append("s", user("2"))

        assert [one.id for one in messages] == ["1"]


async def test_concurrent_appends_keep_their_order(make):
    names = [str(n) for n in range(100)]
    async with make() as store:
        await asyncio.gather(*[store.append("s", user(name)) for name in names])

        assert [one.id for one in await store.read("s")] == names


def test_any_thread_may_append(make):
    store = make()

    async def append(prefix):
        for n in range(25):
            await store.append("s", user(f"{prefix}{n}"))

    threads = [threading.Thread(target=asyncio.run, args=[append(prefix)]) for prefix in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    ids = [one.id for one in asyncio.run(store.read("s"))]
    asyncio.run(store.close())
    for prefix in "abcd":
        assert [one for one in ids if one[0] == prefix] == [f"{prefix}{n}" for n in range(25)]
    assert len(ids) == 100


async def test_records_come_back_without_values(make):
    entry = {"name": "h", "priority": 1, "kind": "transformer", "status": "changed"}
    with_values = record(
        "1", HandlerEntry(**entry, after="d", value_after="secret"), value="secret"
    )
    alone = record("2")
    async with make() as store:
        await store.append("s", AppendRequest(message=ROLES[0], records=[with_values]))
        await store.append("s", AppendRequest(records=[alone]))

        kept = await store.records("s")
        assert kept == (record("1", HandlerEntry(**entry, after="d")), alone)
        assert b"secret" not in encode(kept)
        assert await store.read("s") == ROLES[:1]


async def test_an_agent_stores_its_ledger(make):
    async with make() as store:
        async with Agent(ScriptedModel(["done"]), store=store, session_id="s") as agent:
            agent.on(MESSAGE_APPEND_BEFORE, lambda ctx: None)
            agent.on(RUN_AFTER, lambda ctx: None)
            await agent.run("go")

        kept = await store.records("s")
        assert len(agent.ledger) == 3
        assert kept == (agent.ledger if store.durable else ())


@pytest.mark.full
async def test_denied_values_are_in_no_file(path, tmp_path, log_file):
    rounds = 200
    async with (
        SqliteStore(path) as store,
        Agent(ScriptedModel([]), tools=[leak], store=store, session_id="s") as agent,
    ):
        agent.on(MESSAGE_APPEND_BEFORE, redact)
        agent.on(MESSAGE_PERSIST_BEFORE, withhold)
        agent.guard(MESSAGE_APPEND_BEFORE, refuse)

        for at in range(rounds):
            for kind in ("redact", "withhold", "refuse"):
                await agent.call_tool("leak", kind=kind)
            await agent.append(AssistantMessage(id=f"a{at}", content=f"it is {SECRET}"))
            text = f"{'crash' if at % 2 else 'please'}: {SECRET}"
            with pytest.raises(MessageDenied):
                await agent.append(UserMessage(id=f"u{at}", content=text))
        while_open = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    after = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert {"store.db", "store.db-wal", "agent.log"} <= while_open.keys()
    assert after["agent.log"]
    for name, data in [*while_open.items(), *after.items()]:
        assert SECRET.encode() not in data, name
    async with SqliteStore(path) as store:
        assert len(await store.read("s")) == 7 * rounds
        assert len(await store.records("s")) > 8 * rounds


async def test_a_session_may_keep_originals(path):
    def mask(ctx):
        return UserMessage(id=ctx.value.id, content="my pin is ****")

    async with SqliteStore(path) as store:
        options = {"store": store, "session_id": "s", "keep_originals": True}
        async with Agent(ScriptedModel(["done"]), **options) as agent:
            agent.on(MESSAGE_APPEND_BEFORE, mask, when=lambda ctx: ctx.value.role == "user")
            agent.on(RUN_AFTER, lambda ctx: None)
            await agent.run("my pin is qzxj")

        kept = {one.digest: decode(one.body).text for one in await store.originals("s")}
        (changed,) = [one for one in await store.records("s") if one.outcome == "changed"]
        assert kept == {
            changed.original: "my pin is qzxj",
            changed.entries[0].after: "my pin is ****",
        }
        assert await store.records("s") == agent.ledger
        assert b"qzxj" not in encode([agent.ledger, await store.read("s")])


async def test_forgetting_leaves_the_transcript(make, path):
    originals = tuple([Original(digest=one, body=b'"canary"') for one in "ab"])
    async with make() as store:
        for session_id in "st":
            await store.append(
                session_id,
                AppendRequest(message=ROLES[0], records=[record("1")], originals=originals),
            )

        assert await store.forget_originals("s") == 2
        assert await store.originals("s") == ()
        assert await store.originals("t") == originals
        assert await store.forget_originals("t") == 2

        left = b"".join([file.read_bytes() for file in path.parent.iterdir()])
        assert b"canary" not in left
        for session_id in "st":
            assert await store.read(session_id) == ROLES[:1]
            assert await store.records(session_id) == (record("1"),)


async def test_an_append_is_on_disk_at_once(path, tmp_path):
    async with SqliteStore(path) as store:
        await store.append("s", user("1"))
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", tmp_path / f"copy.db{end}")

    async with SqliteStore(tmp_path / "copy.db") as copy:
        assert await copy.read("s") == (user("1").message,)


async def test_a_reopened_store_continues_its_sessions(path):
    await filled(path, "1", "2")

    await filled(path, "3")

    async with SqliteStore(path) as store:
        assert [one.id for one in await store.read("s")] == ["1", "2", "3"]


async def test_a_cancelled_append_is_still_written(path):
    async with SqliteStore(path) as store:
        append = asyncio.create_task(store.append("s", user("1")))
        await asyncio.sleep(0)
        append.cancel()
        with pytest.raises(asyncio.CancelledError):
            await append

        await store.append("s", user("2"))

        assert [one.id for one in await store.read("s")] == ["1", "2"]


async def test_concurrent_appends_share_commits(path):
    async with SqliteStore(path) as store:
        await asyncio.gather(*[store.append("s", user(str(n))) for n in range(100)])

        assert 1 <= store.commits < 50
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def move(path, to):
    for file in path.parent.glob(f"{path.name}*"):
        file.rename(to.parent / file.name.replace(path.name, to.name))


@pytest.mark.parametrize(
    "remove",
    [
        lambda path: path.unlink(),
        lambda path: shutil.rmtree(path.parent),
        lambda path: path.with_name("store.db-wal").unlink(),
        lambda path: path.with_name("store.db-shm").unlink(),
        lambda path: move(path, path.with_name("elsewhere.db")),
        lambda path: shutil.copyfile(path, f"{path}.new") and Path(f"{path}.new").replace(path),
    ],
    ids=["file", "folder", "log", "index", "moved", "replaced"],
)
async def test_a_missing_file_is_noticed(tmp_path, remove):
    path = tmp_path / "stores" / "store.db"
    path.parent.mkdir()
    async with SqliteStore(path) as store:
        await store.append("s", user("1"))
        remove(path)

        with pytest.raises(StoreError, match="deleted, moved or replaced while it was open"):
            await store.append("s", user("canary"))

        assert all(b"canary" not in one.read_bytes() for one in tmp_path.rglob("*.db*"))


async def test_a_restored_file_works(path, tmp_path):
    elsewhere = tmp_path / "elsewhere.db"
    async with SqliteStore(path) as store:
        await store.append("s", user("1"))
        move(path, elsewhere)
        with pytest.raises(StoreError, match="put it back"):
            await store.append("s", user("2"))
        move(elsewhere, path)

        await store.append("s", user("3"))

        assert [one.id for one in await store.read("s")] == ["1", "3"]


async def test_a_message_is_stored_as_json(path):
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(message=ROLES[1]))

    with closing(sqlite3.connect(path)) as other:
        rows = other.execute("SELECT id, version, body FROM messages").fetchall()
    assert rows == [("u", 1, encode(ROLES[1]).decode())]


def test_only_the_disk_is_durable(path):
    in_memory, on_disk = MemoryStore(), SqliteStore(path)

    durable = in_memory.durable, on_disk.durable

    assert durable == (False, True)


async def test_a_newer_file_is_refused(path):
    await filled(path, "1")
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")

    reason = refusal(path)

    assert reason == "version 99 is newer than 7; update toolbus"


async def test_a_damaged_file_is_refused(path, tmp_path):
    text = tmp_path / "text.db"
    text.write_text("no database at all\n" * 100)
    await filled(path, "1")
    path.write_bytes(bytes(100) + path.read_bytes()[100:])

    reasons = refusal(text), refusal(path)

    way_out = "not an SQLite database, or damaged; give another path or restore it"
    assert reasons == (way_out, way_out)


def test_a_foreign_database_is_refused(path):
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (text)")

    reason = refusal(path)

    assert reason == "the database is of another application; give another path"


async def test_a_locked_file_is_refused(path):
    await filled(path, "1")
    async with SqliteStore(path, timeout=0.01) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked by another program") as opened:
                SqliteStore(path, timeout=0.01)
            with pytest.raises(StoreError, match="locked by another program") as appended:
                await store.append("s", user("2"))
        await store.append("s", user("3"))

        assert opened.value.where == appended.value.where == str(path)
        assert [one.id for one in await store.read("s")] == ["1", "3"]


async def test_a_damaged_message_is_named(path):
    async with SqliteStore(path) as store:
        await store.append("other", user("1"))
    await filled(path, "1", "2")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE messages SET body = substr(body, 1, 20) WHERE id = '2'")

    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="message 2 of session 's' is damaged"):
            await store.read("s")
        assert [one.id for one in await store.read("other")] == ["1"]


async def test_a_changed_character_is_named(path):
    await filled(path, "1", "2")
    data = bytearray(path.read_bytes())
    data[data.index(b"I am 2")] ^= 1
    path.write_bytes(data)

    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="message 2 of session 's' is damaged: the checksum"):
            await store.read("s")


async def test_a_lone_surrogate_is_named(path):
    name = "s-\ud83d"

    async with SqliteStore(path) as store:
        reasons = []
        for work in (store.append(name, user("1")), store.read(name)):
            with pytest.raises(StoreError) as caught:
                await work
            reasons.append(caught.value.reason)
        await store.append("s", user("1"))

        assert len(await store.read("s")) == 1

    assert len(set(reasons)) == 1
    assert "contains a lone surrogate, '\\ud83d'" in reasons[0]
    assert reasons[0].endswith("remove it, or give another id")


@pytest.fixture
def open_to_all():
    """Let the process make files that everybody may read and write."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(path) -> dict[str, int]:
    return {one.name: one.stat().st_mode & 0o777 for one in path.parent.glob(f"{path.name}*")}


async def test_a_new_store_is_private(path, open_to_all):
    async with SqliteStore(path) as store:
        await store.append("s", user("1"))

        found = modes(path)

    assert found == dict.fromkeys(["store.db", "store.db-wal", "store.db-shm"], 0o600)


async def test_existing_permissions_stay(path, open_to_all):
    await filled(path, "1")
    path.chmod(0o640)

    async with SqliteStore(path) as store:
        await store.append("s", user("2"))

        assert set(modes(path).values()) == {0o640}


FIXTURES = Path(__file__).parents[1] / "fixtures"


def copied(tmp_path, name) -> Path:
    """Return a copy of a store of version 0.1.0, with the log beside it."""
    for file in FIXTURES.glob(f"{name}-0.1.0.db*"):
        shutil.copyfile(file, tmp_path / file.name)
    return tmp_path / f"{name}-0.1.0.db"


async def test_an_older_file_is_upgraded(tmp_path):
    path = copied(tmp_path, "store")

    async with SqliteStore(path) as store:
        before = await store.read("plain")
        await store.append("plain", AppendRequest(message=user("2").message, records=[record("2")]))

        assert before
        assert await store.read("plain") == (*before, user("2").message)
        assert (await store.records("plain"))[-1] == record("2")
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (7,)


async def test_an_older_file_is_readable(tmp_path):
    path = copied(tmp_path, "store")
    before = path.read_bytes()

    async with SqliteStore(path, read_only=True) as store:
        assert len(await store.read("plain")) > 1
        assert await store.records("plain")
        assert await store.read_state("plain", "count") is None

    assert path.read_bytes() == before


async def resumed(path, session_id) -> list[str]:
    """Let an agent go on with a session; return the texts that it has then."""
    async with SqliteStore(path) as store:
        agent = Agent(ScriptedModel(["resumed"]), store=store, session_id=session_id)
        await agent.run("and now?")
        assert await store.read(session_id) == tuple(agent.messages)
        return [one.text for one in agent.messages]


async def test_stores_of_version_0_1_0_are_opened(tmp_path):
    path, killed = copied(tmp_path, "store"), copied(tmp_path, "killed")
    interrupted = "the call was interrupted, and may have had effects; it was not run again"

    async with SqliteStore(path, read_only=True) as store:
        infos = [(one.id, one.messages) for one in await store.sessions()]
        texts = [one.text for one in await store.read("plain")]
        counts = len(await store.records("plain")), len(await store.originals("plain"))
    after = {one: await resumed(path, one) for one in ("plain", "open", "tool")}
    opened = await resumed(killed, "open")

    assert infos == [("plain", 8), ("open", 2), ("tool", 2)]
    said = ["be brief", "go", "", "<c1>", "[removed]", "done", "go on", "and on"]
    assert texts == said
    assert counts == (8, 2)
    assert after["plain"] == [*said, "and now?", "resumed"]
    assert after["open"] == ["pay", "", interrupted, interrupted, "and now?", "resumed"]
    assert after["tool"] == ["", "<direct>", "and now?", "resumed"]
    assert opened == after["open"]
    for one in (path, killed):
        assert check_file(str(one), lambda done, pages: None).problems == ()


async def test_a_damaged_session_of_0_1_0_is_repaired(tmp_path):
    path, new = copied(tmp_path, "twice"), tmp_path / "new.db"

    report = recover(str(path), str(new), lambda done, pages: None)
    texts = await resumed(new, "pay")

    told = ("session 'pay': call 'c1' is answered 2 times, by messages 3 and 6",)
    assert report.problems == told
    assert texts[:4] == ["pay the bill", "", "paid", "and now?"]
    assert texts[-2:] == ["and now?", "resumed"]
    assert check_file(str(new), lambda done, pages: None).problems == ()


async def test_a_closed_store_refuses(make):
    store = make()
    await store.close()
    await store.close()

    for attempt in (
        store.append("s", user("1")),
        store.read("s"),
        store.records("s"),
        store.sessions(),
    ):
        with pytest.raises(ClosedError, match=r"store.* is closed; make a new one"):
            await attempt


async def test_a_reader_changes_nothing(path):
    await filled(path, "1")
    before = path.read_bytes()

    async with SqliteStore(path, read_only=True) as store:
        messages = await store.read("s")
        with pytest.raises(StoreError, match="leave out `read_only=True`"):
            await store.append("s", user("2"))

    assert [one.id for one in messages] == ["1"]
    assert path.read_bytes() == before
