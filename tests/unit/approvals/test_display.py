"""The layout of a question: each row is ours or quoted, and fits the width."""

import re
import time
from unicodedata import east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.approvals.display import (
    channel_text,
    grant_words,
    question_rows,
    value_rows,
)
from toolbus.approvals.questions import Question
from toolbus.cli.questions.question_pages import page_height, split_pages

CHARACTERS = st.one_of(
    st.sampled_from("\x1b\\\n│… \u202e\u200b\u0430\u0338a"), st.characters(codec="utf-8")
)
NASTY = st.text(alphabet=CHARACTERS, max_size=60)
NAMED = st.dictionaries(NASTY, st.one_of(NASTY, st.integers(0, 9), st.lists(NASTY, max_size=2)))
OUR_ROWS = re.compile(
    r"the model calls \S+$|the model calls the tool|may this run begin|    |in session|of |by agent"
    r"|below session|asked [0-9]|asked by|by the rule|why asked|no arguments|not as the model"
    r"|as the model|the model wrote|it is now|a name of |its value|digest "
    r"|[\w$.\[\]\\/:-]+(?: \(|$)"
)


def question(**fields):
    values = {
        "id": "q1",
        "session_id": "s",
        "call_id": "c",
        "tool": "shell",
        "digest": "ab" * 32,
        "prompt": "may this go on?",
        "asked_ns": 10**18,
        "expires_ns": 10**18 + 10**12,
    }
    return Question(**(values | fields))


def texts(rows):
    return [row.text for row in rows]


@given(
    st.builds(
        question,
        tool=NASTY,
        prompt=NASTY,
        rule=NASTY,
        guard=NASTY,
        arguments=NAMED,
        requested_arguments=st.one_of(st.none(), NAMED),
    )
)
def test_every_row_is_ours_or_a_quotation(asked):
    for row in texts(question_rows(asked, 60)):
        assert row.isprintable()
        assert row.startswith(("│ ", "│…")) or OUR_ROWS.match(row), row
        if row.isascii() or row.startswith("│"):
            assert sum(2 if east_asian_width(char) in "WF" else 1 for char in row) <= 60


@pytest.mark.parametrize(
    ("value", "note", "rows"),
    [
        ("5", "", ["│ 5"]),
        (5, "a number", ["│ 5"]),
        (True, "true or false", ["│ true"]),
        (None, "null", ["│ null"]),
        ("", "an empty text", ["│ "]),
        ([], "a list", ["│ []"]),
        ({"a": [1]}, "an object", ["│ {", '│   "a": [', "│     1", "│   ]", "│ }"]),
        ("a\u200b", "written with escapes", [r"│ a\u200b"]),
    ],
)
def test_a_note_names_the_type_of_a_value(value, note, rows):
    assert value_rows(value, 40) == (note, rows)


def test_a_name_like_our_words_is_quoted():
    rows = texts(question_rows(question(arguments={"why asked": 1, "path": 2}), 80))

    assert rows.count("why asked") == 1
    assert "│ why asked" in rows
    assert "path (a number)" in rows


def test_pages_hold_all_rows_in_order():
    asked = question(arguments={"content": "\n".join(map(str, range(100)))})

    pages = split_pages(question_rows(asked, 60), 12)

    assert {len(page) for page in pages[:-1]} == {11}
    assert [row for page in pages for row in page[1:]] == question_rows(asked, 60)
    assert pages[1][0].text == f"page 2 of {len(pages)}"


@pytest.mark.parametrize(("columns", "rows"), [(20, 6), (44, 24), (57, 8), (80, 24)])
def test_no_page_is_scrolled_away_by_its_prompt(columns, rows):
    asked = question(id="0123456789abcdef", arguments={"content": "\n".join(map(str, range(200)))})
    asks = ("Enter shows the next page [n, n and a reason, ? for more] ", "approve? ")

    pages = split_pages(question_rows(asked, columns), page_height(rows, columns, *asks))

    for page in pages:
        # With the "y" that is typed: as a terminal wraps it.
        lines = [*texts(page), f"{asks[0]}y"]
        assert sum(-(-max(len(line), 1) // columns) for line in lines) <= rows
    assert [row for page in pages for row in page[1:]] == question_rows(asked, columns)


def test_a_small_channel_gets_a_notice():
    asked = question(arguments={"content": "x" * 1_000})
    whole = channel_text(asked, 5_000)

    notice = channel_text(asked, 500)

    assert whole.is_whole
    assert "x" * 70 in whole.text
    assert not notice.is_whole
    assert "too long" in notice.text
    assert len(channel_text(asked, 10).text) == 10


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("days", [0, 1, 3])
def test_a_channel_gets_the_same_text_in_each_time_zone_and_on_each_day(monkeypatch, zone, days):
    # An answer counts only for a whole text, which its receiver makes again, later and elsewhere.
    asked = question(arguments={"command": "ls"})
    expected = channel_text(asked, 5_000)
    now = asked.asked_ns + days * 86_400 * 10**9

    with monkeypatch.context() as patches:
        patches.setenv("TZ", zone)
        time.tzset()
        patches.setattr(time, "time_ns", lambda: now)
        text = channel_text(asked, 5_000)
    time.tzset()

    assert text == expected
    assert "asked 2001-09-09 01:46:40 UTC" in " ".join(text.text.split())


@pytest.mark.parametrize("requested", [{}, {"a": 1}])
def test_our_rows_on_changes_fit_the_least_terminal(requested):
    asked = question(arguments={"a": 1}, requested_arguments=requested)

    assert max([len(row.text) for row in question_rows(asked, 20)]) <= 20


def test_the_words_of_a_tool_and_session_stay_apart_from_ours():
    values = {"id": "q", "session_id": "s", "call_id": "c", "digest": "ab" * 32, "arguments": {}}
    values |= {"prompt": "", "asked_ns": 0, "expires_ns": 1}

    plain = grant_words(Question(tool="fs__read", **values), "session")
    words = grant_words(Question(tool="read, but only this file", **values), "session")

    assert plain.startswith("a yes allows every call of fs__read, whatever its arguments, in ")
    assert words == plain.replace("fs__read", "'read, but only this file'")


def test_the_words_on_a_grant_quote_an_id_with_spaces():
    values = {"id": "q", "session_id": "s, for 1 second", "call_id": "c", "digest": "ab" * 32}
    values |= {"prompt": "", "asked_ns": 0, "expires_ns": 1, "tool": "pay"}

    assert "in session 's, for 1 second', until it ends" in grant_words(
        Question(**values), "session"
    )
