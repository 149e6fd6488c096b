"""Untrusted text as a person sees it: all of it, and no row like our own words."""

from time import process_time
from unicodedata import east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.settings.visible_text import make_visible, quote_rows, shorten_visible

MARKS = "│ ", "│…"
TRICKS = "\x1b\\n\n │… \u202e\u200b漢\u0430\u0338\uff0f\u0301éx"


def unescaped(text):
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape")


def read_back(notes, rows):
    """Return the text that a person sees in *rows*."""
    lines = []
    for row in rows:
        assert row.startswith(MARKS)
        if row.startswith(MARKS[0]):
            lines.append("")
        lines[-1] += row[2:]
    return "\n".join(unescaped(line) if notes else line for line in lines)


@given(st.text(alphabet=st.one_of(st.sampled_from(TRICKS), st.characters(codec="utf-8"))))
def test_a_text_is_shown_exactly_in_rows_that_fit(text):
    shown = make_visible(text)
    for width in (8, 30):
        rows = quote_rows(shown.text, width)

        assert read_back(shown.notes, rows) == text
        for row in rows:
            assert row.isprintable()
            assert sum(2 if east_asian_width(char) in "WF" else 1 for char in row) <= width


@given(st.text(alphabet=st.sampled_from(TRICKS)))
def test_a_line_is_one_row_and_read_back(text):
    shown = make_visible(text, one_line=True)

    assert shown.text.isprintable()
    assert (unescaped(shown.text) if shown.notes else shown.text) == text


@pytest.mark.parametrize(
    "text",
    [
        "plain words, an é and a naïve façade",
        "кириллица и test",
        "он пошёл с ним, а она у окна",  # noqa: RUF001 - real words
        "λόγος, α, ο",  # noqa: RUF001 - as above
        "Ελληνικά",
        "漢字とカナ 한글",
        "שלום hello",
        "हिन्दी",
        "10 µs, 5 m², 1ª",
        "файл.txt",
        "C:\\Users\\x",
        "two\n\nlines  of it",
        "“quotes” — and a dash…",
        "",
    ],
)
def test_ordinary_text_is_unchanged(text):
    assert make_visible(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p\u0430ypal", r"p\u0430ypal"),
        ("\u0441\u0430t", r"\u0441\u0430t"),
        ("p0\u0443", r"p0\u0443"),
        ("p\u0301\u0430y", r"p\u0301\u0430y"),
        ("\uff50ath", r"\uff50ath"),
        ("a\u2215b", r"a\u2215b"),
        ("rm\u037e", r"rm\u037e"),
        ("\U0001d4eaway", r"\U0001d4eaway"),
        ("/\u0338", r"/\u0338"),
        ("n\u0336o", r"n\u0336o"),
        ("x\u0301\u0301\u0301\u0301", "x\u0301\u0301\u0301\\u0301"),
        (
            "https://\u0430\u0440\u0440\u04cf\u0435.com",
            r"https://\u0430\u0440\u0440\u04cf\u0435.com",
        ),
        ("/\u0441\u043e\u0440\u0443", r"/\u0441\u043e\u0440\u0443"),
        ("/tmp/\u0421\u041e\u0420\u0423 # привет", r"/tmp/\u0421\u041e\u0420\u0423 # привет"),
        ("a\U00017000b", r"a\U00017000b"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200bb\\", r"a\u200bb\\"),
        ("\u3164", r"\u3164"),
        (" x ", r"\x20x\x20"),
        ("x\n", r"x\n"),
        ("\n\n x", r"\n\n\x20x"),
        ("a \nb", "a\\x20\nb"),
        ("\t", r"\t"),
        ("\ud800", r"\ud800"),
        ("  ", r"\x20\x20"),
    ],
)
def test_deceptive_characters_are_escaped(text, shown):
    assert make_visible(text).text == shown
    assert make_visible(text).notes[0] == "written with escapes"


def test_look_alikes_are_named():
    assert make_visible("p\u0430yp\u0430l").notes[1:] == (r"\u0430 is CYRILLIC SMALL LETTER A",)
    many = "x\u0430 x\u0435 x\u043e x\u0440 x\u0441"
    assert make_visible(many).notes[-1] == "and 2 more like these"


def test_time_is_linear_in_the_length():
    blanks = make_visible(" " * 200_000 + "x" + "\n" * 200_000 + "x")

    assert len(blanks.text) == 4 * 200_000 + 200_002


def test_a_long_name_has_its_length():
    assert shorten_visible("x" * 300) == f"{'x' * 48}… (300 characters)"
    assert shorten_visible("\x1b[2J") == "\\x1b[2J"
    assert shorten_visible("a\nb") == "a\\nb"


def test_a_long_line_takes_linear_time():
    started = process_time()

    (row,) = quote_rows("é" * 1_000_000, 10**9)

    assert len(row) == 1_000_002
    assert process_time() - started < 3  # Seconds; at quadratic cost it takes 20.
