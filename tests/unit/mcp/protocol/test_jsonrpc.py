"""Frames and lines, also broken ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import (
    FrameTooLongError,
    LineSplitter,
    error_frame,
    read_batch,
    read_frame,
    read_json,
    scan_top_level,
    write_frame,
)
from toolbus.mcp.session.request_table import OpenRequest, RequestTable


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_lines_are_the_stream_however_it_is_cut(data, cuts):
    lines, found, at = LineSplitter(100), [], 0
    for cut in sorted(cuts):
        found += lines.feed(data[at:cut])
        at = max(at, cut)
    found += lines.feed(data[at:])

    whole = data.splitlines(keepends=True) if b"\r" not in data else None
    assert b"".join(found) + lines.remainder == data
    assert all(one.count(b"\n") == 1 and one.endswith(b"\n") for one in found)
    assert whole is None or b"\n" not in lines.remainder


def test_a_line_beyond_the_limit_is_an_error():
    lines = LineSplitter(4)

    assert lines.feed(b"1234\n12") == [b"1234\n"]
    with pytest.raises(FrameTooLongError, match="more than 4 bytes; raise the limit"):
        lines.feed(b"345")


@pytest.mark.parametrize("line", [b"", b"[]", b"1", b'{"id":{}}', b'{"id":[1]}', b"{", b"\xff"])
def test_what_is_no_frame_is_none(line):
    assert read_frame(line) is None


def test_what_is_nested_too_deeply_is_no_json():
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(b"[" * 100_000 + b"]" * 100_000)
    assert read_batch(b"[" * 100_000) is None
    assert read_batch(b"[1") is None


@pytest.mark.parametrize(
    ("line", "own"),
    [
        (b'{"id":1,"res', 1),
        (b'{"id" : "a\\"b","res', 'a"b'),
        (b'{"id":1,"id":2', UNSET),
        (b'{"params":{"id":2},"id":1,"res', 1),
        (b'{"params":{"id":2', UNSET),
        (b'{"id":"\\ud83d","res', "\ud83d"),
        (b"nothing", UNSET),
        (b'{"id":"\\x"', UNSET),
        (b'{"id":1.5e1,"res', 15.0),
        (b'{"id":1e400,"res', UNSET),
        (b'{"id":0x10,"res', UNSET),
        (b'{"id":1_0,"res', UNSET),
        (b'{"id":NaN,"res', UNSET),
        (b'{"id":true,"res', UNSET),
    ],
)
def test_a_broken_line_may_tell_its_id(line, own):
    assert scan_top_level(line)[0] == own


def test_abandoned_requests_are_remembered_for_a_while():
    exchanges = RequestTable()
    for own in range(1_001):
        exchanges.add(OpenRequest(own, "x", print))
        exchanges.abandon(own)
    exchanges.add(OpenRequest("a", "x", print))
    exchanges.add(OpenRequest("a", "y", print))

    assert exchanges.abandon("nobody") is None
    assert exchanges.pop(0) is None
    assert exchanges.pop(1) is not None
    assert [exchanges.pop("a").method, exchanges.pop("a").method] == ["x", "y"]
    assert exchanges.pop("a") is None
    assert exchanges.pop_all() == []


@pytest.mark.parametrize("own", [b"true", b"false", b"[]", b"{}"])
def test_what_is_no_id_makes_no_frame(own):
    assert read_frame(b'{"jsonrpc":"2.0","id":%s,"result":{}}' % own) is None


@pytest.mark.parametrize("value", [rb'"\ud83d"', b"NaN", b'{"a":-Infinity}'])
def test_what_only_some_read_is_a_frame_as_well(value):
    request = read_frame(b'{"id":1,"method":"x","params":%s}' % value)
    answers = read_batch(b'[{"id":1,"result":%s}, 1]' % value)

    assert (request.id, request.method, request.is_request) == (1, "x", True)
    assert (len(answers), read_frame(answers[0]).is_response) == (2, True)
    assert read_frame(b'{"id":1,"method":2,"params":%s}' % value) is None


def test_an_answer_has_the_id_of_its_request_however_broken():
    assert json.loads(error_frame("\ud83d", -1, "no"))["id"] == "\ud83d"


def test_a_line_is_one_line_to_every_reader():
    text = "".join(map(chr, range(0x2100))) + "\U0001f600"
    line = write_frame(params=text)

    assert line.decode().splitlines() == [line.decode()[:-1]]
    assert json.loads(line)["params"] == text
