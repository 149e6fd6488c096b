"""What a log tells, and what it cannot."""

import shutil
import struct

import pytest

from toolbus.messages.records import UserMessage
from toolbus.store.protocol import Stored
from toolbus.store.recovery.wal import Log, _sums, damage_of, read_log
from toolbus.store.sqlite import SqliteStore

FRAME = 24 + 4096


@pytest.fixture
def log(tmp_path):
    return tmp_path / "copy.db-wal"


async def make(log, *sizes):
    """Make a log with one commit for each of *sizes*, the length of a message."""
    path = log.with_name("store.db")
    async with SqliteStore(path) as store:
        await store.append("s", Stored(message=UserMessage(id="first", content="")))
    async with SqliteStore(path) as store:
        for at, size in enumerate(sizes):
            message = UserMessage(id=f"m{at}", content="x" * size)
            await store.append("s", Stored(message=message))
        shutil.copyfile(f"{path}-wal", log)


def change(log, place, data):
    old = log.read_bytes()
    log.write_bytes(old[:place] + data + old[place + len(data) :])


def flip(log, place):
    change(log, place, bytes([log.read_bytes()[place] ^ 1]))


def frames(log):
    """Return whether each frame ends a commit."""
    data = log.read_bytes()[32:]
    return [bool(struct.unpack_from(">I", data, at + 4)[0]) for at in range(0, len(data), FRAME)]


async def test_a_whole_log_has_no_damage(log):
    await make(log, 10, 9_000, 10)

    found = read_log(log)

    assert (found.commits, found.frames) == (3, len(frames(log)))
    assert (found.broken_at, found.damage, damage_of(log)) == (None, "", "")


@pytest.mark.parametrize("size", [None, 0, 31, 32, 32 + 10])
async def test_what_holds_no_frame_is_an_empty_log(log, size):
    if size is not None:
        await make(log, 10)
        log.write_bytes(log.read_bytes()[:size])

    assert (read_log(log).frames, read_log(log).damage) == (0, "")


async def test_a_write_that_was_cut_off_is_no_damage(log):
    await make(log, 10, 9_000)
    whole = log.read_bytes()

    for size in range(32, len(whole), 1_111):
        log.write_bytes(whole[:size])
        assert damage_of(log) == read_log(log).damage == ""


async def test_a_last_commit_that_is_broken_may_have_been_cut_off(log):
    await make(log, 10, 10)
    flip(log, len(log.read_bytes()) - 1)

    found = read_log(log)

    assert (found.commits, found.damage) == (1, "")
    assert found.broken_at == found.frames


async def test_the_frames_of_an_earlier_round_are_no_damage(log):
    await make(log, 10, 10)
    data = log.read_bytes()
    # What follows the second frame is of another round: it has other salts.
    for at in range(32 + 2 * FRAME, len(data), FRAME):
        change(log, at + 8, b"\1\2\3\4")

    assert read_log(log).broken_at == 3
    assert damage_of(log) == read_log(log).damage == ""


async def test_every_broken_frame_before_the_last_commit_is_damage(log):
    await make(log, 10, 9_000, 10, 10)
    ends = frames(log)

    for number in range(1, len(ends) - ends[::-1].index(True, 1)):
        flip(log, 32 + (number - 1) * FRAME + 24 + 7)
        found = read_log(log)
        assert found.broken_at == number
        assert found.damage.startswith(f"the log beside it is damaged at frame {number}, and")
        # One commit alone may also be what a killed process left.
        assert found.is_certain is (found.commits_behind > 1 or not ends[number - 2])
        assert damage_of(log) == (found.damage if found.is_certain else "")
        flip(log, 32 + (number - 1) * FRAME + 24 + 7)


async def test_what_a_killed_process_left_of_one_commit_is_no_certain_damage(log):
    await make(log, 10, 9_000)
    start = 32 + frames(log).index(True) * FRAME
    # Another process went on where the killed one began.
    flip(log, start + FRAME + 100)

    found = read_log(log)

    assert (found.commits, found.commits_behind, found.is_certain) == (1, 1, False)
    assert damage_of(log) == ""


async def test_a_damaged_header_is_damage(log):
    await make(log, 10, 9_000)
    # The number of the checkpoint, at byte 12, says nothing, but has its share in the checksum.
    for place in range(32):
        flip(log, place)
        found = read_log(log)
        assert found.damage.startswith("the log beside it has a damaged header"), place
        assert found.commits == 0
        assert damage_of(log) == found.damage
        flip(log, place)


async def test_a_log_of_the_other_byte_order_is_read(log):
    await make(log, 10, 10)
    data = bytearray(log.read_bytes())
    data[:4] = bytes.fromhex("377f0683")
    sums = _sums(">", bytes(data[:24]), (0, 0))
    struct.pack_into(">2I", data, 24, *sums)
    for at in range(32, len(data), FRAME):
        sums = _sums(">", bytes(data[at : at + 8]), sums)
        sums = _sums(">", bytes(data[at + 24 : at + FRAME]), sums)
        struct.pack_into(">2I", data, at + 16, *sums)
    log.write_bytes(data)

    assert (read_log(log).commits, read_log(log).damage) == (2, "")


async def test_a_log_that_moves_is_not_judged(log, monkeypatch):
    await make(log, 10, 10, 10)
    flip(log, 32 + 30)
    seen = [read_log(log), Log(commits_behind=9)]
    assert damage_of(log) == seen[0].damage
    monkeypatch.setattr("toolbus.store.recovery.wal.read_log", lambda path: seen.pop(0))

    assert damage_of(log) == ""


async def test_a_very_long_log_is_left_to_the_check(log, monkeypatch):
    await make(log, 10, 10, 10)
    flip(log, 32 + 30)
    monkeypatch.setattr("toolbus.store.recovery.wal._MAX_BYTES", 1000)

    assert (damage_of(log), read_log(log).is_certain) == ("", True)
