"""A question is answered in a terminal that shows all of it."""

import pytest

from toolbus.approvals.questions import Question
from toolbus.cli.questions.approving import show_pages
from toolbus.settings.usage_error import UsageError


class Terminal:
    """Stands for a terminal of 80 columns; when somebody types it gets *later* rows."""

    columns, rows = 80, 24

    def __init__(self, later=24):
        self._later, self.text = later, ""

    def write(self, text):
        self.text += text

    def ask(self, _prompt):
        self.rows = self._later
        return ""


def test_pages_are_shown_in_one_size():
    lines = "\n".join(map(str, range(60)))
    values = {"call_id": "c", "tool": "shell", "prompt": "?", "asked_ns": 0, "expires_ns": 1}
    question = Question(
        id="q", session_id="s", arguments={"command": lines}, digest="ab" * 32, **values
    )
    whole = Terminal()
    assert show_pages(whole, question)
    assert "page 4 of 4" in whole.text

    with pytest.raises(UsageError, match="became smaller"):
        show_pages(Terminal(later=10), question)
