import asyncio
import os
import signal

import pytest

from toolbus.cli import anchor as anchoring
from toolbus.errors import StoreError, WrongPathError


class Script:
    """The readings of a store: counts, or errors; the last one is followed by SIGTERM."""

    def __init__(self, *readings):
        self.readings, self.sent = list(readings), []

    def read(self, address):
        assert address == "s.db"
        reading = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if len(self.readings) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        if isinstance(reading, Exception):
            raise reading
        return reading, reading

    async def send(self, now):
        self.sent.append(now)


@pytest.fixture
def play(monkeypatch):
    """Return a function that plays readings without pauses, and returns what is sent."""

    def play(every, *readings):
        script = Script(*readings)
        monkeypatch.setattr(anchoring, "_PAUSE", 0.0)
        monkeypatch.setattr(anchoring, "_AFTER_FAILURE", 0.0)
        monkeypatch.setattr(anchoring, "_read", script.read)
        asyncio.run(asyncio.wait_for(anchoring._anchor("s.db", script.send, every), 30))
        return script.sent

    return play


def test_a_line_follows_so_many_writes_or_a_deletion(play):
    assert play(4, 0, 2, 3, 4, 7, 8, 20, 5, 8, 9, 10) == [0, 4, 8, 20, 5, 9, 10]


def test_a_failing_store_is_read_again(play, capsys):
    assert play(
        4, StoreError("s.db", "it is away\x1b[2J"), 3, StoreError("s.db", "away"), 8, 9
    ) == [*(3, 8, 9)]
    told = capsys.readouterr().err
    assert told.count("the next attempt is in 0 seconds") == 2
    assert "\x1b" not in told


def test_a_wrong_path_ends_it(play):
    with pytest.raises(WrongPathError):
        play(4, 1, WrongPathError("s.db", "not a store"), 2, 3)


def test_a_failure_at_the_end_is_an_error(play):
    with pytest.raises(StoreError):
        play(4, 1, StoreError("s.db", "away"))
