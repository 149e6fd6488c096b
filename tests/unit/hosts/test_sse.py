"""Events as servers write them, in any pieces, and as the proxy writes them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.hosts.mcp.frames import FrameTooLongError
from toolbus.hosts.mcp.sse import Events, nameless, rewrite_event, write_event

STREAM = (
    b": hi\n\nid: 1\r\nretry: 500\r\ndata: {\r\ndata:}\r\n\r\nevent: message\ndata: a\n\n"
    b"id: 2\n\nretry: x\nodd\ndata\n\nretry: 999999\n\ndata: cut"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=9))
def test_pieces_make_no_difference(cuts):
    ends = [0, *sorted(cuts), len(STREAM)]
    cutter = Events(1_000)

    found = [
        one for start, end in itertools.pairwise(ends) for one in cutter.feed(STREAM[start:end])
    ]

    assert [one[:3] for one in found] == [
        (b"", None, None),
        (b"{\n}", "1", 0.5),
        (b"a", None, None),
        (b"", "2", None),
        (b"", None, None),
        (b"", None, 60.0),
    ]
    assert b"".join(one.raw for one in found) == STREAM.removesuffix(b"data: cut")


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 99, b"data: x\n" * 20])
def test_a_long_event_is_an_error(piece):
    with pytest.raises(FrameTooLongError):
        Events(50).feed(piece)


def test_a_rewritten_event_keeps_the_rest():
    [event] = Events(1_000).feed(b": c\nevent: message\nid: 7\ndata: a\ndata: b\nretry: 5\n\n")

    assert event.comments
    assert rewrite_event(event, b"new") == b"event: message\nid: 7\nretry: 5\ndata: new\n\n"
    assert rewrite_event(event, b"") == b"event: message\nid: 7\nretry: 5\n\n"


def test_a_written_event_is_read_again():
    [event] = Events(1_000).feed(write_event(b"{}", "1-2", 100))

    assert event[:3] == (b"{}", "1-2", 0.1)
    assert not event.comments


def test_a_nameless_event_has_its_data_alone():
    named, primer = Events(1_000).feed(b": c\nid: 7\nretry: 5\ndata: a\n\nid: 8\ndata:\n\n")

    assert nameless(named) == (b"a", None, None, b"data: a\n\n")
    assert nameless(primer) == (b"", None, None, b"")
