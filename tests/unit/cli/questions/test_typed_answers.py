"""The meaning of a typed line."""

import pytest

from toolbus.cli.questions.keyboard import INTERRUPT
from toolbus.cli.questions.typed_answers import TypedAnswer, read_answer

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
