"""Pages of a question in a terminal whose size changes."""

import pytest

from toolbus.approvals.questions import Question
from toolbus.approvals.records import digest_of
from toolbus.cli.questions.question_pages import QuestionPages
from toolbus.settings.usage_error import UsageError


class Typewriter:
    """A keyboard at a terminal whose size is set."""

    columns, rows = 40, 12

    def __init__(self):
        self.written = []

    def write(self, text):
        self.written.append(text)


@pytest.fixture(autouse=True)
def without_colours(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def question():
    arguments = {"command": "x" * 200}
    values = {"call_id": "c", "tool": "shell", "prompt": "?", "asked_ns": 0, "expires_ns": 1}
    digest = digest_of("shell", arguments)
    return Question(id="q", session_id="s", arguments=arguments, digest=digest, **values)


def shown_whole(keyboard, question):
    shown = QuestionPages(keyboard, question)
    while not shown.is_seen:
        shown.show_next()
    return shown


def test_every_page_is_shown_once(question):
    keyboard = Typewriter()

    shown = shown_whole(keyboard, question)
    shown.show_next()

    text = "".join(keyboard.written)
    assert text.count("x") - text.count("expire") == 200
    assert f"page {len(keyboard.written)} of {len(keyboard.written)}" in keyboard.written[-1]
    assert max(map(len, text.splitlines())) <= keyboard.columns


@pytest.mark.parametrize("size", [(30, 12), (40, 8)])
def test_a_smaller_terminal_begins_again(question, size):
    keyboard = Typewriter()
    shown = QuestionPages(keyboard, question)
    shown.show_next()

    keyboard.columns, keyboard.rows = size
    shown.show_next()

    assert "page 1 of" in keyboard.written[-1]
    assert max(map(len, keyboard.written[-1].splitlines())) <= size[0]


def test_a_small_terminal_shows_nothing(question):
    keyboard = Typewriter()
    keyboard.columns = 19
    shown = QuestionPages(keyboard, question)

    with pytest.raises(UsageError, match="make it larger"):
        shown.show_next()

    assert (keyboard.written, shown.is_seen) == ([], False)


@pytest.mark.parametrize("size", [(30, 12), (40, 8)])
def test_a_shrunk_terminal_has_seen_nothing(question, size):
    keyboard = Typewriter()
    shown = shown_whole(keyboard, question)

    keyboard.columns, keyboard.rows = size

    assert not shown.is_seen
    shown.show_next()
    assert "page 1 of" in keyboard.written[-1]
