"""The parts of a session on its page."""

import pytest

from seen_sessions import in_a_thread
from toolbus import AssistantMessage, ToolCall
from toolbus.history.entry_texts import bars
from toolbus.history.timeline import CallEntry, MessageEntry, Turn
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_factory import open_reader
from toolbus.ui.addresses import address, number_of
from toolbus.ui.session_pages import read_part


@pytest.fixture
def store(tmp_path):
    """Return a function that writes a session of messages with so many calls each, and reads it."""
    path = str(tmp_path / "s.db")

    async def write(counts):
        async with SqliteStore(path) as opened:
            for place, count in enumerate(counts):
                calls = [ToolCall(id=f"c{each}", name="t", arguments={}) for each in range(count)]
                message = AssistantMessage(id=f"m{place}", tool_calls=calls)
                await opened.append("s", AppendRequest(message=message))

    def opened(*counts):
        in_a_thread(write, counts)
        return open_reader(path)

    return opened


def parts_of(reader, most_nodes):
    """Return the numbers of the messages of all parts."""
    parts, after, has_more = [], 0, True
    while has_more:
        part = read_part(reader, reader.session("s"), after, most_nodes)
        parts.append([entry.seq for turn in part.turns for entry in turn.messages])
        after, has_more = part.end, part.has_more
    return parts


def test_a_small_part_stays_whole(store):
    with store(1, 2, 3) as reader:
        assert parts_of(reader, 1_800) == [[1, 2, 3]]


@pytest.mark.parametrize("most_nodes", [1, 50, 120, 400])
def test_parts_are_bounded_and_hold_every_message(store, most_nodes):
    with store(0, 9, 1, 30, 0, 0, 2, 0, 0, 0, 5, 1) as reader:
        parts = parts_of(reader, most_nodes)

    assert [seq for part in parts for seq in part] == list(range(1, 13))
    assert [4] in parts  # One large message is a part.


def test_a_session_without_a_name_has_addresses():
    assert address("calls", "", "c") == "/calls//c"
    assert address("sessions", "") == "/sessions/"


def test_addresses_quote_everything():
    assert (
        address("calls", "a/b c", "../%?#&\u202e") == "/calls/a%2Fb%20c/..%2F%25%3F%23%26%E2%80%AE"
    )
    assert address("sessions", "s", after=3) == "/sessions/s?after=3"


@pytest.mark.parametrize("text", ["", "-1", "1e9", "\u0661", " 1", "1" * 16])
def test_another_text_is_no_number(text):
    assert number_of(text) == 0


def test_bars_share_the_time_of_their_turn():
    def call(start, duration):
        facts = {"requested": None, "executed": None, "status": "ok"}
        return CallEntry(id="c", tool="t", started_ns=start, duration_ns=duration, **facts)

    calls = (call(100, 50), call(150, 50), call(0, 10))
    turn = Turn(
        run_id="", number=0, messages=(MessageEntry(seq=1, id="m", message=None, calls=calls),)
    )

    assert bars(turn) == {(1, 0): (0, 50), (1, 1): (50, 50)}
