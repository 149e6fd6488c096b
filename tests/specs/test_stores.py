"""The scenarios of `specs/stores.md`."""

import asyncio
import inspect
import json

import pytest
from msgspec.structs import replace

from toolbus import UserMessage
from toolbus.store import Position, SqliteStore, Stored
from toolbus.store.memory import MemoryStore
from toolbus.testing.stores import StoreLaws, StoreSubject

PACKAGE = """
import asyncio
from toolbus.store import MemoryStore

class AcmeStore(MemoryStore):
    pass
"""
TESTS = """
import pytest
from acme_store import AcmeStore
from toolbus.testing.stores import StoreLaws, StoreSubject

@pytest.fixture
def stores():
    store = AcmeStore()
    return StoreSubject(lambda: store)

class TestAcmeStore(StoreLaws):
    pass
"""
LAWS = [name for name, _ in inspect.getmembers(StoreLaws) if name.startswith("test_")]


def broken_laws(make, *names):
    """Run the laws (those of *names*, else all) on stores that *make* makes.

    Returns by the law's name how each failed.
    """
    failures = {}
    for name in names or LAWS:
        store = make()
        try:
            getattr(StoreLaws(), name)(StoreSubject(lambda store=store: store))
        except AssertionError as error:
            failures[name] = str(error)
    return failures


@pytest.mark.full
def test_a_store_of_another_package_passes(pytester):
    pytester.makepyfile(acme_store=PACKAGE, test_acme=TESTS)

    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-p", "no:xdist")

    assert result.parseoutcomes() == {"passed": len(LAWS)}


def test_lost_order_is_caught():
    class Unordered(MemoryStore):
        async def read(self, session_id):
            messages = await super().read(session_id)
            return (*messages[:-2], *reversed(messages[-2:]))

    failures = broken_laws(Unordered)

    assert "test_concurrent_appends_keep_their_order" in failures
    text = failures["test_concurrent_appends_keep_their_order"]
    assert text.startswith("the order of appends: expected ['m0', 'm1'")
    assert "test_messages_come_back_as_they_were" in failures


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

    unfenced, by_length = broken_laws(Unfenced), broken_laws(ByLength)

    assert {"test_who_was_overtaken_writes_nothing", "test_a_message_of_another_is_noticed"} <= {
        *unfenced
    }
    assert "test_of_appends_at_one_place_one_wins" in unfenced
    assert "test_who_was_overtaken_writes_nothing" in by_length


def test_a_missing_lease_is_caught():
    class Open(MemoryStore):
        async def open_session(self, session_id, holder, seconds):
            return await super().open_session(session_id, holder, 0)

    failures = broken_laws(Open)

    assert {
        "test_a_lease_keeps_others_out",
        "test_a_lease_is_given_back",
        "test_of_many_that_open_one_gets_it",
        "test_who_is_at_work_is_left",
    } == {*failures}


def test_a_lost_update_is_caught():
    class Hasty(MemoryStore):
        async def swap_state(self, session_id, name, old, new, **options):
            if await self.read_state(session_id, name) != old:
                return False
            await asyncio.sleep(0)
            now = await self.read_state(session_id, name)
            return await super().swap_state(session_id, name, now, new, **options)

    failures = broken_laws(Hasty, "test_parallel_changes_lose_none")

    assert "a number that was counted up 100 times" in failures["test_parallel_changes_lose_none"]


def test_a_state_that_changes_is_caught():
    class Tidy(MemoryStore):
        async def swap_state(self, session_id, name, old, new, **options):
            tidied = [body and json.dumps(json.loads(body)).encode() for body in (old, new)]
            return await super().swap_state(session_id, name, *tidied, **options)

    assert "test_a_state_is_swapped_for_what_stands_there" in broken_laws(Tidy)


def test_half_an_append_is_caught():
    class Torn(MemoryStore):
        async def append(self, session_id, stored):
            await super().append(session_id, Stored(records=stored.records))
            await super().append(session_id, replace(stored, records=()))

    assert "test_what_is_refused_leaves_nothing" in broken_laws(Torn)


def test_texts_that_are_cut_are_caught():
    class Cutting(MemoryStore):
        async def append(self, session_id, stored):
            message = stored.message
            if isinstance(message, UserMessage):
                message = replace(message, id=message.id.partition("\0")[0])
            await super().append(session_id.partition("\0")[0], replace(stored, message=message))

    assert "test_hostile_texts_are_texts" in broken_laws(Cutting)


def test_forgetting_too_much_is_caught():
    class Thorough(MemoryStore):
        async def forget_originals(self, session_id):
            counts = [await super(Thorough, self).forget_originals(s) for s in [*self._sessions]]
            return sum(counts)

    class Impatient(MemoryStore):
        async def forget_sessions(self, before_ns, limit=100):
            self._leases.clear()
            return await super().forget_sessions(before_ns, limit)

    assert "test_originals_are_kept_once" in broken_laws(Thorough)
    assert "test_who_is_at_work_is_left" in broken_laws(Impatient)


def test_a_reader_that_loads_elsewhere_is_caught():
    class Loading(MemoryStore):
        def reader(self):
            reader = super().reader()
            messages = reader.messages
            reader.messages = lambda session, after=0: messages(session)
            return reader

    assert "test_messages_are_read_from_any_place" in broken_laws(Loading)


def test_use_after_close_is_caught():
    class Lasting(MemoryStore):
        async def close(self):
            pass

    assert [*broken_laws(Lasting)] == ["test_a_closed_store_refuses"]


def test_memory_and_sqlite_keep_them(tmp_path):
    paths = (tmp_path / f"{number}.db" for number in range(1_000))

    assert broken_laws(MemoryStore) == {}
    assert broken_laws(lambda: SqliteStore(next(paths))) == {}
