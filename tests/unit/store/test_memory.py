"""What every store does, told of the memory store and of the one on disk alike."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
from toolbus.errors import ClosedError
from toolbus.events.catalogue import Scope
from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    ImagePart,
    Resource,
    ResourcePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.store.memory import MemoryStore
from toolbus.store.protocol import SessionInfo, Store, Stored
from toolbus.store.sqlite import SqliteStore


class Clock:
    """Counts its calls."""

    now = 0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request, tmp_path):
    def make(**options) -> Store:
        if request.param == "memory":
            return MemoryStore(**options)
        return SqliteStore(tmp_path / "store.db", **options)

    return make


def user(name, text="hello"):
    return UserMessage(id=name, content=text)


def record(subject="m1", **entry):
    made = HandlerEntry(name="h", priority=1, kind="guard", status="ran", **entry)
    return DispatchRecord(
        event="e",
        scope=Scope(agent_id="a", context={"user": "ü"}),
        subject=subject,
        started_ns=1,
        duration_ns=2,
        outcome="unchanged",
        original="abc",
        entries=(made,),
    )


texts = st.text(max_size=20)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | texts
scalars |= st.floats(allow_nan=False, allow_infinity=False)
json = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
objects = st.dictionaries(texts, json, max_size=3)
parts = st.lists(
    st.builds(TextPart, text=texts)
    | st.builds(ImagePart, data=texts, mime_type=texts)
    | st.builds(AudioPart, data=texts, mime_type=texts)
    | st.builds(ResourcePart, resource=st.builds(Resource, uri=texts, text=texts)),
    max_size=3,
)
calls = st.builds(ToolCall, id=texts, name=texts, arguments=objects, raw=st.none() | texts)
responses = st.builds(ToolResponse, content=parts, structured=json, metadata=objects)
messages = (
    st.builds(SystemMessage, id=texts, content=texts, metadata=objects)
    | st.builds(UserMessage, id=texts, content=texts | parts, metadata=objects)
    | st.builds(AssistantMessage, id=texts, content=texts, tool_calls=st.lists(calls, max_size=3))
    | st.builds(
        ToolMessage,
        id=texts,
        tool_call_id=texts,
        tool_name=texts,
        tool_response=st.none() | responses,
    )
)


@pytest.mark.full
@given(st.lists(st.tuples(texts, messages), max_size=8))
async def test_what_is_appended_is_read_back(appends):
    expected = {}
    for session_id, message in appends:
        expected.setdefault(session_id, []).append(message)

    with tempfile.TemporaryDirectory() as folder:
        for store in (MemoryStore(), SqliteStore(Path(folder) / "store.db")):
            async with store:
                for session_id, message in appends:
                    await store.append(session_id, Stored(message=message))

                found = {info.id: await store.read(info.id) for info in await store.sessions()}
                assert found == {key: tuple(value) for key, value in expected.items()}
                assert list(found) == list(expected)


async def test_records_are_kept_beside_messages_and_alone(make_store):
    async with make_store() as store:
        await store.append("s", Stored(message=user("m1"), records=(record("1"), record("2"))))
        await store.append("s", Stored(records=(record("3"),)))
        await store.append("t", Stored(message=user("m2")))

        assert await store.records("s") == (record("1"), record("2"), record("3"))
        assert await store.records("t") == ()
        assert await store.read("s") == (user("m1"),)


async def test_values_of_records_are_dropped(make_store):
    secret = record(before="d1", after="d2", value_before="canary", value_after={"x": "canary"})

    async with make_store() as store:
        await store.append("s", Stored(records=(secret,)))

        assert await store.records("s") == (record(before="d1", after="d2"),)


def test_records_without_values_are_kept_as_they_are():
    plain = record(before="d1")

    assert Stored(records=(plain,)).records[0] is plain


async def test_sessions_are_listed_by_age(make_store):
    async with make_store(clock=Clock()) as store:
        await store.append("b", Stored(message=user("m1")))
        await store.append("a", Stored(records=(record(),)))
        await store.append("b", Stored(message=user("m2")))

        assert await store.sessions() == (
            SessionInfo(id="b", messages=2, created_ns=1, updated_ns=3),
            SessionInfo(id="a", messages=0, created_ns=2, updated_ns=2),
        )


async def test_a_clock_that_goes_back_does_not_take_the_session_with_it(make_store):
    times = iter([5, 3])
    async with make_store(clock=lambda: next(times)) as store:
        await store.append("s", Stored(message=user("m1")))
        await store.append("s", Stored(message=user("m2")))

        (info,) = await store.sessions()
        assert (info.created_ns, info.updated_ns) == (5, 5)


async def test_an_unknown_session_is_empty(make_store):
    async with make_store() as store:
        assert (await store.read("x"), await store.records("x")) == ((), ())
        assert await store.sessions() == ()


async def test_the_same_id_may_be_appended_twice(make_store):
    async with make_store() as store:
        await store.append("s", Stored(message=user("m1")))
        await store.append("s", Stored(message=user("m1", "again")))

        assert await store.read("s") == (user("m1"), user("m1", "again"))


async def test_what_was_read_does_not_change(make_store):
    async with make_store() as store:
        await store.append("s", Stored(message=user("m1")))
        before = await store.read("s")
        await store.append("s", Stored(message=user("m2")))

        assert before == (user("m1"),)


async def test_a_closed_store_says_so(make_store):
    store = make_store()
    await store.append("s", Stored(message=user("m1")))

    await store.close()
    await store.close()

    for use in (store.append("s", Stored()), store.read("s"), store.records("s"), store.sessions()):
        with pytest.raises(ClosedError, match=r"store.* is closed; make a new one"):
            await use


async def test_concurrent_appends_keep_the_order_of_their_calls(make_store):
    async with make_store() as store:
        sent = tuple([user(f"m{at}") for at in range(200)])

        await asyncio.gather(*[store.append("s", Stored(message=message)) for message in sent])

        assert await store.read("s") == sent


def test_only_the_store_on_disk_is_durable(tmp_path):
    assert not MemoryStore().durable
    assert SqliteStore.durable


async def test_a_state_is_swapped_for_what_stands_there(make_store):
    async with make_store(clock=Clock()) as store:
        swaps = [
            await store.swap_state("s", "n", b"1", b"2"),
            await store.swap_state("s", "n", None, None),
            (await store.sessions() == ()),
            await store.swap_state("s", "n", None, b"1"),
            await store.swap_state("s", "n", None, b"2"),
            await store.swap_state("s", "n", b"2", None),
            await store.swap_state("s", "n", b"1", b"1.0"),
            await store.swap_state("s", "other", None, b"3"),
        ]
        read = [await store.read_state("s", name) for name in ("n", "other", "none")]
        (info,) = await store.sessions()
        deleted = await store.swap_state("s", "n", b"1.0", None)

        assert swaps == [False, True, True, True, False, False, True, True]
        assert read == [b"1.0", b"3", None]
        assert (info.id, info.messages) == ("s", 0)
        assert info.updated_ns > info.created_ns
        assert (deleted, await store.read_state("s", "n")) == (True, None)
        assert await store.read_state("unknown", "n") is None


async def test_a_state_takes_no_place_in_a_session(make_store):
    async with make_store() as store:
        position = await store.open_session("s", "me", 0)
        await store.swap_state("s", "n", None, b"1")
        await store.append("s", Stored(message=user("m"), at=position))

        assert [one.id for one in await store.read("s")] == ["m"]


async def test_states_of_a_closed_store_are_refused(make_store):
    store = make_store()
    await store.close()

    for attempt in (store.read_state("s", "n"), store.swap_state("s", "n", None, b"1")):
        with pytest.raises(ClosedError):
            await attempt


async def test_a_discarded_session_is_gone():
    store = MemoryStore()
    await store.swap_state("s", "n", None, b"1")

    store.discard_session("s")
    store.discard_session("unknown")

    assert await store.sessions() == ()
