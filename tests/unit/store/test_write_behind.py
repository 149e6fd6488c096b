"""Records that wait to be written: none is lost by a failure, none is written twice."""

import pytest

from toolbus.store.write_behind import WriteBehind


def take(waiting):
    with waiting.taking() as records:
        return records


def test_what_waits_is_taken_once_and_in_order():
    waiting = WriteBehind()
    waiting.add(1)
    waiting.add(2)

    assert take(waiting) == (1, 2)
    assert take(waiting) == ()


def test_what_could_not_be_written_waits_on_before_what_came_later():
    waiting = WriteBehind()
    waiting.add(1)

    def write():
        with waiting.taking():
            waiting.add(2)
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write()

    assert take(waiting) == (1, 2)


def test_beyond_the_limit_the_oldest_is_lost_and_logged(caplog):
    waiting = WriteBehind(limit=2)

    for record in (1, 2, 3):
        waiting.add(record)

    assert take(waiting) == (2, 3)
    assert caplog.text.count("a ledger record is lost") == 1


async def test_a_flush_writes_only_what_waits_and_logs_its_failure(caplog):
    waiting, writes = WriteBehind(), []

    async def write():
        with waiting.taking() as records:
            writes.append(records)
            raise OSError("full")

    await waiting.flush(write, "wait on")
    waiting.add(1)
    await waiting.flush(write, "wait on")

    assert writes == [(1,)]
    assert "ledger records of the session wait on: full" in caplog.text
    assert take(waiting) == (1,)
