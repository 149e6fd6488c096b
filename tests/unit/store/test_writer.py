"""What `specs/session_writer.md` should not mention: leases, processes, and broken stores."""

import asyncio
import os
import subprocess
import sys
import time

import pytest

from toolbus import AssistantMessage, Scope, ToolCall, ToolMessage, UserMessage
from toolbus.bus.ledger.records import DispatchRecord
from toolbus.errors import SessionBusyError, StoreError
from toolbus.store.check.session_check import check_file
from toolbus.store.leases import is_gone, this_process
from toolbus.store.memory import MemoryStore
from toolbus.store.protocol import AppendRequest, Position
from toolbus.store.sqlite import SqliteStore
from toolbus.store.writer import Writer


def user(name):
    return AppendRequest(message=UserMessage(id=name, content=name))


def at(epoch, length, name):
    return AppendRequest(message=UserMessage(id=name, content=name), at=Position(epoch, length))


async def nothing(length):
    pass


@pytest.fixture(params=["memory", "disk"])
def store(request, tmp_path):
    found = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    yield found
    asyncio.run(found.close())


async def test_of_appends_that_share_a_commit_only_the_wrong_one_is_refused(store):
    await store.open_session("s", "a", 0)
    jobs = [at(1, 0, "1"), at(1, 0, "twice"), at(1, 1, "2"), user("3")]

    results = await asyncio.gather(
        *[store.append("s", one) for one in jobs], return_exceptions=True
    )

    assert [type(one) for one in results] == [type(None), SessionBusyError, type(None), type(None)]
    assert [one.id for one in await store.read("s")] == ["1", "2", "3"]


async def test_a_lease_that_ended_stays_overdue_until_it_is_opened(monkeypatch):
    now, extended = [100.0], asyncio.Semaphore(0)
    monkeypatch.setattr(time, "time", lambda: now[0])

    class Noting(MemoryStore):
        async def extend_lease(self, session_id, holder, seconds):
            await super().extend_lease(session_id, holder, seconds)
            extended.release()

    writer = Writer(Noting(), "s", "a", lease=0.03)

    async def overdue_after_extensions():
        for _ in range(3):
            await extended.acquire()
        return writer.is_overdue

    seen = [writer.is_overdue]
    async with writer.hold(nothing):
        for pause in (0.0, 0.02, 0.02, 60.0):
            now[0] += pause
            seen.append(await overdue_after_extensions())
    async with writer.hold(nothing):
        seen.append(writer.is_overdue)

    assert seen == [True, False, False, False, True, False]


async def test_a_lease_is_extended_as_long_as_somebody_works():
    now, lease = [0], 0.03
    store = MemoryStore(clock=lambda: now[0])
    first, second = [Writer(store, "s", name, lease=lease) for name in "ab"]

    async with first.hold(nothing), asyncio.timeout(60):
        for _ in range(3):
            now[0] += 29_000_000
            while store._leases["s"].until_ns != now[0] + 30_000_000:
                await asyncio.sleep(0.001)
            with pytest.raises(SessionBusyError):
                await store.open_session("s", "b", 1)
    async with second.hold(nothing):
        pass


async def test_who_cannot_catch_up_gives_the_lease_back(store):
    async def fail(length):
        raise StoreError("disk", "it failed")

    with pytest.raises(StoreError, match="it failed"):
        async with Writer(store, "s", "a").hold(fail):
            pass

    async with Writer(store, "s", "b").hold(nothing):
        pass


async def test_a_store_that_breaks_off_by_itself_has_failed():
    class Broken(MemoryStore):
        async def append(self, session_id, stored):
            raise asyncio.CancelledError

    with pytest.raises(StoreError, match="the store cancelled its append"):
        await Writer(Broken(), "s", "a").append(user("1"), 0)


@pytest.mark.parametrize("written", [True, False])
async def test_a_write_that_was_cut_off_is_repeated_and_there_once(written):
    class Cut(MemoryStore):
        cut = 2

        async def append(self, session_id, stored):
            self.cut -= 1
            if self.cut >= 0 and not written:
                await asyncio.Event().wait()
            await super().append(session_id, stored)
            if self.cut >= 0:
                await asyncio.Event().wait()

    store = Cut()
    writer = Writer(store, "s", "a")
    async with writer.hold(nothing):
        write = asyncio.create_task(writer.append(user("1"), 0))
        for _ in range(2):
            await asyncio.sleep(0)
            write.cancel()
        await asyncio.wait({write})

    assert write.cancelled()
    assert [one.id for one in await store.read("s")] == ["1"]


def test_a_loop_that_was_closed_in_the_middle_leaves_the_session_to_its_agent():
    store = MemoryStore()
    loop, writer = asyncio.new_event_loop(), Writer(store, "s", "a")

    async def hold():
        async with writer.hold(nothing):
            await asyncio.Event().wait()

    left = loop.create_task(hold())
    loop.run_until_complete(asyncio.sleep(0))
    left._log_destroy_pending = False
    loop.close()

    async def again():
        async with writer.hold(nothing):
            with pytest.raises(SessionBusyError):
                await store.open_session("s", "b", 60)
            await writer.append(user("1"), 0)
        await store.open_session("s", "b", 60)

    asyncio.run(again())


def test_a_process_that_ended_is_gone_and_another_machine_s_is_not():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    machine, _, mine = this_process().rpartition(":")
    name = f"{machine}:{child.pid}"

    assert int(mine) == os.getpid()
    assert not is_gone(this_process())
    assert not is_gone(name)
    child.kill()
    # A dead process stays listed until its parent asks for it.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(name) or sys.platform != "linux"
    child.communicate()
    assert is_gone(name)
    assert not is_gone(f"elsewhere:{child.pid}")
    assert not is_gone("")
    assert not is_gone(f"{machine}:1")


async def test_a_message_that_goes_in_before_is_numbered_before(store):
    call = AssistantMessage(id="a", tool_calls=[ToolCall(id="c", name="read")])
    answer = ToolMessage(id="t", tool_call_id="c", tool_name="read", content="x")
    noted = DispatchRecord(
        event="e",
        scope=Scope(session_id="s"),
        subject="a",
        started_ns=1,
        duration_ns=1,
        outcome="unchanged",
        original="",
    )
    await store.append("s", user("1"))

    await store.append("s", AppendRequest(before=(call,), message=answer, records=(noted,)))
    await store.append("s", user("2"))

    assert [one.id for one in await store.read("s")] == ["1", "a", "t", "2"]
    assert await store.records("s") == (noted,)
    assert [one.messages for one in await store.sessions()] == [4]
    if isinstance(store, SqliteStore):
        await store.close()
        report = check_file(store._where, lambda done, pages: None)
        assert report.problems == ()
