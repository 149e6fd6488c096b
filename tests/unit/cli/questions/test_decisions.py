"""Unit tests of the decision that a person types below the pages of a question."""

import pytest

from toolbus.approvals.questions import Question
from toolbus.cli.questions.question_pages import QuestionPages
from toolbus.cli.questions.typed_answers import Choices, TypedAnswer, read_decision

DIGEST = "ab" * 32


class Typist:
    """A keyboard of 80 columns at which *lines* are typed; it has 20 rows after *shrinks* lines."""

    columns, rows = 80, 24

    def __init__(self, *lines, shrinks=0):
        self._lines, self._shrinks, self.text = list(lines), shrinks, ""

    def write(self, text):
        self.text += text

    async def ask(self, prompt):
        self.text += prompt
        self._shrinks -= 1
        if not self._shrinks:
            self.rows = 20
        return self._lines.pop(0)


@pytest.fixture
def decide(monkeypatch):
    """Return a function that gives the decision after *lines*, and the text that was shown."""
    monkeypatch.setenv("NO_COLOR", "1")
    values = {"call_id": "c", "tool": "shell", "prompt": "?", "asked_ns": 0, "expires_ns": 1}

    async def run(*lines, command="ls", shrinks=0, **choices):
        typist = Typist(*lines, shrinks=shrinks)
        arguments = {"command": command}
        question = Question(id="q", session_id="s", digest=DIGEST, arguments=arguments, **values)
        pages = QuestionPages(typist, question)
        return await read_decision(typist, pages, Choices("", **choices)), typist.text

    return run


async def test_enter_skips_only_where_that_is_a_choice(decide):
    skipped, _ = await decide("", may_skip=True)
    refused, _ = await decide("", "n no")

    assert skipped == TypedAnswer("next")
    assert refused == TypedAnswer("no", "no")


async def test_q_leaves_only_where_that_is_a_choice(decide):
    left, _ = await decide("q", may_skip=True)
    approved, text = await decide("q", "y")

    assert left is None
    assert approved == TypedAnswer("yes")
    assert "not an answer" in text


async def test_a_grant_is_confirmed(decide):
    granted, text = await decide("session", "n", "for 1h", "y")
    refused, other = await decide("session", "n", may_grant=False)

    assert granted == TypedAnswer("yes", grant=3600.0)
    assert text.count("a yes allows every call of shell") == 2
    assert refused == TypedAnswer("no")
    assert "a grant is not possible here" in other


async def test_the_digest_is_shown_on_demand(decide):
    _, short = await decide("y")
    _, details = await decide("v", "y")

    assert DIGEST not in short
    assert f"digest {DIGEST}" in details


LINES = "\n".join(map(str, range(60)))


async def test_a_yes_counts_after_the_last_page(decide):
    approved, text = await decide("", "y", "", "y", command=LINES)

    assert approved == TypedAnswer("yes")
    assert "page 3 of 3" in text
    assert text.count("a yes counts only after the last page") == 1


@pytest.mark.parametrize("shrinks", [2, 3])
async def test_a_smaller_terminal_shows_all_pages_again(decide, shrinks):
    before = ["", ""] if shrinks == 2 else ["", "", "y"]

    refused, text = await decide(*before, "", "", "n", command=LINES, shrinks=shrinks)

    assert refused == TypedAnswer("no")
    assert text.count("page 1 of") == 2
