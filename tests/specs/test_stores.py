"""The scenarios of `specs/stores.md`."""

import asyncio
import inspect
import json

import pytest
from msgspec.structs import replace

from store_laws import StoreLaws, StoreSubject
from toolbus import UserMessage
from toolbus.store import AppendRequest, Position, SqliteStore
from toolbus.store.memory import MemoryStore
from toolbus.testing import LawBroken, check_store

PACKAGE = """
import asyncio
from toolbus.store import MemoryStore

class AcmeStore(MemoryStore):
    pass
"""
TESTS = """
from acme_store import AcmeStore
from toolbus.testing import check_store

def test_it_keeps_the_laws():
    check_store(lambda name: AcmeStore())
"""
LAWS = [name for name, _ in inspect.getmembers(StoreLaws) if name.startswith("test_")]


def broken_laws(make):
    """Return the names of the laws that stores that *make* makes break, and the report."""
    try:
        check_store(lambda _: make())
    except LawBroken as error:
        return error.law.split(", "), str(error)
    return [], ""


@pytest.mark.full
def test_a_store_of_another_package_passes(pytester):
    pytester.makepyfile(acme_store=PACKAGE, test_acme=TESTS)

    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-p", "no:xdist")

    assert result.parseoutcomes() == {"passed": 1}


def test_a_durable_store_is_reopened():
    class Boasting(MemoryStore):
        durable = True

    names, report = broken_laws(Boasting)

    assert names == ["durability"]
    assert "a reopened store" not in report
    assert "appends begun before `close`: expected ['m0', 'm1'" in report


def test_lost_order_is_caught():
    class Unordered(MemoryStore):
        async def read(self, session_id):
            messages = await super().read(session_id)
            return (*messages[:-2], *reversed(messages[-2:]))

    names, report = broken_laws(Unordered)

    assert {"round-trip", "order"} <= {*names}
    assert "the messages of appends, every second one cancelled: expected ['q0', 'a0'" in report


def test_a_missing_fence_is_caught():
    class Unfenced(MemoryStore):
        async def append(self, session_id, stored):
            await super().append(session_id, replace(stored, at=None))

    class ByLength(MemoryStore):
        async def append(self, session_id, stored):
            at = stored.at
            if at is not None:
                with self._lock:
                    at = Position(self._lease(session_id).epoch, at.length)
            await super().append(session_id, replace(stored, at=at))

    assert broken_laws(Unfenced)[0] == ["fence"]
    assert broken_laws(ByLength)[0] == ["fence"]


def test_a_missing_lease_is_caught():
    class Open(MemoryStore):
        async def open_session(self, session_id, holder, seconds):
            return await super().open_session(session_id, holder, 0)

    assert broken_laws(Open)[0] == ["leases", "forgetting"]


def test_a_lost_update_is_caught():
    class Hasty(MemoryStore):
        async def swap_state(self, session_id, name, old, new, **options):
            if await self.read_state(session_id, name) != old:
                return False
            await asyncio.sleep(0)
            now = await self.read_state(session_id, name)
            return await super().swap_state(session_id, name, now, new, **options)

    names, report = broken_laws(Hasty)

    assert names == ["states"]
    assert "a number that 20 tasks count up: expected b'20'" in report


def test_a_reencoded_state_is_caught():
    class Tidy(MemoryStore):
        async def swap_state(self, session_id, name, old, new, **options):
            tidied = [body and json.dumps(json.loads(body)).encode() for body in (old, new)]
            return await super().swap_state(session_id, name, *tidied, **options)

    assert broken_laws(Tidy)[0] == ["states"]


def test_half_an_append_is_caught():
    class Torn(MemoryStore):
        async def append(self, session_id, stored):
            await super().append(session_id, AppendRequest(records=stored.records))
            await super().append(session_id, replace(stored, records=()))

    assert "fence" in broken_laws(Torn)[0]


def test_cut_texts_are_caught():
    class Cutting(MemoryStore):
        async def append(self, session_id, stored):
            message = stored.message
            if isinstance(message, UserMessage):
                message = replace(message, id=message.id.partition("\0")[0])
            await super().append(session_id.partition("\0")[0], replace(stored, message=message))

    assert broken_laws(Cutting)[0] == ["texts"]


def test_forgetting_too_much_is_caught():
    class Thorough(MemoryStore):
        async def forget_originals(self, session_id):
            counts = [await super(Thorough, self).forget_originals(s) for s in [*self._sessions]]
            return sum(counts)

    class Impatient(MemoryStore):
        async def forget_sessions(self, before_ns, limit=100):
            self._leases.clear()
            return await super().forget_sessions(before_ns, limit)

    assert broken_laws(Thorough)[0] == ["forgetting"]
    assert broken_laws(Impatient)[0] == ["forgetting"]


def test_a_wrong_start_of_reading_is_caught():
    class Loading(MemoryStore):
        def reader(self):
            reader = super().reader()
            messages = reader.messages
            reader.messages = lambda session, after=0: messages(session)
            return reader

    assert broken_laws(Loading)[0] == ["reader"]


def test_use_after_close_is_caught():
    class Lasting(MemoryStore):
        async def close(self):
            pass

    assert broken_laws(Lasting)[0] == ["closing"]


def test_memory_and_sqlite_pass(tmp_path):
    check_store(lambda _: MemoryStore())
    check_store(lambda name: SqliteStore(tmp_path / f"{name}.db"))
    for law in LAWS:
        memory = MemoryStore()
        getattr(StoreLaws(), law)(StoreSubject(lambda store=memory: store))
        path = tmp_path / f"{law}.db"
        getattr(StoreLaws(), law)(StoreSubject(lambda path=path: SqliteStore(path)))
