"""Unit tests of an approval in a terminal whose size changes."""

import pytest

from toolbus.approvals.questions import Question
from toolbus.cli.approvals.answers import _is_approved
from toolbus.cli.questions.question_pages import QuestionPages

LINES = "\n".join(map(str, range(60)))


class Terminal:
    """A terminal of 80 columns that has *later* rows after the line number *after* was typed."""

    columns, rows = 80, 24

    def __init__(self, typed, later=24, after=0):
        self._typed, self._later, self._after, self.text = list(typed), later, after, ""

    def write(self, text):
        self.text += text

    def ask(self, _prompt):
        self._after -= 1
        if self._after == 0:
            self.rows = self._later
        return self._typed.pop(0)


@pytest.fixture
def question():
    values = {"call_id": "c", "tool": "shell", "prompt": "?", "asked_ns": 0, "expires_ns": 1}
    return Question(
        id="q", session_id="s", arguments={"command": LINES}, digest="ab" * 32, **values
    )


def test_a_yes_counts_after_the_last_page(question):
    terminal = Terminal(["", "", "y"])

    assert _is_approved(terminal, QuestionPages(terminal, question))
    assert "page 3 of 3" in terminal.text


def test_a_yes_before_the_last_page_does_not_count(question):
    terminal = Terminal(["", "y"])

    assert not _is_approved(terminal, QuestionPages(terminal, question))


def test_a_smaller_terminal_shows_all_pages_again(question):
    terminal = Terminal(["", "", "", "y"], later=20, after=2)

    assert not _is_approved(terminal, QuestionPages(terminal, question))
    assert terminal.text.count("page 1 of") == 2


def test_a_yes_in_a_terminal_that_shrank_does_not_count(question):
    terminal = Terminal(["", "", "y", "q"], later=20, after=3)

    assert not _is_approved(terminal, QuestionPages(terminal, question))
