"""What a host wrote: an object of JSON, or nothing that anybody reads."""

import pytest

from toolbus.errors import DecodeError
from toolbus.hosts.run import event_input
from toolbus.hosts.run.event_input import read_payload


def test_an_object_is_read():
    assert read_payload(b'{"a": [1, "x"]}') == {"a": [1, "x"]}


def test_a_byte_order_mark_is_no_part_of_it():
    assert read_payload(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_half_a_character_is_mended():
    assert read_payload(rb'{"a\ud83d": "x\ud83d"}') == {"a\ufffd": "x\ufffd"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"  ",
        b"no",
        b"[1]",
        b'"x"',
        b"null",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"\xff{}",
        b"{}}",
    ],
)
def test_what_is_no_object_is_refused(data):
    with pytest.raises(DecodeError):
        read_payload(data)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_what_is_nested_without_end_is_refused(opening):
    with pytest.raises(DecodeError):
        read_payload(opening * 200_000)


def test_what_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr(event_input, "MAX_BYTES", 20)
    with pytest.raises(DecodeError, match="more than 20 bytes"):
        read_payload(b'{"a": "' + b"x" * 20 + b'"}')


def test_no_reason_quotes_what_came():
    with pytest.raises(DecodeError) as caught:
        read_payload(b'{"password": hunter2hunter2}')
    assert "hunter2" not in str(caught.value)
