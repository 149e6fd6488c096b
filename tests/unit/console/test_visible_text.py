"""What a question shows of a stranger's text: all of it, and nothing that looks like ours."""

from unicodedata import east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.console.visible_text import brief, value_rows

MARKS = "│ ", "│…"


def unescaped(text):
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape")


def read_back(note, rows):
    """Return the text that a person sees in *rows*."""
    lines = []
    for row in rows:
        assert row.startswith(MARKS)
        if row.startswith(MARKS[0]):
            lines.append("")
        lines[-1] += row[2:]
    return "\n".join(unescaped(line) if note else line for line in lines)


@given(
    st.text(
        alphabet=st.one_of(st.sampled_from("\x1b\\n\n│… \u202e漢"), st.characters(codec="utf-8"))
    )
)
def test_a_text_is_shown_exactly_in_rows_that_fit(text):
    for width in (8, 30):
        note, rows = value_rows(text, width)

        assert read_back(note, rows) == text
        for row in rows:
            assert row.isprintable()
            assert sum(2 if east_asian_width(char) in "WF" else 1 for char in row) <= width


@pytest.mark.parametrize(("value", "shown"), [({"a": [1, None]}, '{"a":[1,null]}'), (5, "5")])
def test_what_is_no_text_is_json(value, shown):
    assert value_rows(value, 40) == ("", [f"│ {shown}"])


def test_a_long_name_says_how_long_it_is():
    assert brief("x" * 300) == f"{'x' * 48}… (300 characters)"
    assert brief("\x1b[2J") == "\\x1b[2J"
