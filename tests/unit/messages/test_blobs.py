from base64 import b64decode, b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.messages.blobs import text_in


def encoded(raw):
    return b64encode(raw).decode()


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.sampled_from([b64encode, urlsafe_b64encode]),
    st.booleans(),
    st.booleans(),
)
def test_base64_is_read_as_clients_read_it(text, encode, padded, broken):
    data = encode(text.encode()).decode()
    data = data if padded else data.rstrip("=")

    assert text_in("\r\n".join([data[:8], data[8:]]) if broken else data).text == text


@pytest.mark.parametrize(
    "data",
    [
        *("a", "jane@example.com", "/////w=="[:-1] + "!"),
        *map(
            encoded, (bytes(range(256)), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff", b"\xff\x01\x02" * 20)
        ),
    ],
)
def test_what_is_no_text_in_base64_has_none(data):
    assert text_in(data) is None


def test_a_letter_may_stand_across_the_head():
    text = "a" * 767 + "ü" * 9

    assert text_in(encoded(text.encode())).text == text


@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_a_text_is_written_as_it_was_read(codec):
    raw = "name: é, and more of it: ß\n".encode(codec)

    blob = text_in(encoded(raw))

    assert "more of it" in blob.text
    assert b64decode(blob.encoded(blob.text)) == raw


def test_what_a_codec_lacks_makes_utf_8_of_a_text():
    blob = text_in(encoded(b"caf\xe9"))

    assert (blob.codec, b64decode(blob.encoded("日")).decode()) == ("latin-1", "日")


def test_one_byte_that_is_wrong_makes_no_other_file_of_a_text():
    raw = ("text " * 100).encode() + b"\xc3 cut" + bytes([1])

    assert text_in(encoded(raw)).codec == "latin-1"
