"""The thread that follows a store: it tries again after failures, and ends when it is told."""

import asyncio
import logging
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from toolbus import UserMessage
from toolbus.history import session_index
from toolbus.history.session_index import SessionIndex, following
from toolbus.store import AppendRequest, SqliteStore


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(session_index, "_RETRY", 0.05)
    return tmp_path / "store.db"


def make_index():
    return SessionIndex(lambda text: (), lambda reader, key: ())


def append(path, name="s"):
    async def run():
        async with SqliteStore(path) as store:
            await store.append(name, AppendRequest(message=UserMessage(content="hello")))

    asyncio.run(run())


def wait_for(condition):
    end = time.monotonic() + 10
    while not (result := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return result


def messages(index):
    return sum(entry.summary.messages for entry in index.view.entries.values())


def test_a_missing_store_is_a_problem_until_it_exists(path):
    index = make_index()
    with following(str(path), index):
        wait_for(lambda: "cannot be counted at the moment: store" in index.view.problem)

        append(path)

        wait_for(lambda: messages(index) == 1)
        assert index.view.problem == ""


def test_a_locked_file_is_read_after_the_lock(path):
    append(path)
    index = make_index()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with following(str(path), index):
            time.sleep(0.3)
            assert messages(index) == 0

            other.execute("COMMIT")
            other.close()

            wait_for(lambda: messages(index) == 1)


def test_a_mistake_of_ours_is_logged_and_tried_again(path, caplog):
    append(path)
    index, failures = make_index(), [RuntimeError("a mistake")]
    read_on = index.read_on

    def fail_once(*arguments):
        if failures:
            raise failures.pop()
        return read_on(*arguments)

    index.read_on = fail_once
    with caplog.at_level(logging.ERROR, "toolbus"), following(str(path), index):
        wait_for(lambda: messages(index) == 1)

    assert "the index of sessions failed" in caplog.text


def test_the_end_does_not_wait_for_the_pause(path):
    append(path)
    index = make_index()
    with following(str(path), index):
        wait_for(lambda: messages(index) == 1)
        began = time.monotonic()

    assert time.monotonic() - began < 0.2
    assert "toolbus session index" not in {each.name for each in threading.enumerate()}
