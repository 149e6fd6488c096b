import asyncio
import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import pytest

import toolbus
from toolbus.bus.ledger.records import DispatchRecord
from toolbus.errors import ClosedError, StoreError
from toolbus.events.catalogue import Scope
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage, UserMessage, encode
from toolbus.store.protocol import AppendRequest, Original
from toolbus.store.rows import ENCODING
from toolbus.store.sqlite import SqliteStore, schema, sqlite_reader
from toolbus.store.sqlite.writes import Writes
from toolbus.store.worker import Worker


def user(name, text="hello"):
    return AppendRequest(message=UserMessage(id=name, content=text))


def record(subject="", call_id="", reason=None):
    return DispatchRecord(
        event="e",
        scope=Scope(),
        subject=subject,
        call_id=call_id,
        started_ns=1,
        duration_ns=2,
        outcome="unchanged",
        reason=reason,
        original="abc",
    )


async def ids(store, session_id="s"):
    return [message.id for message in await store.read(session_id)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@contextmanager
def raw(path):
    """Another program's connection."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@contextmanager
def write_lock(path):
    with raw(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


async def make(path, *names):
    async with SqliteStore(path) as store:
        for name in names:
            await store.append("s", user(name))


def copy_unclosed(path, target):
    """Copy a database whose connection is open: what a killed process leaves behind."""
    for end in ("", "-wal"):
        shutil.copyfile(f"{path}{end}", f"{target}{end}")


def contents(path):
    """Return all that could be lost: the file and the log or journal beside it, byte for byte."""
    files = [file for file in path.parent.glob(f"{path.name}*") if file.suffix != ".db-shm"]
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def refused(path, **options):
    """Return why *path* is refused, having seen that nothing was changed."""
    before = contents(path)
    with pytest.raises(StoreError) as caught:
        SqliteStore(path, **options)
    assert contents(path) == before
    assert caught.value.where == str(path)
    assert str(path) in str(caught.value)
    return caught.value.reason


def run_child(program, *arguments):
    source = str(Path(toolbus.__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# --- writing -------------------------------------------------------------------------------------


async def test_appends_that_wait_for_a_lock_share_one_commit(path):
    async with SqliteStore(path) as store:
        with write_lock(path):
            appends = [asyncio.create_task(store.append("s", user(f"m{at}"))) for at in range(64)]
            await asyncio.sleep(0)
        await asyncio.gather(*appends)

        # The first may have been taken alone before the others came.
        assert store.commits <= 2


async def test_an_append_that_returned_is_on_disk_before_close(path, tmp_path):
    async with SqliteStore(path) as store:
        await store.append("s", user("m1"))
        copy_unclosed(path, tmp_path / "copy.db")

    async with SqliteStore(tmp_path / "copy.db") as copy:
        assert await ids(copy) == ["m1"]


async def test_one_append_that_cannot_be_written_fails_alone(path):
    async with SqliteStore(path) as store:
        with write_lock(path):
            session_ids = ["s", "\ud800", "s"]
            appends = [store.append(name, user(f"m{at}")) for at, name in enumerate(session_ids)]
            waiting = asyncio.gather(*appends, return_exceptions=True)
            await asyncio.sleep(0)
        first, second, third = await waiting

        assert (first, third) == (None, None)
        assert isinstance(second, StoreError)
        assert "surrogates not allowed" in second.reason
        assert await ids(store) == ["m0", "m2"]


async def test_a_message_is_not_written_without_its_records(path):
    broken = AppendRequest(
        message=UserMessage(id="m1", content=""), records=(record(reason="\ud800"),)
    )

    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="surrogates not allowed"):
            await store.append("s", broken)
        await store.append("s", user("m2"))

        assert await ids(store) == ["m2"]
        assert await store.records("s") == ()


class Failing:
    """Fails when it is asked to execute *statement*, and then passes on everything."""

    def __init__(self, store, statement):
        self.statement, self.execute = statement, store._writes._execute
        store._writes._execute = self

    def __call__(self, statement, *arguments):
        if statement == self.statement:
            self.statement = None
            raise sqlite3.OperationalError("the disk said no")
        return self.execute(statement, *arguments)


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "COMMIT", "RELEASE append"])
async def test_a_failed_transaction_fails_everyone_in_it(path, statement):
    async with SqliteStore(path) as store:
        Failing(store, statement)
        waiting = [store.append("s", user(f"m{at}")) for at in range(9)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        failed = [result for result in results if isinstance(result, StoreError)]
        await store.append("s", user("next"))

        assert failed
        assert len(set(map(id, failed))) == len(failed)
        assert {error.reason for error in failed} == {"the disk said no"}
        assert len(await ids(store)) == 9 - len(failed) + 1


async def test_a_transaction_that_sqlite_gave_up_fails_everyone_in_it(path):
    async with SqliteStore(path) as store:
        with raw(path) as other:
            other.execute(
                "CREATE TRIGGER no BEFORE INSERT ON messages WHEN new.id = 'm1'"
                " BEGIN SELECT RAISE(ROLLBACK, 'gone'); END"
            )
        with write_lock(path):
            waiting = asyncio.gather(
                *[store.append("s", user(f"m{at}")) for at in range(3)], return_exceptions=True
            )
            await asyncio.sleep(0)
        results = await waiting
        await store.append("s", user("next"))

        assert isinstance(results[1], StoreError)
        stored = [f"m{at}" for at, result in enumerate(results) if result is None]
        assert await ids(store) == [*stored, "next"]


async def test_an_append_that_finds_the_file_locked_says_so(path):
    async with SqliteStore(path, timeout=0.01) as store:
        with write_lock(path), pytest.raises(StoreError, match="locked by another program"):
            await store.append("s", user("m1"))
        await store.append("s", user("m2"))

        assert await ids(store) == ["m2"]


async def test_reading_does_not_wait_for_a_lock(path):
    async with SqliteStore(path) as store:
        await store.append("s", user("m1"))
        with write_lock(path):
            assert await ids(store) == ["m1"]


async def test_nothing_blocks_the_loop(path):
    async with SqliteStore(path) as store:
        with write_lock(path):
            append = asyncio.create_task(store.append("s", user("m1")))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not append.done()
        await append


# --- cancellation, loops, threads, the end -------------------------------------------------------


async def test_a_cancelled_append_is_written_and_the_next_one_works(path):
    async with SqliteStore(path) as store:
        with write_lock(path):
            append = asyncio.create_task(store.append("s", user("m1")))
            await asyncio.sleep(0)
            append.cancel()
            with pytest.raises(asyncio.CancelledError):
                await append
        await store.append("s", user("m2"))

        assert await ids(store) == ["m1", "m2"]


def test_an_append_outlives_its_loop(path, caplog):
    store = SqliteStore(path)

    async def leave():
        append = asyncio.create_task(store.append("s", user("m1")))
        await asyncio.sleep(0)
        assert not append.done()

    async def look():
        await store.append("s", user("m2"))
        assert await ids(store) == ["m1", "m2"]
        await store.close()

    with write_lock(path):
        asyncio.run(leave())
    asyncio.run(look())
    assert not caplog.records


def run_threads(works):
    failures = []

    def run(work):
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told to the test below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


async def test_two_stores_share_a_file(path):
    async with SqliteStore(path) as one, SqliteStore(path) as two:
        for at in range(10):
            await one.append("s", user(f"a{at}"))
            await two.append("s", user(f"b{at}"))
        await asyncio.gather(
            *[store.append("t", user(f"m{at}")) for at in range(50) for store in (one, two)]
        )

        expected = [f"{name}{at}" for at in range(10) for name in "ab"]
        assert await ids(one) == await ids(two) == expected
        assert sorted(await ids(one, "t")) == sorted([f"m{at}" for at in range(50)] * 2)
        assert await one.sessions() == await two.sessions()


def test_a_new_file_may_be_opened_by_many_at_once(path):
    start = threading.Barrier(8)

    async def work(at):
        start.wait()
        async with SqliteStore(path) as store:
            await store.append("s", user(f"m{at}"))

    run_threads([lambda at=at: asyncio.run(work(at)) for at in range(8)])

    async def look():
        async with SqliteStore(path) as store:
            assert sorted(await ids(store)) == [f"m{at}" for at in range(8)]

    asyncio.run(look())


@pytest.mark.parametrize(("attempts", "timeout"), [(1, -1), (3, 60)])
def test_a_log_that_two_start_at_once_is_started_again(path, attempts, timeout):
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    failures = [busy] * 2

    def execute(statement):
        if failures and "journal_mode" in statement:
            raise failures.pop()
        return connection.execute(statement)

    with raw(path) as connection:
        writes = Writes(str(path), connection)
        writes._execute = execute
        with nullcontext() if timeout > 0 else pytest.raises(sqlite3.OperationalError):
            writes.prepare(timeout)

    assert len(failures) == 2 - min(attempts, 2)


async def test_closing_waits_for_appends_and_leaves_one_file(path):
    store = SqliteStore(path)
    append = asyncio.create_task(store.append("s", user("m1")))
    await asyncio.sleep(0)

    await asyncio.gather(store.close(), store.close())

    assert append.done()
    assert [file.name for file in path.parent.iterdir()] == ["store.db"]
    with pytest.raises(ClosedError, match=r"store '.*store\.db' is closed"):
        await store.append("s", user("m2"))


async def test_a_cancelled_close_can_be_repeated(path):
    store = SqliteStore(path)
    with write_lock(path):
        append = asyncio.create_task(store.append("s", user("m1")))
        await asyncio.sleep(0)
        close = asyncio.create_task(store.close())
        while not store._writer._closed:
            await asyncio.sleep(0)
        close.cancel()
        with pytest.raises(asyncio.CancelledError):
            await close
    await store.close()

    assert append.done()


async def test_a_forgotten_store_lets_go(path):
    store = SqliteStore(path)
    await store.append("s", user("m1"))
    threads = [store._writer._thread, store._reader._thread]

    del store
    gc.collect()

    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert [file.name for file in path.parent.iterdir()] == ["store.db"]


FORGETFUL = """
import asyncio, sys
from toolbus.messages.records import UserMessage
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
asyncio.run(store.append("s", AppendRequest(message=UserMessage(id="m1", content=""))))
print("done")
"""


async def test_an_open_store_does_not_keep_the_process_alive(path):
    child = run_child(FORGETFUL, path)

    assert (child.returncode, child.stdout, child.stderr) == (0, "done\n", "")
    async with SqliteStore(path) as store:
        assert await ids(store) == ["m1"]


FORKING = """
import asyncio, os, sys, warnings
from toolbus.errors import ClosedError
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

warnings.simplefilter("ignore")
store = SqliteStore(sys.argv[1])
if child := os.fork():
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    asyncio.run(store.append("s", AppendRequest()))
except ClosedError:
    asyncio.run(store.close())
    os._exit(7)
"""


def test_a_forked_child_is_told_instead_of_waiting(path):
    assert run_child(FORKING, path).returncode == 7


async def test_the_worker_outlives_a_failure_of_what_it_serves():
    def serve(jobs):
        if jobs == ["bad"]:
            raise ValueError("bad")
        return jobs

    worker = Worker("test", serve, lambda: None)

    with pytest.raises(ValueError, match="bad"):
        await worker.submit("bad")
    assert await worker.submit("good") == "good"
    await worker.close()


# --- what cannot be opened -----------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "data",
    [b"hello, I am a diary\n", b"x" * 50_000, b"SQLite format 3\0" + b"\xff" * 9000, b"SQLite"],
    ids=["short", "long", "header", "cut"],
)
def test_a_file_that_is_no_database_is_refused(path, data, read_only):
    path.write_bytes(data)

    assert refused(path, read_only=read_only).startswith("not an SQLite database, or damaged")


async def test_a_store_cut_to_its_header_is_refused(path):
    await make(path, "m1")
    path.write_bytes(path.read_bytes()[:100])

    assert "damaged" in refused(path)


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("closed", [True, False])
def test_another_applications_database_is_refused(path, tmp_path, mode, closed):
    source = tmp_path / "elsewhere" / "source.db"
    source.parent.mkdir()
    with raw(source) as other:
        other.execute(f"PRAGMA journal_mode = {mode}")
        other.execute("CREATE TABLE diary (line)")
        if mode == "wal" and not closed:
            copy_unclosed(source, path)
    if not path.exists():
        shutil.copyfile(source, path)

    assert refused(path) == "the database is of another application; give another path"


def test_a_database_marked_by_another_application_is_refused(path):
    with raw(path) as other:
        other.execute("PRAGMA application_id = 7")

    assert "another application" in refused(path)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("closed", [True, False])
async def test_a_newer_version_is_refused(path, tmp_path, read_only, closed):
    source = tmp_path / "elsewhere" / "source.db"
    source.parent.mkdir()
    await make(source, "m1")
    with raw(source) as newer:
        newer.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        if not closed:
            copy_unclosed(source, path)
    if closed:
        shutil.copyfile(source, path)

    reason = refused(path, read_only=read_only)
    version = schema.VERSION
    assert reason == f"version {version + 1} is newer than {version}; update toolbus"


def test_an_unfinished_write_of_another_program_is_left_alone(path, tmp_path):
    source = tmp_path / "elsewhere" / "source.db"
    source.parent.mkdir()
    with raw(source) as other:
        other.execute("PRAGMA cache_size = 1")
        other.execute("CREATE TABLE diary (line)")
        other.execute("INSERT INTO diary VALUES ('dear diary')")
        other.execute("BEGIN IMMEDIATE")
        other.execute(
            "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 999)"
            " INSERT INTO diary SELECT printf('%999d', i) FROM n"
        )
        for end in ("", "-journal"):
            shutil.copyfile(f"{source}{end}", f"{path}{end}")

    assert "another program left a write unfinished" in refused(path)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_directory_is_refused(tmp_path, read_only):
    with pytest.raises(StoreError, match="got a directory; give the path of a file in it"):
        SqliteStore(tmp_path, read_only=read_only)


def test_a_missing_folder_is_refused_and_not_made(tmp_path):
    with pytest.raises(StoreError, match=r"there is no folder '.*/no'; make it first"):
        SqliteStore(tmp_path / "no" / "store.db")
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match=r"Not a directory.*; give another"):
        SqliteStore(tmp_path / "file" / "store.db")


def test_a_pipe_is_refused_at_once(path):
    os.mkfifo(path)

    with pytest.raises(StoreError, match="not a regular file"):
        SqliteStore(path)


def test_a_path_that_cannot_be_one_is_refused():
    with pytest.raises(StoreError, match="null"):
        SqliteStore("a\0b")


def test_memory_is_refused_with_the_way_out():
    with pytest.raises(StoreError, match=r"use `MemoryStore\(\)`"):
        SqliteStore(":memory:")


async def test_a_file_locked_for_everyone_is_refused(path):
    await make(path, "m1")
    with raw(path) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")

        assert "locked by another program" in refused(path, timeout=0.01)


async def test_a_file_locked_for_writers_is_refused_and_can_be_read(path):
    await make(path, "m1")
    with write_lock(path):
        with pytest.raises(StoreError, match="locked by another program"):
            SqliteStore(path, timeout=0.01)
        async with SqliteStore(path, read_only=True) as store:
            assert await ids(store) == ["m1"]


@contextmanager
def unprivileged():
    """Be somebody whom permissions stop, also where the tests run as root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public_path(monkeypatch):
    # A reader's own copy is made here, too, and not where only root may write.
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder) / "store.db"
        Path(folder).chmod(0o777)


async def test_a_read_only_file_is_refused_and_can_be_read(public_path):
    await make(public_path, "m1")
    public_path.chmod(0o444)

    with unprivileged():
        reason = refused(public_path)
        async with SqliteStore(public_path, read_only=True) as store:
            assert await ids(store) == ["m1"]

    assert reason == "the file is read-only; make it writable"


async def test_a_read_only_folder_is_refused_and_can_be_read(public_path):
    await make(public_path, "m1")
    public_path.chmod(0o666)
    public_path.parent.chmod(0o555)
    before = contents(public_path)

    with unprivileged():
        assert "make its folder writable" in refused(public_path)
        async with SqliteStore(public_path, read_only=True) as store:
            assert await ids(store) == ["m1"]

    assert contents(public_path) == before


@pytest.mark.parametrize("shared", [False, True])
async def test_a_log_in_a_read_only_folder_is_read(public_path, tmp_path, shared):
    async with SqliteStore(tmp_path / "source.db") as store:
        await store.append("s", user("m1"))
        copy_unclosed(tmp_path / "source.db", public_path)
        if shared:
            shutil.copyfile(tmp_path / "source.db-shm", f"{public_path}-shm")
    public_path.parent.chmod(0o555)
    before = contents(public_path)

    with unprivileged():
        async with SqliteStore(public_path, read_only=True) as store:
            assert await ids(store) == ["m1"]

    assert contents(public_path) == before


async def test_a_file_that_changes_under_a_reader_without_locks_is_told(public_path):
    await make(public_path, "m1")
    public_path.chmod(0o644)
    public_path.parent.chmod(0o555)
    with unprivileged():
        reader = SqliteStore(public_path, read_only=True)
    public_path.parent.chmod(0o777)

    await make(public_path, "m2")

    with pytest.raises(StoreError, match="another program wrote to it while it was read"):
        await reader.read("s")
    await reader.close()


async def test_an_unreadable_file_is_refused(public_path):
    await make(public_path, "m1")
    public_path.chmod(0)

    with unprivileged(), pytest.raises(StoreError, match="the file is not readable"):
        SqliteStore(public_path)


async def test_an_unreadable_journal_is_refused(public_path):
    await make(public_path, "m1")
    public_path.chmod(0o666)
    journal = Path(f"{public_path}-journal")
    journal.write_bytes(b"x" * 512)
    journal.chmod(0)

    with unprivileged(), pytest.raises(StoreError, match="Permission denied"):
        SqliteStore(public_path)


def test_a_file_system_without_a_log_is_refused(path, monkeypatch):
    def connect(file, timeout, mode):
        return sqlite3.connect(":memory:", isolation_level=None)

    monkeypatch.setattr("toolbus.store.sqlite.sqlite_store.connect", connect)

    with pytest.raises(StoreError, match="use a local disk"):
        SqliteStore(path)


# --- what can be opened --------------------------------------------------------------------------


async def test_an_empty_file_becomes_a_store(path):
    path.write_bytes(b"")

    await make(path, "m1")

    async with SqliteStore(path) as store:
        assert await ids(store) == ["m1"]


async def test_a_database_without_anything_becomes_a_store(path):
    with raw(path) as other:
        other.execute("PRAGMA journal_mode = WAL")

    await make(path, "m1")

    assert path.read_bytes()[68:72] == b"tbus"


async def test_the_journal_of_an_empty_file_is_no_obstacle(path):
    path.write_bytes(b"\1" * 4096)
    magic = bytes.fromhex("d9d505f920a163d7")
    numbers = [0, 0, 0, 512, 4096]
    header = magic + b"".join([number.to_bytes(4, "big") for number in numbers])
    Path(f"{path}-journal").write_bytes(header.ljust(512, b"\0"))

    await make(path, "m1")

    async with SqliteStore(path) as store:
        assert await ids(store) == ["m1"]


async def test_a_name_may_hold_any_character(tmp_path):
    path = tmp_path / "100% a?b#c&mode=memory ü 'q'.db"

    await make(path, "m1")

    assert [file.name for file in tmp_path.iterdir()] == [path.name]


async def test_a_link_leads_to_the_file(path, tmp_path):
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.db"
    link.symlink_to(path)

    await make(link, "m1")

    assert [file.name for file in link.parent.iterdir()] == ["link.db"]
    async with SqliteStore(path) as store:
        assert await ids(store) == ["m1"]


async def test_a_store_for_reading_reads_and_refuses_to_write(path):
    await make(path, "m1")
    async with SqliteStore(path) as writer, SqliteStore(path, read_only=True) as reader:
        await writer.append("s", user("m2"))

        assert await ids(reader) == ["m1", "m2"]
        with pytest.raises(StoreError, match="leave out `read_only=True`"):
            await reader.append("s", user("m3"))
        assert reader.commits == 0


async def test_a_store_for_reading_changes_no_byte(path):
    await make(path, "m1")
    before = path.read_bytes()

    async with SqliteStore(path, read_only=True) as store:
        assert await ids(store) == ["m1"]

    assert path.read_bytes() == before


def test_a_store_for_reading_is_not_made(path):
    assert not path.exists()
    with pytest.raises(StoreError, match="there is no such file"):
        SqliteStore(path, read_only=True)
    path.write_bytes(b"")
    assert refused(path, read_only=True) == "the file is empty; give the path of a store"


# --- damage that is found later ------------------------------------------------------------------


async def test_a_damaged_page_is_named_when_it_is_read(path):
    await make(path, *[f"m{at}" for at in range(100)])
    with raw(path) as other:
        found = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'")
        (page,) = found.fetchone()
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xa5" * 4096
    path.write_bytes(data)

    async with SqliteStore(path) as store:
        assert len(await store.sessions()) == 1
        for use in (store.read("s"), store.append("s", user("next"))):
            with pytest.raises(StoreError, match="is damaged; restore it from a copy"):
                await use


async def test_a_missing_table_is_named(path):
    await make(path, "m1")
    with raw(path) as other:
        other.execute("DROP TABLE ledger")

    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="no such table: ledger"):
            await store.records("s")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("'{'", "input data was truncated"),
        ("""'{"role": "user", "id": 7}'""", r"expected `str`, got `int` - at `\$.id`"),
        ("CAST(x'7bff7d' AS TEXT)", ""),
        ("7", ""),
    ],
)
async def test_a_damaged_message_is_named(path, body, reason):
    await make(path, "m1", "m2", "m3")
    with raw(path) as other:
        other.execute(f"UPDATE messages SET body = {body} WHERE seq = 2")

    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match=f"message 2 of session 's' is damaged: .*{reason}"):
            await store.read("s")


async def test_a_damaged_record_is_named(path):
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(records=(record(), record())))
        await store.append("s", AppendRequest(records=(record(),)))
        with raw(path) as other:
            other.execute("UPDATE ledger SET body = '{}' WHERE seq = 3")

        with pytest.raises(StoreError, match="record 3 of session 's' is damaged: expected"):
            await store.records("s")


@pytest.mark.parametrize("version", ["2", "'x'"])
async def test_a_row_of_another_version_is_named(path, version):
    await make(path, "m1")
    with raw(path) as other:
        other.execute(f"UPDATE messages SET version = {version}")

    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match=f"message 1 of session 's' has version {version}, ex"):
            await store.read("s")


# --- a full disk ---------------------------------------------------------------------------------


async def test_a_full_file_stores_nothing_until_there_is_room(path):
    async with SqliteStore(path) as store:
        await store.append("s", user("m1"))
        (pages,) = store._writes._execute("PRAGMA page_count").fetchone()
        store._writes._execute(f"PRAGMA max_page_count = {pages + 2}")

        with pytest.raises(StoreError, match="is full"):
            await store.append("s", user("big", "x" * 100_000))
        await store.append("s", user("small"))
        assert await ids(store) == ["m1", "small"]

        store._writes._execute("PRAGMA max_page_count = 1000000")
        await store.append("s", user("big", "x" * 100_000))
        assert await ids(store) == ["m1", "small", "big"]


async def test_what_is_too_big_for_sqlite_is_refused_by_name(path):
    async with SqliteStore(path) as store:
        store._writes._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)

        with pytest.raises(StoreError, match="too big for SQLite; shorten it"):
            await store.append("s", user("big", "x" * 10_000))
        await store.append("s", user("small"))

        assert await ids(store) == ["small"]


LIMITED = """
import asyncio, resource, signal, sys
from toolbus.errors import StoreError
from toolbus.messages.records import UserMessage
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

def message(at):
    return AppendRequest(message=UserMessage(id=f"m{at}", content="x" * 5000))

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    async with SqliteStore(sys.argv[1]) as store:
        limit(200_000)
        stored = []
        results = []
        for at in range(100):
            try:
                await store.append("s", message(at))
            except StoreError as error:
                assert "is full" in str(error), error
                assert [m.id for m in await store.read("s")] == stored
                results.append("full")
            else:
                stored.append(f"m{at}")
                results.append("ok")
        assert results[0] == "ok" and results[-1] == "full", results
        full = await asyncio.gather(
            *[store.append("s", message(f"g{at}")) for at in range(40)], return_exceptions=True
        )
        assert all(isinstance(result, StoreError) for result in full), full
        limit(resource.RLIM_INFINITY)
        await store.append("s", message("last"))
        assert [m.id for m in await store.read("s")] == [*stored, "mlast"]
        print(len(stored) + 1)

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
asyncio.run(main())
"""


async def test_a_limited_file_stores_nothing_until_there_is_room(path):
    child = run_child(LIMITED, path)

    assert (child.returncode, child.stderr) == (0, "")
    async with SqliteStore(path) as store:
        found = await ids(store)
        assert len(found) == int(child.stdout)
        assert found[-1] == "mlast"


CARRIED = """
import asyncio, os, resource, signal, sys
from toolbus.errors import StoreError
from toolbus.messages.records import UserMessage
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

path, how = sys.argv[1:]
ballast = os.path.join(os.path.dirname(path), "ballast")

def fill():
    if how == "limit":
        # The log reaches this size before it is first carried into the file, which then may not.
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000_000, resource.RLIM_INFINITY))
    else:
        with open(ballast, "wb") as file:
            file.truncate(0)
            os.posix_fallocate(file.fileno(), 0, 10_000_000)

def make_room():
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        os.unlink(ballast)

async def main():
    stored = []
    async def append(store, at):
        message = UserMessage(id=f"m{at}", content="x" * 3000)
        await store.append("s", AppendRequest(message=message))
        stored.append(message.id)

    async with SqliteStore(path) as store:
        fill()
        failures = []
        for start in range(0, 6000, 50):
            waiting = [append(store, at) for at in range(start, start + 50)]
            for result in await asyncio.gather(*waiting, return_exceptions=True):
                if result is not None:
                    assert isinstance(result, StoreError) and "is full" in str(result), result
                    failures.append(result)
            assert [m.id for m in await store.read("s")] == stored
            if failures:
                break
        assert failures and len(stored) > 500, len(stored)
        make_room()
        await append(store, "last")
        assert [m.id for m in await store.read("s")] == stored
    async with SqliteStore(path) as store:
        assert [m.id for m in await store.read("s")] == stored

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
asyncio.run(main())
print("done")
"""

# A small disk of its own takes a privilege, which not every machine gives.
DISKS = {"limit": ""}
if sys.platform == "linux" and not os.geteuid():
    mount = "mkdir {0}/disk && mount -t tmpfs -o size=20m none {0}/disk"
    DISKS["disk"] = mount
    with tempfile.TemporaryDirectory() as probe:
        probed = ["unshare", "-m", "sh", "-c", mount.format(probe)]
        if subprocess.run(probed, capture_output=True, check=False).returncode:
            del DISKS["disk"]


@pytest.mark.parametrize("how", DISKS)
def test_a_log_that_cannot_be_carried_into_the_file_loses_nothing(tmp_path, how):
    words = [sys.executable, "-W", "error", "-c", CARRIED, f"{tmp_path}/store.db", how]
    if how == "disk":
        script = f'{DISKS[how].format(tmp_path)} && exec "$@"'
        words[-2] = f"{tmp_path}/disk/store.db"
        words = ["unshare", "-m", "sh", "-c", script, "sh", *words]

    environment = os.environ | {"PYTHONPATH": str(Path(toolbus.__file__).parents[2])}
    child = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

    assert (child.returncode, child.stdout, child.stderr) == (0, "done\n", "")


# --- the tables ----------------------------------------------------------------------------------


async def test_a_file_says_what_it_is(path):
    await make(path, "m1")

    with raw(path) as other:
        assert other.execute("PRAGMA application_id").fetchone() == (schema.APPLICATION_ID,)
        assert other.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_the_writer_waits_for_the_disk(path):
    async with SqliteStore(path) as store:
        assert store._writes._execute("PRAGMA synchronous").fetchone() == (2,)


async def test_a_message_is_stored_as_its_json(path):
    message = UserMessage(id="m1", content="\0 ü \U0001f600", metadata={"a": [1, None]})
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(message=message))

    with raw(path) as other:
        (found,) = other.execute("SELECT seq, id, version, body FROM messages").fetchall()
    assert found == (1, "m1", ENCODING, encode(message).decode())


async def test_a_call_leads_to_the_messages_that_speak_of_it(path):
    calls = (ToolCall(id="c1", name="t"), ToolCall(id="c1", name="t"), ToolCall(id="c2", name="t"))
    async with SqliteStore(path) as store:
        for message in (
            AssistantMessage(id="m1", tool_calls=calls),
            ToolMessage(id="m2", tool_call_id="c2", tool_name="t"),
            ToolMessage(id="m3", tool_call_id="c1", tool_name="t"),
        ):
            await store.append("s", AppendRequest(message=message, records=(record("m2", "c1"),)))
        await store.append("s", AppendRequest(records=(record("m9"), record("m9", "c9"))))

    with raw(path) as other:
        found = other.execute(
            "SELECT messages.id FROM calls JOIN messages ON key = message WHERE calls.id = 'c1'"
        )
        assert found.fetchall() == [("m1",), ("m3",)]
        mentions = other.execute("SELECT id, page FROM mentions").fetchall()
    # Of what a message is or asks for or answers, its own page needs no mention.
    assert mentions == [("c1", 2), ("c9", -1), ("m2", 1), ("m2", 3), ("m9", -1)]


@pytest.mark.parametrize(
    "query",
    [
        sqlite_reader.STATEMENTS.session,
        schema.SESSION,
        "SELECT body FROM messages WHERE id = ?",
        "SELECT body FROM calls JOIN messages ON key = message WHERE calls.id = ?",
        "SELECT body FROM mentions JOIN ledger ON key = page WHERE id = ?",
    ],
)
async def test_nothing_is_found_by_a_scan(path, query):
    await make(path, "m1")

    with raw(path) as other:
        plan = [row[3] for row in other.execute(f"EXPLAIN QUERY PLAN {query}", ("x",))]
    assert any(line.startswith("SEARCH") for line in plan)
    assert not [line for line in plan if line.startswith(("SCAN", "USE TEMP"))]


# --- what a session may opt in to keep -----------------------------------------------------------


def kept(*digests):
    return tuple([Original(digest=one, body=f'"value of {one}"'.encode()) for one in digests])


async def test_what_a_reader_still_sees_is_not_called_gone(path):
    async with SqliteStore(path, timeout=0.01) as store:
        await store.append("s", AppendRequest(originals=kept("a")))
        with raw(path) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM originals").fetchone()

            forgetting = [store.forget_originals("s"), store.append("s", user("m1"))]
            told, appended = await asyncio.gather(*forgetting, return_exceptions=True)

        assert isinstance(told, StoreError)
        assert "a log that another reader needs still contains them" in told.reason
        assert appended is None
        assert await store.forget_originals("s") == 0
        assert b"value of" not in Path(f"{path}-wal").read_bytes()


# --- files of earlier versions -------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
async def test_a_file_from_before_the_first_release_is_refused(path, version):
    await make(path, "m1")
    with raw(path) as old:
        old.execute(f"PRAGMA user_version = {version}")
    before = contents(path)

    for read_only in (True, False):
        with pytest.raises(StoreError, match=f"version {version} is not of any release; see"):
            SqliteStore(path, read_only=read_only)
    assert contents(path) == before


async def test_an_older_file_gets_what_it_lacks(path):
    await make(path, "m1")
    with raw(path) as old:
        layout = old.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        old.executescript("DROP TABLE states; DROP TABLE writers; PRAGMA user_version = 3")

    async with SqliteStore(path) as store:
        assert await ids(store) == ["m1"]
        assert await store.swap_state("s", "count", None, b"1")

    with raw(path) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        names = "SELECT name, sql FROM sqlite_master ORDER BY name"
        assert other.execute(names).fetchall() == layout
