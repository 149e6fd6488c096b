"""The news of a session: which turns are told, and when again."""

import asyncio

import pytest

from toolbus import AssistantMessage, ToolCall, ToolMessage, ToolResponse, UserMessage
from toolbus.history import timeline
from toolbus.history.session_news import BACKLOG, SessionNews
from toolbus.settings.usage_error import UsageError
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_factory import open_reader


@pytest.fixture
def add(tmp_path):
    """Return what appends messages to the session of a store."""

    async def append(messages):
        async with SqliteStore(tmp_path / "s.db") as store:
            for message in messages:
                await store.append("s", AppendRequest(message=message))

    return lambda *messages: asyncio.run(append(messages))


@pytest.fixture
def reader(tmp_path, add):
    add(said(1), said(2))
    with open_reader(tmp_path / "s.db", live=True) as opened:
        yield opened


def said(number):
    return UserMessage(id=f"m-{number}", content=f"words {number}")


def told(news, reader):
    """Return the news as one part, or None."""
    parts = list(news.read_on(reader))
    assert len(parts) < 2
    return parts[0] if parts else None


def numbers(part):
    """Return the numbers of the first messages of the turns in *part*."""
    return [turn.messages[0].seq for turn in part.timeline.turns]


def called(call_id):
    return AssistantMessage(
        id=f"ask-{call_id}", tool_calls=[ToolCall(id=call_id, name="read", arguments={})]
    )


def answered(call_id):
    return ToolMessage(
        id=f"answer-{call_id}",
        tool_call_id=call_id,
        tool_name="read",
        tool_response=ToolResponse(content="text"),
    )


def test_new_turns_are_told_once(reader, add):
    news = SessionNews("s")

    assert numbers(told(news, reader)) == [1, 2]
    assert not told(news, reader)
    add(said(3))
    part = told(news, reader)
    assert (numbers(part), part.timeline.end) == ([3], 3)


def test_the_last_turn_on_display_is_told_again(reader):
    assert numbers(told(SessionNews("s", 0, 1), reader)) == [2]
    assert numbers(told(SessionNews("s", 0, 2), reader)) == [2]


def test_an_answer_is_news_of_the_turn_of_its_call(reader, add):
    add(called("c-1"), said(4))
    news = SessionNews("s", 0, 2)
    assert numbers(told(news, reader)) == [3, 4]

    add(said(5), answered("c-1"))

    part = told(news, reader)
    assert (numbers(part), part.timeline.end) == ([3, 5], 6)
    assert part.timeline.turns[0].messages[0].calls[0].answer.seq == 6
    assert not told(news, reader)


def test_messages_of_a_burst_are_skipped(reader, add):
    news = SessionNews("s", 0, 2)
    told(news, reader)
    add(*[said(number) for number in range(3, 3 + BACKLOG + 1)])

    part = told(news, reader)

    assert part.skipped == range(3, 104)
    assert numbers(part) == list(range(104, 204))


def test_as_many_messages_as_may_wait_are_not_skipped(reader, add):
    news = SessionNews("s", 0, 2)
    told(news, reader)
    add(*[said(number) for number in range(3, 3 + BACKLOG)])

    part = told(news, reader)

    assert not part.skipped
    assert numbers(part) == list(range(3, 203))


def test_an_incomplete_turn_on_display_is_not_told(reader, add):
    add(called("c-1"), *[said(number) for number in range(4, 4 + BACKLOG)])

    # The first of the messages that are read again has an open call.
    assert numbers(told(SessionNews("s", 0, 202), reader)) == [203]


def test_an_unknown_session_is_named(reader):
    with pytest.raises(UsageError, match="no session 'other'"):
        told(SessionNews("other"), reader)


def test_large_messages_come_in_parts(reader, add, monkeypatch):
    monkeypatch.setattr(timeline, "_MOST_BYTES", 200)
    news = SessionNews("s", 0, 2)
    add(*[said(number) for number in range(3, 9)])

    parts = list(news.read_on(reader))

    assert len(parts) > 2
    assert [number for part in parts for number in numbers(part)] == [3, 4, 5, 6, 7, 8]
    assert not list(news.read_on(reader))


def test_a_large_turn_goes_on_behind_its_first_part(reader, add, monkeypatch):
    monkeypatch.setattr(timeline, "_MOST_BYTES", 700)
    add(called("c-1"), called("c-2"), said(5))
    news = SessionNews("s", 0, 0)
    list(news.read_on(reader))

    add(answered("c-1"), said(7), said(8), said(9), said(10))

    seen = {number for part in news.read_on(reader) for number in numbers(part)}
    assert {7, 8, 9, 10} <= seen
