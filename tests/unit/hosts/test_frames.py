"""Frames and lines, also broken ones."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from toolbus.hosts.mcp.exchanges import Asked, Exchanges
from toolbus.hosts.mcp.frames import (
    FrameTooLongError,
    Lines,
    guess_id,
    is_exact,
    is_single,
    make_single,
    read_batch,
    read_frame,
    read_json,
)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_lines_are_the_stream_however_it_is_cut(data, cuts):
    lines, found, at = Lines(100), [], 0
    for cut in sorted(cuts):
        found += lines.feed(data[at:cut])
        at = max(at, cut)
    found += lines.feed(data[at:])

    whole = data.splitlines(keepends=True) if b"\r" not in data else None
    assert b"".join(found) + lines.left == data
    assert all(one.count(b"\n") == 1 and one.endswith(b"\n") for one in found)
    assert whole is None or b"\n" not in lines.left


def test_a_line_beyond_the_limit_is_an_error():
    lines = Lines(4)

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
    ("line", "exact"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', True),
        (b'{"jsonrpc":"2.0","method":"x","params":{}}', True),
        (b'{"id":1,"result":{}}', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"more":1}', False),
        (b'{"jsonrpc":"2.0","id":1,"result":"a","error":{}}', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"params":"a"}', False),
        (b'{"jsonrpc":"a","id":1,"result":{}}', False),
        (b'{"jsonrpc":["a"],"id":1,"result":{}}', False),
    ],
)
def test_a_frame_may_say_more_than_json_rpc_knows(line, exact):
    assert is_exact(read_frame(line), line) is exact


@pytest.mark.parametrize(
    ("line", "own"),
    [
        (b'{"id":1,"res', 1),
        (b'{"id" : "a\\"b","res', 'a"b'),
        (b'{"id":1,"id":2', UNSET),
        (b"nothing", UNSET),
        (b'{"id":"\\x"', UNSET),
    ],
)
def test_a_broken_line_may_tell_its_id(line, own):
    assert guess_id(line) == own


def test_abandoned_requests_are_remembered_for_a_while():
    exchanges = Exchanges()
    for own in range(1_001):
        exchanges.add(Asked(own, "x", print))
        exchanges.abandon(own)
    exchanges.add(Asked("a", "x", print))
    exchanges.add(Asked("a", "y", print))

    assert exchanges.abandon("nobody") is None
    assert exchanges.take(0) is None
    assert exchanges.take(1) is not None
    assert [exchanges.take("a").method, exchanges.take("a").method] == ["x", "y"]
    assert exchanges.take("a") is None
    assert exchanges.take_all() == []


@pytest.mark.parametrize(
    ("line", "single"),
    [
        (b'{"a":1,"b":{"a":2}}', True),
        (b'{ "a" : 1.0, "b" : "\\u00e9" }\n', True),
        (b'{"a":"\\ud800"}', True),
        (b'{"a":1,"a":1}', False),
        (b'[{"a":{"b":1,"\\u0062":2}}]', False),
        (b'{"a":1e999,"a":1}', False),
        (b"[" * 5000 + b"]" * 5000, False),
        (b"{", False),
    ],
)
def test_members_that_are_there_twice_are_found(line, single):
    assert is_single(line) is single


def test_the_last_of_two_members_stays():
    assert make_single(b'{"a":1, "b":{"c":1,"c":2}, "a":3}\n') == b'{"a":3,"b":{"c":2}}\n'
    assert make_single(b'{ "a": 1 }\n') == b'{ "a": 1 }\n'
    assert make_single(b'{"a":1e999,"a":1}') is None


@pytest.mark.parametrize("own", [b"true", b"false", b"[]", b"{}"])
def test_what_is_no_id_makes_no_frame(own):
    assert read_frame(b'{"jsonrpc":"2.0","id":%s,"result":{}}' % own) is None


KEYS = ['"a"', '"b"', r'"\u0061"', r'"c\""', '""', '":"']
VALUES = ["1", '"x"', r'"a\":b"', "null", r'"\":"', r'"\\"', "[]", "{}"]


def some_json(chance: random.Random, depth: int) -> str:
    """Return JSON in which names are likely to come twice, and texts look like names."""
    kind = chance.random()
    if not depth or kind < 0.3:
        return chance.choice(VALUES)
    inner = [some_json(chance, depth - 1) for _ in range(chance.randint(0, 4))]
    if kind < 0.5:
        return f"[{','.join(inner)}]"
    spaces = ["", "", "", " ", "\t"]
    members = [f"{chance.choice(KEYS)}{chance.choice(spaces)}:{one}" for one in inner]
    return f"{{{','.join(members)}}}"


def test_whether_a_member_is_said_twice_is_what_a_reader_of_all_members_says():
    def once(members):
        assert len(dict(members)) == len(members)

    def is_single_by_hand(text):
        try:
            json.loads(text, object_pairs_hook=once)
        except AssertionError:
            return False
        return True

    chance = random.Random(3)
    texts = [some_json(chance, 4) for _ in range(3_000)]

    found = [is_single(text.encode()) for text in texts]

    assert found == [is_single_by_hand(text) for text in texts]
    assert 500 < sum(found) < 2_500
