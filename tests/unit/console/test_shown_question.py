"""A question counts as seen only in a terminal that shows it as it was written there."""

import pytest

from toolbus.approvals.questions import Question
from toolbus.console.approving import show_pages
from toolbus.console.shown_question import ShownQuestion
from toolbus.terminal.screen import UsageError

LINES = "\n".join(map(str, range(60)))


class Terminal:
    """Stands for a terminal, and for the keyboard at it; it *shrinks* when somebody types."""

    def __init__(self, shrinks=()):
        self.columns, self.rows, self.text = 80, 24, ""
        self._shrinks = list(shrinks)

    def write(self, text):
        self.text += text

    def ask(self, _prompt):
        if self._shrinks:
            self.rows = self._shrinks.pop()
        return ""


def question(text):
    return Question(
        id="q1",
        session_id="s",
        call_id="c",
        tool="shell",
        arguments={"command": text},
        digest="ab" * 32,
        prompt="may this go on?",
        asked_ns=10**18,
        expires_ns=10**18 + 10**12,
    )


@pytest.mark.parametrize("smaller", [{"rows": 8}, {"columns": 30}])
def test_what_was_seen_before_a_terminal_shrank_is_shown_again(smaller):
    terminal = Terminal()
    shown = ShownQuestion(terminal, question("ls"), [], None)
    shown.show_next()
    assert shown.is_seen

    vars(terminal).update(smaller)

    assert not shown.is_seen
    shown.show_next()
    assert terminal.text.count("page 1 of ") == 2


def test_an_answer_needs_pages_of_one_size():
    assert show_pages(Terminal(), question(LINES))

    with pytest.raises(UsageError, match="became smaller"):
        show_pages(Terminal(shrinks=[10]), question(LINES))
