"""A reader of a store that other processes write."""

import asyncio

import pytest

from toolbus import UserMessage
from toolbus.history.store_follower import StoreFollower
from toolbus.settings.usage_error import UsageError
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore


@pytest.fixture
def add(tmp_path):
    """Return what appends a message to the store."""

    async def append():
        async with SqliteStore(tmp_path / "s.db") as store:
            await store.append("s", AppendRequest(message=UserMessage(content="words")))

    return lambda: asyncio.run(append())


@pytest.fixture
def follower(tmp_path):
    follower = StoreFollower(str(tmp_path / "s.db"))
    yield follower
    follower.close()


def count(reader):
    return reader.session("s").messages


def test_each_change_is_read_once(follower, add):
    add()
    assert [follower.read_change(count) for _ in range(2)] == [1, None]

    add()

    assert [follower.read_change(count) for _ in range(2)] == [2, None]
    assert follower.problem == ""


def test_a_missing_store_is_a_problem_until_it_is_there(follower, add):
    assert follower.read_change(count) is None
    assert "s.db" in follower.problem

    add()

    assert follower.read_change(count) == 1
    assert follower.problem == ""


def test_a_failed_read_is_tried_again(follower, add):
    add()

    def fail(reader):
        raise UsageError("no session")

    assert follower.read_change(fail) is None
    assert follower.problem == "no session"
    assert follower.read_change(count) == 1
