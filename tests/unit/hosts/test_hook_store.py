"""The store of hooks: a repeated append, and the reads of a hook."""

import asyncio

import pytest

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.errors import ClosedError
from toolbus.events.catalogue import Scope
from toolbus.hosts.run.event_log import HookStore
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage, UserMessage

RECORD = DispatchRecord(
    event="x",
    scope=Scope(session_id="s"),
    started_ns=1,
    duration_ns=1,
    outcome="observed",
    original="",
)
CALL = AssistantMessage(id="a", tool_calls=(ToolCall(id="c", name="x"),))
RESULT = ToolMessage(id="t", tool_call_id="c", tool_name="x", content="done")


@pytest.fixture
def store(tmp_path):
    return HookStore(tmp_path / "s.db")


async def test_what_is_there_is_not_written_again(store):
    async with store:
        assert await store.append_once("s", [CALL], [RECORD])
        assert not await store.append_once("s", [CALL], [RECORD])
        assert await store.append_once("s", [CALL, RESULT], [RECORD])
        assert await store.read("s") == (CALL, RESULT)
        assert len(await store.records("s")) == 2


async def test_the_same_id_in_another_session_is_another_message(store):
    async with store:
        assert await store.append_once("s", [CALL], [])
        assert await store.append_once("other", [CALL], [])
        assert [session.messages for session in await store.sessions()] == [1, 1]


async def test_records_alone_are_written(store):
    async with store:
        assert await store.append_once("s", [], [RECORD])
        assert not await store.append_once("s", [], [])
        assert len(await store.records("s")) == 1


async def test_many_at_once_are_one_message(store):
    async with store:
        written = await asyncio.gather(*[store.append_once("s", [CALL], []) for _ in range(50)])
        assert written.count(True) == 1
        assert await store.read("s") == (CALL,)


async def test_a_call_and_the_latest_are_read(store):
    async with store:
        users = [UserMessage(id=f"u{number}", content="x") for number in range(5)]
        await store.append_once("s", [CALL, *users, RESULT], [])
        await store.append_once("other", [CALL], [])
        assert await store.read_call("s", "c") == (CALL, RESULT)
        assert await store.read_call("nobody", "c") == ()
        assert await store.read_latest("s", 2) == (users[-1], RESULT)
        assert len(await store.read_latest("s", 100)) == 7


async def test_a_closed_store_writes_nothing(store):
    await store.close()
    with pytest.raises(ClosedError):
        await store.append_once("s", [CALL], [])
