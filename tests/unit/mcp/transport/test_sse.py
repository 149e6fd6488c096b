"""Events as servers write them, in any pieces, and as the proxy writes them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.mcp.protocol.jsonrpc import FrameTooLongError
from toolbus.mcp.transport.sse import EventParser, rewrite_event, without_id, write_event

STREAM = (
    b": hi\n\nid: 1\r\nretry: 500\r\ndata: {\r\ndata:}\r\n\r\nevent: message\ndata: a\n\n"
    b"id: 2\n\nretry: x\nodd\ndata\n\nretry: 999999\n\nid: 3\rdata: b\r\rid: 4\r\n\rid: a\0\r\r\n"
    b"data: cut"
)
LONG = b"retry: " + b"9" * 5_000 + b"\n\n"


@given(st.lists(st.integers(0, len(STREAM)), max_size=9))
def test_pieces_make_no_difference(cuts):
    ends = [0, *sorted(cuts), len(STREAM)]
    cutter = EventParser(1_000)

    found = [
        one for start, end in itertools.pairwise(ends) for one in cutter.feed(STREAM[start:end])
    ]

    assert [one[:3] for one in found] == [
        (None, None, None),
        (b"{\n}", "1", 500),
        (b"a", None, None),
        (None, "2", None),
        (b"", None, None),
        (None, None, 999_999),
        (b"b", "3", None),
        (None, "4", None),
        (None, None, None),
    ]
    assert found[5].wait == 60.0


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"", b"\r\n\xef\xbb\xbf"])
def test_one_byte_order_mark_is_dropped(start):
    found = EventParser(100).feed(start + b"data: a\n\n")

    assert [one.data for one in found] == ([None, None] if b"\n" in start else [b"a"])


def test_numbers_that_nobody_counts_to_are_dropped():
    assert EventParser(10_000).feed(LONG)[0].retry is None


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 99, b"data: x\n" * 20])
def test_a_long_event_is_an_error(piece):
    with pytest.raises(FrameTooLongError):
        EventParser(50).feed(piece)


def test_a_rewritten_event_keeps_the_rest():
    said = b": c\nevent: message\nodd: x\nid: 7\ndata: a\ndata: b\nretry: 5\n\n"
    [event] = EventParser(1_000).feed(said)

    anew = b"id: 7\nevent: message\nretry: 5\ndata: n w\n\n"
    assert rewrite_event(event, b"n\nw") == anew
    assert rewrite_event(event, None) == b"id: 7\nretry: 5\n\n"


@pytest.mark.parametrize(
    ("said", "anew"),
    [
        (b": c\n\n", b":\n\n"),
        (b"odd: x\n\n", b""),
        (b"id: 1\ndata:\n\n", b"id: 1\ndata:\n\n"),
        (b"event: other\ndata: a\n\n", b"data: a\n\n"),
        (b"id: \xe2\x80\xa8\ndata: a\n\n", b"data: a\n\n"),
        ("data: \u2028\u0085\n\n".encode(), b"data: \\u2028\\u0085\n\n"),
    ],
)
def test_a_rewritten_event_has_known_fields_alone(said, anew):
    [event] = EventParser(1_000).feed(said)

    assert rewrite_event(event, event.data) == anew


def test_a_written_event_is_read_again():
    [event] = EventParser(1_000).feed(write_event(b"{}", "1-2", 100))

    assert event[:3] == (b"{}", "1-2", 100)
    assert not event.comments


def test_a_nameless_event_has_its_data_alone():
    named, primer = EventParser(1_000).feed(b": c\nid: 7\nretry: 5\ndata: a\n\nid: 8\ndata:\n\n")

    assert without_id(named)[:4] == (b"a", None, None, False)
    assert without_id(primer)[:4] == (None, None, None, False)
