"""A process that writes is killed at a random moment, again and again, on one file."""

import os
import random
import runpy
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import toolbus
from toolbus.store.sqlite import SqliteStore

PROGRAM = Path(__file__).with_name("kill_writer.py")
writer = runpy.run_path(str(PROGRAM), run_name="kill_writer")


def kill_one(path, lines, spin):
    """Kill a writer after it acknowledged *lines* appends, and a moment; return what it has said.

    That is, the next place by session; the moment is *spin* nanoseconds.
    """
    source = str(Path(toolbus.__file__).parents[1])
    acknowledged = {}
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(path)],
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout.readline() == "ready\n"
        seen = [child.stdout.readline() for _ in range(lines)]
        until = time.perf_counter_ns() + spin
        while time.perf_counter_ns() < until:
            pass
        child.send_signal(signal.SIGKILL)
        # What stood in the pipe when it died was acknowledged as well.
        for line in [*seen, *child.stdout]:
            assert line.endswith("\n")
            session_id, at = line.split()
            acknowledged[session_id] = int(at) + 1
    assert child.returncode == -signal.SIGKILL
    return acknowledged


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
    with closing(connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return lengths


async def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path, thorough):
    chance, path, expected = random.Random(1), tmp_path / "store.db", {}

    for _ in range(60 if thorough else 8):
        # Opening a file that a killed process left counts as much as writing to it.
        lines = chance.choice([0, 1, chance.randrange(300)])
        expected |= kill_one(path, lines, chance.randrange(2_000_000))
        expected = await check(path, expected)

    assert sum(expected.values()) > 100


async def test_a_writer_killed_while_it_makes_the_file_leaves_one_that_opens(tmp_path, thorough):
    chance = random.Random(2)

    for turn in range(60 if thorough else 8):
        path = tmp_path / f"{turn}.db"
        await check(path, kill_one(path, 0, chance.randrange(5_000_000)))
