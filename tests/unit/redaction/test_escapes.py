"""What escapes mean, and where what is read stands in the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.redaction.views import decoded

ESCAPES = [
    ("%40", "@"), ("%7e", "~"), ("&#64;", "@"), ("&#x40;", "@"), ("&commat;", "@"), ("&lt;", "<"),
    ("\\u0040", "@"), ("\\\\u0040", "@"), ("\\x40", "@"), ("\\n", "\n"), ("\\\\n", "\n"),
    ("\\t", "\t"), ('\\"', '"'), ("\\/", "/"), ("&nbsp;", "\u00a0"), ("&#x1F600;", "😀"),
]  # fmt: skip
NONE = [
    "%4",
    "%zz",
    "%C3",
    "&#;",
    "&x;",
    "&nothing;",
    "&#0;",
    "&#x110000;",
    "\\ud800",
    "\\q",
    "a&b",
]


@pytest.mark.parametrize(("escape", "sign"), ESCAPES)
def test_an_escape_is_read_as_its_sign(escape, sign):
    data = f"é a{escape}b".encode()
    view = decoded(data)

    assert view.data.decode() == f"\né a{sign}b"
    start = view.data.index(sign.encode(), 1)
    first, end = view.span(start, start + len(sign.encode()))
    assert data[first:end].decode() == escape
    first, end = view.span(start - 1, start + len(sign.encode()) + 1)
    assert data[first:end].decode() == f"a{escape}b"


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_escape_is_not_read_anew(text):
    assert decoded(text.encode()) is None


def test_only_lines_with_escapes_are_read_anew():
    data = b"one\ntwo%40\nthree\nfour &lt; five\nsix"

    view = decoded(data)

    assert view.data == b"\ntwo@\nfour < five"
    assert [data[slice(*view.span(at, at + 4))] for at in (1, 6)] == [b"two%40", b"four"]


def test_a_letter_is_not_cut():
    for size in range(1_000, 1_004):
        for sign in ("é", "語", "😀"):
            view = decoded((sign * size + "x" * (size % 4) + "%40" + sign * size).encode())

            assert "@" in view.data.decode()


def test_of_a_long_line_what_is_near_is_read():
    view = decoded(b"x" * 10_000 + b"%40" + "é".encode() * 10_000)

    assert len(view.data) < 1_100
    assert "@" in view.data.decode()


PIECES = st.lists(
    st.sampled_from(["a", "é", "\n", " ", "%40", "&#64;", "\\n", "\\u00e9", "&x;", "%"])
)


@given(PIECES)
def test_every_span_leads_back(pieces):
    data = "".join(pieces).encode()
    view = decoded(data)

    if view is not None:
        text = view.data.decode()
        for index, sign in enumerate(text):
            if sign != "\n":
                start = len(text[:index].encode())
                first, end = view.span(start, start + len(sign.encode()))
                written = data[first:end].decode()
                again = decoded(written.encode())
                assert written == sign or again.data.decode().removeprefix("\n") == sign
