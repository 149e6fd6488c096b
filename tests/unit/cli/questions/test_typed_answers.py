"""The meaning of a typed line."""

import pytest

from toolbus.approvals.questions import Question
from toolbus.cli.questions.keyboard import INTERRUPT
from toolbus.cli.questions.typed_answers import TypedAnswer, grant_words, read_answer

LINES = {
    " Y ": TypedAnswer("yes"),
    "yes": TypedAnswer("yes"),
    "y for 1h": TypedAnswer("unclear"),
    "yes please": TypedAnswer("unclear"),
    "n": TypedAnswer("no"),
    INTERRUPT: TypedAnswer("no"),
    "no  take git ": TypedAnswer("no", "take git"),
    "session": TypedAnswer("yes", grant="session"),
    "for 90s": TypedAnswer("yes", grant=90.0),
    "for 1h": TypedAnswer("yes", grant=3600.0),
    "for 0s": TypedAnswer("unclear"),
    "for ever": TypedAnswer("unclear"),
    "": TypedAnswer("next"),
    "v": TypedAnswer("details"),
    "q": TypedAnswer("leave"),
    "?": TypedAnswer("help"),
    "\x03y": TypedAnswer("unclear"),
    "\uff59": TypedAnswer("unclear"),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_has_one_meaning(line):
    assert read_answer(line) == LINES[line]


@pytest.mark.parametrize("reason", ["x" * 4_001, "\udcff"])
def test_an_unstorable_reason_is_not_an_answer(reason):
    typed = read_answer(f"n {reason}")

    assert typed.meaning == "unclear"
    assert "the reason" in typed.reason


def test_the_words_of_a_tool_stay_apart_from_ours():
    values = {"id": "q", "session_id": "s", "call_id": "c", "digest": "ab" * 32, "arguments": {}}
    values |= {"prompt": "", "asked_ns": 0, "expires_ns": 1}

    plain = grant_words(Question(tool="fs__read", **values), "session")
    words = grant_words(Question(tool="read, but only this file", **values), "session")

    assert plain.startswith("a yes allows every call of fs__read, whatever its arguments, in ")
    assert words == plain.replace("fs__read", "'read, but only this file'")
