"""The scenarios of `specs/ui_live.md`."""

import json
import re
import time
from contextlib import ExitStack, closing, contextmanager
from typing import NamedTuple

import pytest
from psycopg.conninfo import conninfo_to_dict

from postgres_server import Forwarder
from toolbus import UserMessage
from toolbus.store.store_factory import open_reader
from toolbus.ui.live_pages import MAX_STREAMS
from ui_server import running_ui
from written_sessions import (
    answered,
    append,
    called,
    said,
    stream_threads,
    wait_until,
    writer,
)

HOSTILE = '</li><script>alert(1)</script>\r\n\nevent: turns\ndata: "forged"\n\n\u2028\u202egnp'


class Event(NamedTuple):
    name: str
    id: str
    data: object


@contextmanager
def events_of(ui, path, **headers):
    """Yield the events of a stream, as they come; a comment is one without a name."""
    with ui.streaming("GET", path, **headers) as answer:
        assert answer.status == 200
        assert answer.getheader("content-type") == "text/event-stream; charset=utf-8"

        def events():
            fields = {}
            for line in iter(answer.readline, b""):
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name or not fields:
                    fields[name] = value
                elif fields.keys() != {"retry"}:
                    yield Event(
                        fields.get("event", ""),
                        fields.get("id", ""),
                        json.loads(fields.get("data", "null")),
                    )
                if not name:
                    fields = {}

        yield events()


@pytest.fixture
def address(tmp_path):
    """Return the address of a store whose session has two messages."""
    address = str(tmp_path / "s.db")
    append(address, said(1), said(2))
    return address


@pytest.fixture(params=["sqlite", "postgres"])
def any_address(request):
    """Return the address of a store on each kind of disk."""
    if request.param == "sqlite":
        return request.getfixturevalue("address")
    address = request.getfixturevalue("database")
    append(address, said(1), said(2))
    return address


def covered(html):
    """Return the numbers of the messages in *html*, with those of its links, in order."""
    numbers = []
    for start, count, number in re.findall(r"after=(\d+)\">(\d+) messages|words (\d+)", html):
        after = int(start or 0)
        numbers += [int(number)] if number else range(after + 1, after + 1 + int(count))
    return numbers


def turns_of(events):
    return (event for event in events if event.name == "turns")


def read_to(events, last):
    """Return the numbers of the messages up to number *last*, without turns that are repeated."""
    numbers, ids = [], []
    for event in turns_of(events):
        new = [number for number in covered(event.data) if not numbers or number > numbers[-1]]
        numbers += new
        ids.append(int(event.id))
        if numbers and numbers[-1] >= last:
            break
    assert ids == sorted(set(ids))
    return numbers


# --- what is new ---------------------------------------------------------------------------------


def test_messages_of_another_process_arrive(address):
    with running_ui(address) as ui, events_of(ui, "/events?session=s&after=2") as events:
        assert covered(next(events).data) == [2]

        with writer(address, 3, 3):
            assert read_to(events, 5) == [3, 4, 5]


def test_a_turn_is_sent_again_when_it_changes(address):
    append(address, called(3))
    with running_ui(address) as ui, events_of(ui, "/events?session=s&after=2") as events:
        first = next(events)

        append(address, answered(4))

        second = next(turns_of(events))
        assert ('id="turn-3-0"' in first.data, first.id) == (True, "3")
        assert ('id="turn-3-0"' in second.data, second.id) == (True, "4")
        assert ("status open" in first.data, "status ok" in second.data) == (True, True)


def test_a_stream_resumes_after_its_last_event(address):
    with running_ui(address) as ui:
        with events_of(ui, "/events?session=s&after=0") as events:
            assert next(events).id == "2"
        append(address, said(3), said(4))

        with events_of(ui, "/events?session=s&after=0", last_event_id="2") as events:
            assert read_to(events, 4) == [3, 4]


@pytest.mark.parametrize("query", ["list=1", "questions=1", "session=s&after=1"])
def test_a_list_hears_of_each_change(address, query):
    with running_ui(address) as ui, events_of(ui, f"/events?{query}") as events:
        next(events)
        for number in (3, 4):
            append(address, said(number), session="another")

            assert next(events) == Event("changed", "", None)


def test_a_hostile_text_stays_in_its_event(address):
    append(address, UserMessage(id="m-3", content=HOSTILE), said(4))
    with running_ui(address) as ui, events_of(ui, "/events?session=s&after=2") as events:
        event = next(events)

        assert event.name == "turns"
        assert "<script" not in event.data
        assert "&lt;script&gt;" in event.data
        assert "\u202e" not in event.data
        append(address, said(5))
        assert covered(next(turns_of(events)).data)[-1] == 5


@pytest.mark.full
def test_a_silent_stream_gives_a_sign(address):
    with running_ui(address) as ui, ui.streaming("GET", "/events?session=s&after=2") as answer:
        start, line = time.monotonic(), b""
        while not line.startswith(b":"):
            line = answer.readline()

        assert 9 < time.monotonic() - start < 13


# --- the backlog ---------------------------------------------------------------------------------


def test_a_burst_becomes_a_link(address):
    with running_ui(address) as ui, events_of(ui, "/events?session=s&after=2") as events:
        next(events)
        with writer(address, 3, 1000):
            assert read_to(events, 1002) == list(range(3, 1003))


@pytest.mark.full
def test_a_slow_reader_gets_the_latest_messages(address):
    with running_ui(address) as ui, events_of(ui, "/events?session=s&after=2") as events:
        next(events)

        def slow_events():
            for event in events:
                time.sleep(0.3)
                yield event

        with writer(address, 3, 2000, length=2000):
            assert read_to(slow_events(), 2002) == list(range(3, 2003))


@pytest.mark.full
def test_a_hundred_messages_a_second_arrive(any_address):
    with (
        open_reader(any_address, live=True) as reader,
        running_ui(any_address) as ui,
        events_of(ui, "/events?session=s&after=2") as events,
    ):
        next(events)
        numbers, behind = [2], []
        with writer(any_address, 3, 1000, rate=100):
            for event in turns_of(events):
                assert "messages are not on this page" not in event.data
                numbers += [each for each in covered(event.data) if each > numbers[-1]]
                behind.append(reader.session("s").messages - numbers[-1])
                if numbers[-1] == 1002:
                    break

    assert numbers == list(range(2, 1003))
    assert len(behind) > 20
    assert max(behind) < 200


# --- its end -------------------------------------------------------------------------------------


def test_a_stream_ends_with_its_reader(address):
    with running_ui(address) as ui:
        with ExitStack() as stack:
            for path in ("/events?session=s", "/events?list=1", "/events?questions=1"):
                next(stack.enter_context(events_of(ui, path)))
            assert len(stream_threads()) == 3

        assert wait_until(lambda: not stream_threads())


def test_the_server_does_not_wait_for_streams(address):
    with ExitStack() as stack:
        with running_ui(address) as ui:
            next(stack.enter_context(events_of(ui, "/events?session=s")))
            stack.enter_context(ui.streaming("GET", "/events?session=s"))
            start = time.monotonic()

        assert time.monotonic() - start < 1
        assert wait_until(lambda: not stream_threads())


def test_streams_are_limited(address):
    with running_ui(address) as ui, ExitStack() as stack:
        for _ in range(MAX_STREAMS):
            one = stack.enter_context(ExitStack())
            next(one.enter_context(events_of(ui, "/events?list=1")))

        refused = ui.get("/events?list=1")

        reason = "32 pages follow already; close one of them"
        assert refused.text == f'retry: 20000\n\nevent: lost\ndata: "{reason}"\n\n'
        one.close()
        assert wait_until(lambda: len(stream_threads()) < MAX_STREAMS)
        assert next(stack.enter_context(events_of(ui, "/events?list=1"))).name == "changed"


# --- a lost store --------------------------------------------------------------------------------


def test_a_lost_store_is_told_once(tmp_path):
    address = str(tmp_path / "later.db")
    with running_ui(address) as ui, events_of(ui, "/events?session=s") as events:
        lost = next(events)
        assert lost.name == "lost"
        assert "later.db" in lost.data

        append(address, said(1))

        names = [next(events).name]
        if names == ["lost"]:  # The file exists before its tables.
            names.append(next(events).name)
        assert names[-1] == "turns"


@pytest.mark.full
def test_a_broken_connection_is_made_again(postgres, database):
    append(database, said(1), said(2))
    forwarder = Forwarder(postgres.folder / f".s.PGSQL.{postgres.port}")
    name = conninfo_to_dict(database)["dbname"]
    address = f"postgresql://postgres@127.0.0.1:{forwarder.port}/{name}"
    with (
        closing(forwarder),
        running_ui(address) as ui,
        events_of(ui, "/events?session=s") as events,
    ):
        assert covered(next(events).data) == [1, 2]
        forwarder.refuse = True
        forwarder.cut()
        assert next(events).name == "lost"
        append(database, said(3))

        forwarder.refuse = False

        assert covered(next(events).data) == [3]
