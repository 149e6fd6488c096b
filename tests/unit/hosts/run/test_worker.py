"""A worker in this process, and clients in processes of their own."""

import asyncio
import fcntl
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.install.client_files import ClientSettings, client_files, write_files
from toolbus.hosts.run import worker as worker_module
from toolbus.hosts.run.hook_client import TAKEN, read_settings, socket_name
from toolbus.hosts.run.worker import HookWorker, WorkerLimits, WorkerLog, WorkerSocket

CHILD = f"""#!{sys.executable} -IS
import os, sys
with open({{record!r}}, "a") as record:
    print(sys.argv[6:], file=record)
if sys.argv[6] == "answer":
    header = os.read(0, int.from_bytes(os.read(0, 4), "big"))
    left = int(header.rpartition(b"\\0")[2])
    while left:
        left -= len(os.read(0, left))
    os.write(0, b"=" + bytes(4) + bytes([5]) + bytes(4) + b"local")
"""


class Place:
    """An installation in *folder*, and how to run a worker for it in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.record = folder, folder / "record"
        self.changed = None
        self.events = []
        python = folder / "python"
        python.write_text(CHILD.format(record=str(self.record)))
        python.chmod(0o755)
        (folder / "work").mkdir()
        self.sockets = folder / "sockets"
        self.sockets.mkdir(mode=0o700)
        settings = ClientSettings(
            python=str(python),
            search_path=(),
            version="1",
            variables={},
            sockets=str(self.sockets),
            store=str(folder / "hooks.db"),
        )
        self.script = write_files(
            folder / "hooks", client_files(settings, "a", {"Pre": HookAnswer(exit_code=2)})
        )
        self.digest = read_settings(str(folder / "hooks/settings"))[b"digest"][0]

    def name(self, folder=None):
        return socket_name(self.digest, os.fsencode(folder or self.folder / "work"))

    def bind(self, folder=None):
        name = self.name(folder)
        lock = os.open(self.sockets / os.fsdecode(name + b".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # What a client started in vain ends soon.
        return WorkerSocket(os.fsencode(self.sockets), name, lock)

    async def answer(self, request, data):
        self.events.append((request.name, data))
        return HookAnswer(stdout=b"warm " + data, stderr=b"!", exit_code=3)

    def worker(self, answer=None, digest=None, idle=600.0):
        return HookWorker(
            answer or self.answer,
            digest=digest or self.digest,
            changed=lambda: self.changed,
            limits=WorkerLimits(idle=idle, stuck=600.0, closing=600.0),
            log=WorkerLog(self.folder / "log"),
        )

    @asynccontextmanager
    async def running(self, *, socket=None, **options):
        task = asyncio.create_task(self.worker(**options).run(socket or self.bind()))
        await asyncio.sleep(0)
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def ask(self, data=b"{}"):
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-I", "-S", self.script, "a", "Pre"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder / "work",
        )
        stdout, stderr = await process.communicate(data)
        return process.returncode, stdout, stderr

    @property
    def started(self):
        return self.record.read_text().splitlines() if self.record.exists() else []

    @property
    def log(self):
        return (self.folder / "log").read_text()


LOCAL = (0, b"local", b"")
WARM = (3, b"warm {}", b"!")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


async def test_a_worker_answers_and_no_process_is_started(place):
    async with place.running():
        assert await place.ask() == WARM
        data = os.urandom(2**20)
        assert await place.ask(data) == (3, b"warm " + data, b"!")
    assert place.started == []


async def test_many_events_at_once_are_each_answered_once(place):
    barrier = asyncio.Barrier(20)

    async def together(request, data):
        await barrier.wait()
        return await place.answer(request, data)

    async with place.running(answer=together):
        answers = await asyncio.gather(*[place.ask(b"%d" % n) for n in range(20)])
    assert {stdout for _, stdout, _ in answers} == {b"warm %d" % n for n in range(20)}
    assert len(place.events) == 20
    assert place.started == []


async def test_what_has_changed_is_not_answered_by_what_was_loaded(place):
    async with place.running() as task:
        assert await place.ask() == WARM
        place.changed = "/a file"
        assert await place.ask() == LOCAL
        await task
    assert "'/a file' has changed" in place.log
    assert not any(path.is_socket() for path in place.sockets.iterdir())


async def test_after_an_end_there_is_room_for_the_next(place):
    async with place.running() as task:
        place.changed = "/a file"
        await place.ask()
        await task
    place.changed = None
    async with place.running():
        assert await place.ask() == WARM


async def test_what_was_taken_before_the_end_is_answered(place):
    taken, changed = asyncio.Event(), asyncio.Event()

    async def slowly(request, data):
        taken.set()
        await changed.wait()
        return await place.answer(request, data)

    async with place.running(answer=slowly) as task:
        first = asyncio.create_task(place.ask())
        await taken.wait()
        place.changed = "/a file"
        assert await place.ask() == LOCAL
        assert not task.done()
        changed.set()
        assert await first == WARM
        await task


async def test_another_digest_is_refused(place):
    async with place.running(digest=b"0" * 64):
        assert await place.ask() == LOCAL
    assert any("answer" in line for line in place.started)


async def test_more_bytes_than_fit_are_refused(place, monkeypatch):
    monkeypatch.setattr(worker_module, "MAX_BYTES", 10)
    async with place.running():
        assert await place.ask(bytes(11)) == LOCAL
        assert await place.ask(b"{}") == WARM


async def test_a_worker_that_fails_leaves_the_event_to_a_child(place):
    async def fail(request, data):
        raise ZeroDivisionError("a secret")

    async with place.running(answer=fail):
        assert await place.ask() == LOCAL
    assert "ZeroDivisionError" in place.log
    assert "secret" not in place.log


async def test_a_session_of_another_folder_is_sent_there(place):
    other = place.folder / "other"
    other.mkdir()

    async def moved(request, data):
        return other

    async with place.running(answer=moved):
        assert await place.ask() == LOCAL
        async with place.running(socket=place.bind(other)):
            assert await place.ask() == WARM
    assert any(f"'serve', '{other}'" in line for line in place.started)


async def test_a_worker_ends_when_nobody_asks(place):
    async with place.running(idle=0.05) as task:
        await task
    assert "ends: idle" in place.log


async def test_a_worker_that_is_not_found_any_more_ends(place, monkeypatch):
    monkeypatch.setattr(worker_module, "_CHECKS", 0.02)
    async with place.running() as task:
        (place.sockets / os.fsdecode(place.name())).unlink()
        await task
    assert "its socket is gone" in place.log


async def test_a_replaced_socket_is_not_removed_by_the_first(place, monkeypatch):
    monkeypatch.setattr(worker_module, "_CHECKS", 0.02)
    path = place.sockets / os.fsdecode(place.name())
    async with place.running() as task:
        path.unlink()
        path.write_text("of another")
        await task
    assert path.read_text() == "of another"


@pytest.mark.parametrize(
    "data", [b"", b"\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x04none", b"GET / HTTP/1.1\r\n\r\n"]
)
async def test_garbage_of_a_client_ends_nothing(place, data):
    async with place.running():
        # The worker's working folder is that of its socket, and so is ours.
        reader, writer = await asyncio.open_unix_connection(os.fsdecode(place.name()))
        writer.write(data)
        writer.write_eof()
        assert TAKEN not in await reader.read()
        writer.close()
        assert await place.ask() == WARM


async def test_a_foreign_peer_is_not_answered(place, monkeypatch):
    async with place.running():
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        monkeypatch.setattr("posix.geteuid", lambda: 12345)
        # The worker's working folder is that of its socket, and so is ours.
        reader, writer = await asyncio.open_unix_connection(os.fsdecode(place.name()))
        assert await reader.read() == b""
        writer.close()
    assert place.events == []


def test_a_lock_of_another_name_gives_no_socket(place):
    lock = os.open(place.sockets / "other.lock", os.O_RDWR | os.O_CREAT)
    (place.sockets / os.fsdecode(place.name() + b".lock")).touch()
    with pytest.raises(PermissionError, match="not the lock of"):
        WorkerSocket(os.fsencode(place.sockets), place.name(), lock)
    os.close(lock)


def test_a_socket_is_ours_alone_however_long_its_folders_name_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ("long" * 40)).mkdir()
    place = Place(tmp_path / ("long" * 40))
    found = place.bind()
    path = place.sockets / os.fsdecode(place.name())
    assert len(str(path)) > 108
    assert path.stat().st_mode & 0o777 == 0o600
    found.withdraw()
    found.listener.close()


def test_the_log_is_ours_alone_and_small(tmp_path):
    log = WorkerLog(tmp_path / "log")
    for _ in range(40):
        log.write("x" * 10_000)
    assert (tmp_path / "log").stat().st_size <= 2**18 + 11_000
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    os.close(log.handle)


def test_the_log_follows_no_link(tmp_path):
    (tmp_path / "log").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic"):
        WorkerLog(tmp_path / "log")
