from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.run.hook_client import MAX_INPUT, PROTOCOL
from toolbus.hosts.run.requests import (
    decode_header,
    encode_answer,
    encode_moved,
    hook_settings,
)

HEADER = [PROTOCOL, b"digest", b"a", b"Pre", b"id", b"/\xff", b"17"]


def test_a_header_says_what_a_client_wrote():
    request = decode_header(b"\0".join(HEADER))
    assert (request.digest, request.host, request.name) == (b"digest", "a", "Pre")
    assert (request.event_id, request.folder, request.size) == ("id", Path("/\udcff"), 17)


@pytest.mark.parametrize(
    "fields",
    [
        [b"toolbus-hook-2", *HEADER[1:]],
        HEADER[:-1],
        [*HEADER, b""],
        [*HEADER[:-1], b"-1"],
        [*HEADER[:-1], b""],
        [*HEADER[:-1], b"%d" % (MAX_INPUT + 1)],
        [*HEADER[:-1], b"9" * 5000],
    ],
)
def test_any_other_header_is_refused(fields):
    with pytest.raises(DecodeError):
        decode_header(b"\0".join(fields))


@given(st.lists(st.binary(), max_size=9))
def test_garbage_is_refused_and_nothing_else_is_raised(fields):
    with pytest.raises(DecodeError):
        decode_header(b"\0".join(fields))


def test_answers_are_kind_code_lengths_and_texts():
    answer = HookAnswer(stdout=b"out", stderr=b"error", exit_code=2)
    assert encode_answer(answer) == b"=\x02\0\0\0\x03\0\0\0\x05outerror"
    assert encode_moved(Path("/\udcff")) == b">\0\0\0\x02/\xff"


def test_settings_of_a_client_leave_time_to_say_why():
    made = hook_settings({b"store": [b"/s\xff"], b"limit": [b"10.0"]})
    assert (made.store, made.config, made.limit) == (Path("/s\udcff"), None, 9.0)
    named = {b"store": [b"/s"], b"limit": [b"10.0"], b"config": [b"/c"]}
    assert hook_settings(named).config == "/c"
