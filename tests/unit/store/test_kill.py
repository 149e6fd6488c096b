"""A process that writes is killed at a random moment, again and again, on one file."""

import asyncio
import os
import random
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import toolbus
from toolbus.messages.records import UserMessage
from toolbus.store.check.session_check import check_file
from toolbus.store.protocol import AppendRequest
from toolbus.store.sqlite import SqliteStore

PROGRAM = Path(__file__).with_name("kill_writer.py")
writer = runpy.run_path(str(PROGRAM), run_name="kill_writer")


def start(path, sessions):
    """Start a writer and wait until it is ready."""
    source = str(Path(toolbus.__file__).parents[2])
    child = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(path), *sessions],
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "ready\n"
    return child


def kill(child, seen):
    """Kill a writer; return the next place by session, after what it has said since *seen*."""
    child.send_signal(signal.SIGKILL)
    acknowledged = {}
    # What stood in the pipe when it died was acknowledged as well.
    for line in [*seen, *child.stdout]:
        assert line.endswith("\n")
        session_id, at = line.split()
        acknowledged[session_id] = int(at) + 1
    assert child.wait() == -signal.SIGKILL
    return acknowledged


def kill_one(path, lines, spin):
    """Kill a writer after it acknowledged *lines* appends, and a moment; return what it has said.

    That is, the next place by session; the moment is *spin* nanoseconds.
    """
    with start(path, writer["SESSIONS"]) as child:
        seen = [child.stdout.readline() for _ in range(lines)]
        until = time.perf_counter_ns() + spin
        while time.perf_counter_ns() < until:
            pass
        return kill(child, seen)


async def check(path, acknowledged):
    """Check the file; return how many messages each session has."""
    async with SqliteStore(path) as store:
        lengths = {}
        for session_id in writer["SESSIONS"]:
            messages = await store.read(session_id)
            expected = [writer["stored"](session_id, at) for at in range(len(messages))]
            assert list(messages) == [one.message for one in expected]
            records = await store.records(session_id)
            assert list(records) == [record for one in expected for record in one.records]
            # One append of each session may have been written and not yet acknowledged.
            least = acknowledged.get(session_id, 0)
            assert least <= len(messages) <= least + 1
            lengths[session_id] = len(messages)
    report = check_file(str(path), lambda done, pages: None)
    assert report.problems == ()
    return lengths


@pytest.mark.full
async def test_a_writer_killed_while_it_makes_the_file_leaves_one_that_opens(tmp_path, thorough):
    chance = random.Random(2)

    for turn in range(60 if thorough else 8):
        path = tmp_path / f"{turn}.db"
        await check(path, kill_one(path, 0, chance.randrange(5_000_000)))


async def test_a_killed_writer_leaves_what_the_log_holds_to_the_file(tmp_path):
    path = tmp_path / "store.db"

    # So many that the log was carried into the file in between.
    expected = await check(path, kill_one(path, 2_000, 0))

    assert path.stat().st_size > 4_000_000
    assert sum(expected.values()) >= 2_000


HOLDER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO sessions VALUES (9, 'x', 1, 1, 1, 1, NULL)")
print("locked", flush=True)
time.sleep(60)
"""


async def test_a_lock_ends_with_the_process_that_held_it(tmp_path):
    path = tmp_path / "store.db"
    async with SqliteStore(path, timeout=30) as store:
        message = UserMessage(id="m", content="")
        command = [sys.executable, "-c", HOLDER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "locked\n"
            append = asyncio.create_task(store.append("s", AppendRequest(message=message)))
            await asyncio.sleep(0)
            assert not append.done()
            child.kill()
        await append

        assert [one.id for one in await store.sessions()] == ["s"]
        assert await store.read("s") == (message,)
