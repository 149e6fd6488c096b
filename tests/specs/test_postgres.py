"""The scenarios of `specs/postgres.md`."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

import toolbus
from postgres_server import Forwarder, running_server
from toolbus import Agent, AssistantMessage, Deny, ToolCall, ToolMessage, UserMessage, tool
from toolbus.cli import main
from toolbus.cli.assembly import find_model
from toolbus.errors import SessionBusyError, StoreError
from toolbus.events import MESSAGE_APPEND_AFTER, TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.settings.usage_error import UsageError
from toolbus.store import AppendRequest, PostgresStore
from toolbus.store.postgres.addresses import parse_address
from toolbus.store.postgres.tables import VERSION
from toolbus.store.store_factory import open_store

FIXTURES = Path(__file__).parents[1] / "fixtures"
PROGRAM = Path(__file__).parents[1] / "programs" / "kill_many_agents.py"
PASSWORD = "hunter" + str(2) + "%20of9"


def user(name, text="hello"):
    return AppendRequest(message=UserMessage(id=name, content=text))


def ids(messages):
    return [message.id for message in messages]


def name_of(address):
    """Return the name of the database of *address*."""
    return address.rpartition("/")[2].partition("?")[0]


def check_pairs(messages):
    """Each call has a single answer, next to it; no id is there twice."""
    assert len({*ids(messages)}) == len(messages)
    waiting = []
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting, "a message stands between a call and its answer"
            waiting += [call.id for call in getattr(message, "tool_calls", ())]
    return waiting


@contextmanager
def forwarded(postgres, database):
    """Give a forwarder to the server, and the address of *database* behind it."""
    forwarder = Forwarder(postgres.folder / f".s.PGSQL.{postgres.port}")
    try:
        name = name_of(database)
        yield forwarder, f"postgresql://postgres@127.0.0.1:{forwarder.port}/{name}"
    finally:
        forwarder.close()


def reading_role(postgres, database):
    """Make a role that may only read *database*, and return its address."""
    name = name_of(database)
    role = f"reader_{name}"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA toolbus TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA toolbus TO {role}",
    ):
        postgres.execute(statement, name)
    return database.replace("//postgres@", f"//{role}@")


# --- the schema ----------------------------------------------------------------------------------


def test_several_processes_create_the_schema_at_once(postgres, database):
    def work(number):
        async def append():
            async with PostgresStore(database) as store:
                await store.append("s", user(f"m{number}"))

        asyncio.run(append())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))

    rows = postgres.execute("SELECT id FROM toolbus.messages", name_of(database))
    assert sorted(rows) == [(f"m{number}",) for number in range(8)]
    assert postgres.execute("SELECT version FROM toolbus.meta", name_of(database)) == [(VERSION,)]


async def test_a_schema_of_0_3_0_opens(postgres, database):
    name = name_of(database)
    async with PostgresStore(database) as store:
        await store.append("s", user("a"))
    for statement in (
        """CREATE FUNCTION toolbus.append_message(a text, b bigint, OUT status int)
        LANGUAGE plpgsql AS $$BEGIN status := 2; END$$""",
        "ALTER TABLE toolbus.commits ADD COLUMN barrier bigint NOT NULL DEFAULT 0",
        "UPDATE toolbus.meta SET version = 5",
    ):
        postgres.execute(statement, name)

    with pytest.raises(StoreError, match=f"older than {VERSION}; open it once for writing"):
        PostgresStore(database, read_only=True)
    assert postgres.execute("SELECT version FROM toolbus.meta", name) == [(5,)]
    async with PostgresStore(database) as store:
        await store.append("s", user("b"))
        assert ids(await store.read("s")) == ["a", "b"]

    functions = "SELECT proname FROM pg_proc WHERE pronamespace = 'toolbus'::regnamespace"
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'commits'"
    assert postgres.execute("SELECT version FROM toolbus.meta", name) == [(VERSION,)]
    assert ("append_message",) not in postgres.execute(functions, name)
    assert ("barrier",) not in postgres.execute(columns, name)


def partition_as_0_3_0(postgres, name, until_ns):
    """Let the tables have the partitions of 0.3.0, which end with *until_ns*, and its version."""
    end = (until_ns // 10**9 - 1_577_836_800) * 2**30
    for view in ("toolbus_calls", "toolbus_handlers"):
        postgres.execute(f"DROP VIEW toolbus.{view}", name)
    for table in ("messages", "calls", "ledger", "mentions"):
        for statement in (
            f"ALTER TABLE toolbus.{table} RENAME TO {table}_whole",
            f"""CREATE TABLE toolbus.{table} (LIKE toolbus.{table}_whole INCLUDING ALL)
            PARTITION BY RANGE (session)""",
            f"""CREATE TABLE toolbus.{table}_20251127 PARTITION OF toolbus.{table}
            FOR VALUES FROM (0) TO ({end})""",
            f"INSERT INTO toolbus.{table} SELECT * FROM toolbus.{table}_whole",
            f"DROP TABLE toolbus.{table}_whole",
        ):
            postgres.execute(statement, name)
    postgres.execute("UPDATE toolbus.meta SET version = 5, period = 'day'", name)


@pytest.mark.full
async def test_partitions_of_0_3_0_go_on(postgres, database):
    name = name_of(database)
    async with PostgresStore(database) as store:
        await store.append("old", user("a"))
    # A second later: the key of a session has the second in which it was made.
    end_ns = (time.time_ns() // 10**9 + 1) * 10**9
    partition_as_0_3_0(postgres, name, end_ns)
    await asyncio.sleep(max(0, end_ns - time.time_ns()) / 1e9)

    async with PostgresStore(database) as store:
        await store.append("old", user("b"))
        await store.append("new", user("c"))
        read = {session: ids(await store.read(session)) for session in ("old", "new")}
        assert read == {"old": ["a", "b"], "new": ["c"]}
        with store.reader() as reader:
            assert [row.id for row in reader.messages_of("c", None)] == ["c"]
        rows = postgres.execute("SELECT tableoid::regclass::text FROM toolbus.messages", name)
        assert sorted({row for (row,) in rows}) == [
            "toolbus.messages_20251127",
            "toolbus.messages_rest",
        ]

        old = (await store.sessions())[0].updated_ns
        assert await store.forget_sessions(old + 1) == ("old",)

        assert await store.read("old") == ()
        assert ids(await store.read("new")) == ["c"]
    assert postgres.execute("SELECT id FROM toolbus.messages", name) == [("c",)]


@pytest.mark.full
async def test_another_database_is_refused(postgres, database):
    def refused(address, words, **options):
        with pytest.raises(StoreError, match=words):
            PostgresStore(address, **options)

    refused(database, "the database is empty; give the address of a store", read_only=True)
    async with PostgresStore(database):
        pass
    postgres.execute("UPDATE toolbus.meta SET version = 4", name_of(database))
    refused(database, "version 4 is not of any release; restore it")
    postgres.execute("UPDATE toolbus.meta SET version = 99", name_of(database))
    refused(database, f"version 99 is newer than {VERSION}; update toolbus")
    assert postgres.execute("SELECT version FROM toolbus.meta", name_of(database)) == [(99,)]

    foreign = postgres.create_database()
    postgres.execute("CREATE SCHEMA toolbus", foreign)
    postgres.execute("CREATE TABLE toolbus.mine (x int)", foreign)
    refused(postgres.address(foreign), "its schema 'toolbus' belongs to another application")
    assert postgres.execute("SELECT * FROM toolbus.mine", foreign) == []

    options = "template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    latin = postgres.create_database(options)
    refused(postgres.address(latin), "encoding is LATIN1; make one with `createdb")
    refused(postgres.address("nowhere"), 'database "nowhere" does not exist')
    refused("nowhere at all", "not an address of a database")


@pytest.mark.full
async def test_files_of_0_1_0_are_copied_over(tmp_path, database, capsys):
    file = tmp_path / "old.db"
    shutil.copy(FIXTURES / "store-0.1.0.db", file)

    assert await asyncio.to_thread(main, ["copy", str(file), database]) == 0
    assert await asyncio.to_thread(main, ["check", database]) == 0

    async with open_store(file, read_only=True) as old, PostgresStore(database) as store:
        sessions = await old.sessions()
        assert sessions
        assert await store.sessions() == sessions
        for info in sessions:
            assert await store.read(info.id) == await old.read(info.id)
            assert await store.records(info.id) == await old.records(info.id)


# --- who follows ---------------------------------------------------------------------------------


async def followed(store, session_id, count):
    """Return the ids of the first *count* messages that a follower gets."""
    gotten = []
    messages = store.follow(session_id)
    async for message in messages:
        gotten.append(message.id)
        if len(gotten) == count:
            break
    await messages.aclose()
    return gotten


async def until_it_listens(postgres, count=1):
    """Wait until so many follow a session."""
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"
    while postgres.execute(locks) < [(count,)]:
        await asyncio.sleep(0.01)


async def test_a_follower_is_woken_by_an_append(postgres, database):
    async with PostgresStore(database) as store:
        await store.append("s", user("m0"))
        role = reading_role(postgres, database)
        async with PostgresStore(role, read_only=True) as other:
            follower = asyncio.create_task(followed(other, "s", 3))
            await until_it_listens(postgres)
            for name in ("m1", "m2"):
                await store.append("t", user(f"other {name}"))
                await store.append("s", user(name))

            assert await asyncio.wait_for(follower, 60) == ["m0", "m1", "m2"]


@pytest.mark.full
async def test_a_follower_survives_a_lost_connection(postgres, database):
    with forwarded(postgres, database) as (forwarder, address):
        async with PostgresStore(database) as store, PostgresStore(address) as other:
            follower = asyncio.create_task(followed(other, "s", 2))
            await until_it_listens(postgres)
            await store.append("s", user("m0"))
            forwarder.cut()
            await store.append("s", user("m1"))

            assert await asyncio.wait_for(follower, 60) == ["m0", "m1"]


# --- what SQL sees -------------------------------------------------------------------------------


@tool
def read(path: str) -> str:
    return f"the text of {path}"


@tool
def fails() -> str:
    raise RuntimeError("failed")


@tool
def remove(path: str) -> str:
    return "removed"


def asking(*calls):
    made = [ToolCall(id=name, name=name, arguments=arguments) for name, arguments in calls]
    return AssistantMessage(tool_calls=made)


@pytest.mark.full
async def test_a_model_plays_its_session(database):
    async with PostgresStore(database) as store:
        await store.append("b", user("b1"))
        async with Agent(ScriptedModel(["it is 4"]), store=store, session_id="a") as agent:
            await agent.run("what is 2 + 2?")

    model = find_model(f"replay:{database}#a")
    async with Agent(model) as again:
        assert (await again.run("what is 2 + 2?")).text == "it is 4"
    with pytest.raises(UsageError, match="2 sessions"):
        find_model(f"replay:{database}")


async def test_calls_are_a_view(postgres, database):
    calls = asking(("read", {"path": "a"}), ("fails", {}), ("remove", {"path": "b"}))
    model = ScriptedModel([calls, AssistantMessage(content="done")])
    agent = Agent(model, tools=[read, fails, remove], store=PostgresStore(database), session_id="s")

    def no_removal(ctx):
        return Deny("no") if ctx.value.name == "remove" else None

    agent.guard(TOOL_CALL_BEFORE, no_removal)
    await agent.run("go")
    await agent.aclose()

    columns = "session, call, tool, status, duration_ms >= 0, answered <= now(), seq, handler"
    query = f"SELECT {columns}, message ->> 'role' FROM toolbus.toolbus_calls ORDER BY seq"
    rows = postgres.execute(query, name_of(database))
    assert [row[:4] for row in rows] == [
        ("s", "read", "read", "ok"),
        ("s", "fails", "fails", "RuntimeError"),
        ("s", "remove", "remove", "denied"),
    ]
    assert [(row[4] in {True, None}, row[5], row[8]) for row in rows] == [(True, True, "tool")] * 3
    assert rows[0][7] is None
    assert "no_removal" in rows[2][7]
    handlers = "SELECT handler, status, reason FROM toolbus.toolbus_handlers WHERE call = 'remove'"
    assert (rows[2][7], "denied", "no") in postgres.execute(handlers, name_of(database))


async def test_a_nul_is_kept(postgres, database):
    texts = ["a\0b", "\0", "\\u0000", "\\\\u0000\0\0", "\ufdd0", "\ufdd1", "\ufdd00"]
    messages = [
        ToolMessage(id=text, tool_call_id=text, tool_name=text, content=text) for text in texts
    ]
    async with PostgresStore(database) as store:
        for message in messages:
            await store.append(f"s{message.id}", AppendRequest(message=message))
            await store.swap_state(f"s{message.id}", message.id, None, b'"\\u0000"')

        assert [info.id for info in await store.sessions()] == [f"s{text}" for text in texts]
        for message in messages:
            assert await store.read(f"s{message.id}") == (message,)
            assert await store.read_state(f"s{message.id}", message.id) == b'"\\u0000"'
        with store.reader() as reader:
            assert [reader.messages_of(text, None)[0].message for text in texts] == messages
            assert [row.id for row in reader.sessions()] == [f"s{text}" for text in texts]
    query = "SELECT message ->> 'content' FROM toolbus.toolbus_calls ORDER BY session"
    shown = {text for (text,) in postgres.execute(query, name_of(database))}
    assert shown == {text.replace("\0", "\ufffd") for text in texts}


@pytest.mark.full
async def test_a_very_long_id_is_kept(database):
    names = [f"{letter * 100_000}{end}" for letter in ("a", "ü\0") for end in "xy"]
    async with PostgresStore(database) as store:
        for name in names:
            message = ToolMessage(id=name, tool_call_id=name, tool_name="t", content="c")
            await store.append(name, AppendRequest(message=message))
            await store.swap_state(name, name, None, b"1")

        assert [info.id for info in await store.sessions()] == names
        for name in names:
            assert ids(await store.read(name)) == [name]
            with store.reader() as reader:
                row = reader.session(name)
                assert row.id == name
                assert ids([hit.message for hit in reader.messages_of(name, None)]) == [name]
                assert [hit.id for hit in reader.messages_of_call(name, row.key)] == [name]


# --- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{PASSWORD}@db.example/x",
        f"postgresql://db.example/x?password={PASSWORD}",
        f"postgresql://me:{PASSWORD}%zz@db.example/x",
        f"postgresql://me:{PASSWORD} @db.example:a/x",
        f"service=x password={PASSWORD}",
        f"service=x password='{PASSWORD}",
        f"postgresql://db.example/x?sslpassword={PASSWORD}",
    ],
)
def test_a_password_in_an_address_is_refused(address):
    for opening in (PostgresStore, open_store):
        with pytest.raises(StoreError) as caught:
            opening(address)

        error = caught.value
        shown = f"{error!s} {error!r} {error.__cause__!r} {error.args}"
        assert "hunter" not in shown
        assert "PGPASSFILE" in str(error) or "%XX" in str(error)


def await_refusal(address):
    """Wait until the server at *address* asks for a password."""
    while True:
        try:
            psycopg.connect(address, password="").close()
        except psycopg.OperationalError as error:
            if "password" in str(error):
                return
        time.sleep(0.01)


@pytest.mark.full
async def test_a_password_from_a_file_works(tmp_path, monkeypatch, caplog):
    with running_server() as server:
        server.execute(f"ALTER ROLE postgres PASSWORD '{PASSWORD}'")
        rules = server.folder / "data/pg_hba.conf"
        rules.write_text("host all all 127.0.0.1/32 scram-sha-256\nlocal all all trust\n")
        server.stop()
        server.start()
        with forwarded(server, server.address("postgres")) as (_, through):
            # The server sees a socket of this machine, so rules for both.
            rules.write_text("local all all scram-sha-256\n")
            server.stop()
            server.start(wait=False)
            await_refusal(through)
            port = through.rpartition(":")[2].partition("/")[0]
            secrets, services = tmp_path / "pgpass", tmp_path / "services"
            secrets.write_text(f"127.0.0.1:{port}:*:postgres:{PASSWORD}\n")
            secrets.chmod(0o600)
            services.write_text(
                f"# ours\n[agents]\nhost=127.0.0.1\nport={port}\nuser=postgres\ndbname=postgres\n"
            )
            monkeypatch.setenv("PGPASSFILE", str(secrets))
            monkeypatch.setenv("PGSERVICEFILE", str(services))
            for address in (through, "service=agents"):
                async with PostgresStore(address) as store:
                    await store.append("s", user("a"))
                    assert "hunter" not in repr(store)

            secrets.write_text(f"127.0.0.1:{port}:*:postgres:{PASSWORD}wrong\n")
            with pytest.raises(StoreError, match="password authentication failed") as caught:
                PostgresStore("service=agents")

    assert "hunter" not in f"{caught.value!s} {caught.value.__cause__!r} {caplog.text}"


def test_another_machine_proves_its_name(tmp_path):
    services = tmp_path / "services"
    services.write_text("[near]\nhost=/tmp\n[far]\nhost=db.example\n[plain]\nsslmode=disable\n")

    def mode(address, **environment):
        environment = {"PGSERVICEFILE": str(services)} | environment
        found = re.search(r"sslmode=(\S+)", parse_address(address, environment).conninfo)
        return found[1] if found else None

    far = ["postgresql://db.example/x", "postgresql://10.1.2.3/x", "postgresql://localhost,b/x"]
    far += ["service=far", "service=unknown", "postgresql://localhost/x?hostaddr=10.1.2.3"]
    near = ["postgresql:///x", "postgresql://localhost/x", "postgresql://127.0.0.1:5/x"]
    near += ["postgresql://[::1]/x", "postgresql:///x?host=/tmp", "service=near", "service=plain"]
    assert [mode(address) for address in far] == ["verify-full"] * len(far)
    assert [mode(address) for address in near] == [None] * len(near)
    assert mode("postgresql://db.example/x?sslmode=require") == "require"
    assert mode("postgresql:///x", PGHOST="db.example") == "verify-full"
    assert mode("postgresql:///x", PGSERVICE="far") == "verify-full"
    assert mode("postgresql://db.example/x", PGSSLMODE="verify-ca") is None


@pytest.mark.full
async def test_readers_need_no_right_to_write(postgres, database):
    async with PostgresStore(database) as store:
        await store.append("s", user("a"))
    role = reading_role(postgres, database)

    async with PostgresStore(role, read_only=True) as store:
        assert ids(await store.read("s")) == ["a"]
        with store.reader() as reader:
            assert [row.id for row in reader.sessions()] == ["s"]
        with pytest.raises(StoreError, match="leave out `read_only=True`"):
            await store.append("s", user("b"))
    async with PostgresStore(role) as store:
        with pytest.raises(StoreError, match="the role lacks a privilege"):
            await store.append("s", user("b"))


# --- when it fails -------------------------------------------------------------------------------


@asynccontextmanager
async def behind_a_forwarder(postgres, database, **options):
    with forwarded(postgres, database) as (forwarder, address):
        async with PostgresStore(address, **options) as store:
            yield forwarder, store


async def appended_at_cuts(forwarder, store, points):
    """Cut the connection at each of *points* of an append; return the ids, and how many cuts."""
    names, cuts = [], 0
    for number in range(2):
        names.append(f"warm {number}")
        forwarder.cut_at()
        await store.append("s", user(names[-1]))
    sent, received = forwarder.sent, forwarder.received
    for number in range(points):
        share = number // 2 / (points // 2)
        before = forwarder.cuts
        if number % 2:
            forwarder.cut_at(sent=1 + int(share * sent))
        else:
            forwarder.cut_at(received=1 + int(share * received))
        names += [f"cut {number}", f"next {number}"]
        await store.append("s", user(names[-2]))
        cuts += forwarder.cuts - before
        forwarder.cut_at()
        await store.append("s", user(names[-1]))
    return names, cuts


@pytest.mark.full
async def test_a_cut_connection_appends_once(postgres, database):
    async with behind_a_forwarder(postgres, database) as (forwarder, store):
        names, cuts = await appended_at_cuts(forwarder, store, 300)

        assert ids(await store.read("s")) == names
        assert cuts >= 290


@pytest.mark.full
async def test_an_unknown_outcome_is_reported(postgres, database):
    async with behind_a_forwarder(postgres, database, timeout=1.0) as (forwarder, store):
        for name in "abcdef":
            forwarder.cut_at()
            await store.append("s", user(name))
        # The answer to the commit is the last thing that comes.
        forwarder.cut_at(received=forwarder.received - 1)
        forwarder.refuse = True

        with pytest.raises(
            StoreError, match="the data may have been written; read the session again"
        ):
            await store.append("s", user("g"))
        forwarder.refuse = False
        await store.append("s", user("h"))

        assert ids(await store.read("s")) == list("abcdefgh")


class AgentWork:
    """Sixteen agents that run again and again, and what they were told is stored."""

    def __init__(self, store):
        self.told, self.runs, self.errors, self.ended = {}, 0, [], False
        self._store = store

    async def work(self, session_id):
        told = self.told.setdefault(session_id, [])
        agent = None
        while not self.ended:
            turns = (turn for number in range(10**6) for turn in self._turns(session_id, number))
            agent = agent or Agent(
                ScriptedModel(turns), tools=[read], store=self._store, session_id=session_id
            )
            agent.on(MESSAGE_APPEND_AFTER, lambda ctx: told.append(ctx.value.id))
            try:
                while not self.ended:
                    await agent.run("go")
                    self.runs += 1
            except (StoreError, SessionBusyError) as error:
                self.errors.append(str(error))
                agent = None

    def _turns(self, session_id, number):
        name = f"{session_id}-{number}-{os.urandom(4).hex()}"
        calls = [ToolCall(id=f"{name}-{n}", name="read", arguments={"path": "a"}) for n in "12"]
        yield AssistantMessage(id=name, tool_calls=calls)
        yield AssistantMessage(id=f"{name}-done", content="done")


@pytest.mark.full
async def test_a_killed_server_loses_nothing():
    with running_server() as server:
        address = server.address("postgres")
        async with PostgresStore(address) as store:
            work = AgentWork(store)
            tasks = [asyncio.create_task(work.work(f"s{number}")) for number in range(16)]
            for turn in range(20):
                runs = work.runs
                while work.runs < runs + 16:
                    assert not [task.exception() for task in tasks if task.done()]
                    await asyncio.sleep(0.005)
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(0.02 * (turn % 3))
                await asyncio.to_thread(server.start)
            work.ended = True
            await asyncio.gather(*tasks)
            for session_id, told in work.told.items():
                messages = await store.read(session_id)
                check_pairs(messages)
                assert {*told} <= {*ids(messages)}


@pytest.mark.full
def test_killed_agents_lose_nothing():
    with running_server() as server:
        address = server.address("postgres")
        asyncio.run(PostgresStore(address).close())
        source = str(Path(toolbus.__file__).parents[1])
        program = subprocess.Popen(
            [sys.executable, str(PROGRAM), address, "200", "4"],
            env=os.environ | {"PYTHONPATH": source},
            stdout=subprocess.PIPE,
            text=True,
        )
        lines = []
        reading = threading.Thread(target=lambda: lines.extend(program.stdout))
        reading.start()
        for _ in range(20):
            count = len(lines)
            while program.poll() is None and len(lines) < count + 30:
                time.sleep(0.01)
            server.kill()
            server.start()
        assert program.wait() == 0
        reading.join()
        program.stdout.close()
        told = {tuple(line.split()) for line in lines}

        async def look():
            async with PostgresStore(address) as store:
                return {f"s{number}": await store.read(f"s{number}") for number in range(4)}

        sessions = asyncio.run(look())

    assert len(told) == len(lines) > 800
    assert told <= {(session, name) for session, read in sessions.items() for name in ids(read)}
    for messages in sessions.values():
        check_pairs(messages)


@pytest.mark.full
async def test_a_full_disk_is_an_error(postgres, database):
    name = name_of(database)
    async with PostgresStore(database) as store:
        await store.append("s", user("a"))
        body = "BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END"
        function = f"FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $${body}$$"
        postgres.execute(f"CREATE {function}", name)
        trigger = "TRIGGER no_space BEFORE INSERT ON toolbus.messages EXECUTE FUNCTION no_space()"
        postgres.execute(f"CREATE {trigger}", name)

        with pytest.raises(StoreError, match="the disk of the server is full"):
            await store.append("s", user("b"))
        postgres.execute("DROP TRIGGER no_space ON toolbus.messages", name)
        await store.append("s", user("c"))

        assert ids(await store.read("s")) == ["a", "c"]


async def test_a_full_disk_stops_no_reading(postgres, database):
    async with PostgresStore(database) as store:
        for number in range(40):
            text = os.urandom(10_000).hex()
            await store.append("s", user(f"m{number}", text))
        # A role that may keep nothing in temporary files, as on a disk without room, and for which
        # the server takes a sort to be cheaper.
        address = reading_role(postgres, database)
        role = f"reader_{name_of(database)}"
        for setting in ("temp_file_limit = 0", "work_mem = '64kB'", "enable_indexscan = off"):
            postgres.execute(f"ALTER ROLE {role} SET {setting}")

    async with PostgresStore(address, read_only=True) as reading:
        messages = await reading.read("s")
        records = await reading.records("s")
        with reading.reader() as reader:
            listed = list(reader.messages(reader.session("s").key))

    assert ids(messages) == [f"m{number}" for number in range(40)]
    assert (records, len(listed)) == ((), 40)


def crowd(server, address, opened):
    """Take all connections of *server*, once those of the store were ended."""
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 't%'"
    )
    server.execute(ended)
    while server.log().count("too many clients") == 0:
        with suppress(psycopg.OperationalError):
            opened.enter_context(psycopg.connect(address))


async def test_a_full_server_is_waited_for():
    settings = {"max_connections": "8", "superuser_reserved_connections": "0"}
    with running_server(**settings) as server, ExitStack() as opened:
        address = server.address("postgres")
        async with PostgresStore(address, timeout=60.0) as store:
            await store.append("s", user("a"))
            crowd(server, address, opened)

            with pytest.raises(
                StoreError, match="accepts no more connections; raise its `max_conn"
            ):
                PostgresStore(address, timeout=0.2)
            refused = server.log().count("too many clients")
            waiting = asyncio.create_task(store.append("s", user("b")))
            while server.log().count("too many clients") < refused + 2:
                await asyncio.sleep(0.01)
            opened.close()
            await waiting

            assert ids(await store.read("s")) == ["a", "b"]


@pytest.mark.full
async def test_a_standby_is_no_place_to_write():
    with running_server(wal_level="replica", hot_standby="on") as server:
        async with PostgresStore(server.address("postgres")) as store:
            await store.append("s", user("a"))
            with server.standby() as standby:
                await store.append("s", user("b"))
                address = standby.address("postgres")
                with pytest.raises(
                    StoreError, match=r"is read-only .* give the address of the primary"
                ):
                    PostgresStore(address)
                async with PostgresStore(address, read_only=True) as reading:
                    assert await followed(reading, "s", 2) == ["a", "b"]


@pytest.mark.full
async def test_a_stopped_server_is_an_error():
    with running_server() as server:
        async with PostgresStore(server.address("postgres"), timeout=1.0) as store:
            await store.append("s", user("a"))
            await store.read("s")
            pids = server.pids()
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                results = await asyncio.gather(
                    store.append("s", user("b")), store.read("s"), return_exceptions=True
                )
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
            assert [type(result) for result in results] == [StoreError, StoreError]
            assert "nothing was written" in str(results[0])
            assert "written" not in str(results[1])

            await store.append("s", user("c"))
            assert ids(await store.read("s")) == ["a", "c"]


@pytest.mark.full
async def test_a_lock_has_a_bound(postgres, database):
    async with PostgresStore(database, timeout=0.3) as store:
        await store.append("s", user("a"))
        with psycopg.connect(database) as other:
            other.execute("SELECT * FROM toolbus.sessions FOR UPDATE")

            with pytest.raises(StoreError, match="the store is locked by another program"):
                await store.append("s", user("b"))
        await store.append("s", user("c"))

        assert ids(await store.read("s")) == ["a", "c"]


async def test_a_locked_session_stops_no_other(database):
    async with PostgresStore(database, timeout=60.0) as store:
        for name in ("locked", "other"):
            await store.append(name, user("a"))
        with psycopg.connect(database) as console:
            console.execute("SELECT * FROM toolbus.sessions WHERE id = 'locked' FOR UPDATE")
            console.execute("INSERT INTO toolbus.sessions (id) VALUES ('made')")
            console.execute("SELECT pg_advisory_xact_lock(1952609652, hashtext('made'))")
            waiting = [
                asyncio.create_task(store.append(name, user(text)))
                for text in ("b", "c")
                for name in ("locked", "made")
            ]
            # They come in one batch with those that wait, and behind them.
            await asyncio.gather(*[store.append("other", user(f"b{n}")) for n in range(20)])
            await store.append("new", user("a"))
            assert await store.forget_sessions(2**62) == ("other", "new")
            assert not [task for task in waiting if task.done()]
        await asyncio.gather(*waiting)

        assert ids(await store.read("locked")) == ["a", "b", "c"]
        assert ids(await store.read("made")) == ["b", "c"]


# --- machines that agree -------------------------------------------------------------------------


def counted_agent(database, ran, number):
    @tool
    async def fetch(n: int) -> str:
        ran.append(n)
        return "fetched"

    rules = [{"name": "few", "verdict": "deny", "tools": "fetch", "at_most": {"calls": 3}}]
    calls = (
        AssistantMessage(
            id=f"m{n}", tool_calls=[ToolCall(id=f"c{n}", name="fetch", arguments={"n": n})]
        )
        if n % 2
        else AssistantMessage(id=f"m{n}", content="done")
        for n in range(number * 100 + 1, 10**6)
    )
    policy = Policy(rule=rules, default="allow")
    store = PostgresStore(database)
    return Agent(
        ScriptedModel(calls), tools=[fetch], components=[policy], store=store, session_id="s"
    )


@pytest.mark.full
async def test_two_machines_share_a_budget(database):
    ran = []
    agents = [counted_agent(database, ran, number) for number in range(2)]

    for turn in range(6):
        await agents[turn % 2].run("go")
    for agent in agents:
        await agent.aclose()

    assert len(ran) == 3
    async with PostgresStore(database) as store:
        messages = await store.read("s")
    check_pairs(messages)
    answers = [message.text for message in messages if isinstance(message, ToolMessage)]
    assert [text == "fetched" for text in answers] == [True] * 3 + [False] * 3


@pytest.mark.full
async def test_two_machines_share_placeholders(database):
    secrets = [
        f"ghp_{letter * 4}Zk3vWq8Rt5Yb1Nc7Xd2Mf6Lh9Pj0Ga{letter}S"[:40] for letter in "ABCDEF"
    ]

    def agent_of(number):
        @tool
        async def give(n: int) -> str:
            return f"token {secrets[n]} PIN 7391"

        calls = iter(range(number, 6, 2))
        turns = (
            message
            for n in calls
            for message in (
                AssistantMessage(
                    id=f"a{n}", tool_calls=[ToolCall(id=f"c{n}", name="give", arguments={"n": n})]
                ),
                AssistantMessage(id=f"b{n}", content="done"),
            )
        )
        store = PostgresStore(database)
        return Agent(
            ScriptedModel(turns),
            tools=[give],
            components=[RedactSecrets(rules={"pin": r"(PIN \d{4})"})],
            store=store,
            session_id="s",
        )

    agents = [agent_of(0), agent_of(1)]
    for turn in range(6):
        await agents[turn % 2].run("go")
    for agent in agents:
        await agent.aclose()

    async with PostgresStore(database) as store:
        answers = [one.text for one in await store.read("s") if isinstance(one, ToolMessage)]
    pattern = re.compile(r"token \[github-pat-[a-z][a-z2-7]{15}\] \[pin-([a-z][a-z2-7]{15})\]")
    marks = [pattern.fullmatch(text) for text in answers]
    assert len({mark[0] for mark in marks}) == 6
    assert len({mark[1] for mark in marks}) == 1


@pytest.mark.full
def test_two_processes_compete_for_a_session(database):
    asyncio.run(PostgresStore(database).close())
    program = [sys.executable, str(PROGRAM), database, "10", "1"]
    source = str(Path(toolbus.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source}
    lines = subprocess.run(program, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    told = [line.split()[1] for line in lines.stdout.splitlines()]

    async def look():
        async with PostgresStore(database) as store:
            return await store.read("s0")

    messages = asyncio.run(look())
    assert len(told) == len({*told}) > 20
    assert {*told} <= {*ids(messages)}
    check_pairs(messages)
