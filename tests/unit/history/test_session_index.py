"""The index of sessions without its thread: what it reads, and when, and what it holds."""

import asyncio
import math
import random
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from toolbus import AssistantMessage, ToolMessage, UserMessage
from toolbus.errors import StoreError
from toolbus.history import session_index
from toolbus.history.session_index import SessionFilter, SessionIndex
from toolbus.store import AppendRequest, SqliteStore
from toolbus.store.sqlite.sqlite_reader import SqliteReader
from toolbus.testing.fakes import FakeClock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def append(path, *session_ids, message=None):
    async def run():
        async with SqliteStore(path) as store:
            for name in session_ids:
                request = AppendRequest(message=message or UserMessage(content=f"I am {name}"))
                await store.append(name, request)

    asyncio.run(run())


def make_index(questions=lambda reader, key: ()):
    return SessionIndex(lambda text: (), questions)


def read_all(index, reader):
    while not index.read_on(reader, math.inf):
        pass
    return index.view


def counts(view):
    return {entry.session.id: entry.summary.messages for entry in view.entries.values()}


class WatchedReader(SqliteReader):
    """A reader that remembers the keys of the sessions whose messages it read."""

    def messages(self, session, after=0):
        self.read_keys = [*getattr(self, "read_keys", []), session]
        return super().messages(session, after)


def test_the_latest_written_session_is_read_first(path):
    append(path, "a", "b", "c", "a")

    with WatchedReader(path, live=True) as reader:
        view = read_all(make_index(), reader)

    assert [view.entries[key].session.id for key in reader.read_keys] == ["a", "c", "b"]


def test_sessions_without_a_summary_are_in_the_view(path):
    append(path, "a", "b")
    index = make_index()

    with SqliteReader(path, live=True) as reader:
        assert not index.read_on(reader, 0)

    assert counts(index.view) == {"a": 0, "b": 0}
    assert index.view.unread == 2


@pytest.mark.parametrize("few", [1, 3, 1_000])
def test_only_written_sessions_are_read_again(path, monkeypatch, few):
    monkeypatch.setattr(session_index, "_FEW", few)
    append(path, *"abcde")
    index = make_index()
    with SqliteReader(path, live=True) as reader:
        before = read_all(index, reader)
        assert read_all(index, reader) is before

        append(path, "b", "new")
        after = read_all(index, reader)

    assert counts(after) == {"a": 1, "b": 2, "c": 1, "d": 1, "e": 1, "new": 1}
    assert after.entries[1] is before.entries[1]


def test_deleted_sessions_leave_and_their_key_is_free(path):
    clock = FakeClock()

    async def write():
        async with SqliteStore(path, clock=clock) as store:
            for name in ("old", "older"):
                message = UserMessage(content=name)
                await store.append(name, AppendRequest(message=message))

    async def replace():
        async with SqliteStore(path) as store:
            await store.forget_sessions(10**18)
            message = UserMessage(content="I came later")
            await store.append("new", AppendRequest(message=message))

    asyncio.run(write())
    index = make_index()
    with SqliteReader(path, live=True) as reader:
        read_all(index, reader)
        asyncio.run(replace())
        view = read_all(index, reader)

    assert [entry.summary.prompt for entry in view.entries.values()] == ["I came later"]


class FailingReader:
    """A reader that loses its connection at call number *number*."""

    def __init__(self, reader, number):
        self._reader, self._left = reader, number

    def __getattr__(self, name):
        self._left -= 1
        if self._left == 0:
            raise StoreError("store", "the connection is lost")
        return getattr(self._reader, name)


@pytest.mark.parametrize("number", range(1, 12))
def test_a_lost_connection_counts_nothing_twice(path, number):
    for size in range(3):
        call = ToolMessage(tool_call_id=f"c{size}", tool_name="read", content="x")
        append(path, "a", "b", message=call)
    append(path, "b", message=AssistantMessage(content="done"))
    index = make_index()

    with SqliteReader(path, live=True) as reader:
        failing = FailingReader(reader, number)
        try:
            read_all(index, failing)
        except StoreError as error:
            index.resume(str(error))
            assert "lost" in index.view.problem
        view = read_all(index, reader)

    assert counts(view) == {"a": 3, "b": 4}
    assert view.figures.calls == {"read": {"ok": 6}}
    assert (view.problem, view.unread) == ("", 0)


def test_memory_is_bounded(path, monkeypatch):
    monkeypatch.setattr(session_index, "MOST_SESSIONS", 2)
    append(path, *"abc", "a")

    with SqliteReader(path, live=True) as reader:
        view = read_all(make_index(), reader)

    assert counts(view) == {"a": 2, "c": 1}


def question(state, asked, answered=0, expires=0, grant=""):
    return SimpleNamespace(
        state=state,
        asked_ns=asked,
        answered_ns=answered,
        expires_ns=expires,
        grant=grant,
        is_open=state in {"pending", "hosted"},
    )


def test_questions_are_summed_up(path):
    append(path, "a")
    asked = [
        question("pending", 1, expires=90),
        question("hosted", 1, expires=50),
        question("done", 10, answered=30),
        question("denied", 10, answered=31, grant="g"),
    ]

    with SqliteReader(path, live=True) as reader:
        view = read_all(make_index(lambda reader, key: asked), reader)

    (entry,) = view.entries.values()
    assert entry.questions.states == {"pending": 1, "hosted": 1, "done": 1, "denied": 1}
    assert (entry.questions.waited.count, entry.questions.waited.total_ns) == (1, 20)
    assert [entry.state(now_ns) for now_ns in (89, 90)] == ["asked", "open"]


def test_a_damaged_row_of_a_session_is_passed_over(path):
    append(path, "a", "a", "b")
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE messages SET body = '' WHERE key = 1")

    with SqliteReader(path, live=True) as reader:
        view = read_all(make_index(), reader)

    assert counts(view) == {"a": 2, "b": 1}
    assert view.figures.damaged == 1


def test_a_session_that_grew_is_not_current(path):
    append(path, "a")
    with SqliteReader(path, live=True) as reader:
        view = read_all(make_index(), reader)
        append(path, "a")
        (row,) = reader.recent_sessions(2)

    entry = view.entry_of(row)

    assert (entry.session.messages, entry.summary.messages) == (2, 1)
    assert not entry.is_current
    assert view.entry_of(view.entries[1].session).is_current


def test_a_filter_is_an_intersection(path):
    names = [f"{first}{second}" for first in "xyz" for second in "xyz"]
    append(path, *random.Random(1).sample(names, len(names)))
    with SqliteReader(path, live=True) as reader:
        view = read_all(make_index(), reader)

    rows = [entry.session.id for entry in SessionFilter(q="x AM").select(view, 10, 0)]

    assert {*rows} == {name for name in names if "x" in name}
    assert SessionFilter(q="x", state="done").select(view, 10, 0) == []
    newest = max(view.entries.values(), key=lambda entry: entry.session.updated_ns)
    assert SessionFilter().select(view, 1, 0) == [newest]
