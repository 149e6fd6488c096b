"""The texts of a very long session."""

import pytest

from toolbus import ToolMessage
from toolbus.flow.labels import Label
from toolbus.flow.session_views import SessionView

PAGE = Label(speaker="tool", name="fetch")


@pytest.fixture
def view(monkeypatch):
    empty = SessionView()
    monkeypatch.setattr(SessionView, "most_characters", empty.characters + 100)
    return empty


def add(view, number, text):
    message = ToolMessage(
        id=f"m{number}", tool_call_id=f"c{number}", tool_name="fetch", content=text
    )
    view.add(message, PAGE, (text,))


def test_the_oldest_texts_are_dropped_and_may_be_quoted_by_any_call(view):
    for number in range(5):
        add(view, number, "x" * 40)

    assert view.characters == view.most_characters - 20
    assert [len("".join(each.texts)) for each in view.texts] == [0, 0, 0, 40, 40]
    assert [each.index.is_complete for each in view.texts] == [False] * 3 + [True] * 2
    assert [each.label for each in view.texts] == [PAGE] * 5


def test_the_newest_text_stays(view):
    add(view, 1, "x" * 1_000)

    assert view.texts[0].index.is_complete


def test_secrets_of_dropped_texts_are_known(view):
    add(view, 1, "KEY=sk_live_51Nq8vKLzR3mXw7TtYpB0aHs2")
    add(view, 2, "x" * 1_000)

    assert not view.texts[0].texts
    assert "r3mxw7ttypb0" in view.texts[0].secrets
