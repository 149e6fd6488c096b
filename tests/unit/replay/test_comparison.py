"""Both verdicts on each call of a session, where rows are damaged, many, or from elsewhere."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from toolbus import (
    AgentComponent,
    AssistantMessage,
    Deny,
    ToolCall,
    ToolMessage,
    ToolResponse,
    events,
    guard,
)
from toolbus.components.participants import ComponentHost
from toolbus.config.targets import LoadedTarget
from toolbus.replay import comparison
from toolbus.replay.comparison import ComparisonListener, recorded_verdicts
from toolbus.replay.replay import Replay
from toolbus.replay.sources import find_sources, read_sources
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_factory import open_reader


class NoSecrets(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny("no secrets") if ctx.value.arguments["path"] == "secret" else None


def asked(number, *paths):
    calls = [
        ToolCall(id=f"c-{number}-{place}", name="read", arguments={"path": path})
        for place, path in enumerate(paths)
    ]
    return AssistantMessage(id=f"ask-{number}", tool_calls=calls)


def answered(number, *errors):
    """Return the answers to the calls of message *number*; an error is a type, or ""."""
    return [
        ToolMessage(
            id=f"answer-{number}-{place}",
            tool_call_id=f"c-{number}-{place}",
            tool_name="read",
            tool_response=ToolResponse(
                content="the words", is_error=bool(error), error_type=error or None
            ),
        )
        for place, error in enumerate(errors)
    ]


@pytest.fixture
def path(tmp_path):
    """Return the path of a store; its second request, message 3, is the damaged one of a test."""

    async def fill():
        async with SqliteStore(tmp_path / "s.db") as store:
            for message in [
                asked(1, "log"),
                *answered(1, ""),
                asked(2, "secret"),
                *answered(2, ""),
                asked(3, "log", "secret", "secret", "log"),
                *answered(3, "", "", "denied", "unknown_tool"),
            ]:
                await store.append("s", AppendRequest(message=message))

    asyncio.run(fill())
    return tmp_path / "s.db"


def compared(path, seconds=60):
    """Return the comparison past `NoSecrets`, and the parts that were reported."""
    host, component, parts = ComponentHost(), NoSecrets(), []
    component.setup(host)
    target = LoadedTarget(host.bus, "guard", "component", host, (component,))
    listener = ComparisonListener(seconds, parts.append)
    sources, _ = find_sources([str(path)])
    with (
        open_reader(path, live=True) as reader,
        closing(read_sources(sources, session="s")) as batches,
    ):
        items = listener.follow(batches, recorded_verdicts(reader, reader.session("s")))
        asyncio.run(Replay(target, listener, collect=False).run(items))
    return listener.comparison, parts


def verdicts(rows):
    return [(row.seq, row.recorded.verdict, row.verdict, row.differs) for row in rows]


def test_rows_have_both_verdicts_in_order(path):
    result, parts = compared(path)

    assert verdicts(result.rows) == [
        (1, "allowed", "allowed", False),
        (3, "allowed", "denied", True),
        (5, "allowed", "allowed", False),
        (5, "allowed", "denied", True),
        (5, "denied", "denied", False),
        (5, "unknown_tool", "allowed", False),
    ]
    assert parts == [1.0]
    assert (result.cut, result.problems) == ("", [])


def test_a_damaged_message_shifts_no_verdict(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE messages SET body = 'x' WHERE id = 'ask-2'")

    result, _ = compared(path)

    assert verdicts(result.rows)[1:3] == [
        (5, "allowed", "allowed", False),
        (5, "allowed", "denied", True),
    ]
    assert len(result.problems) == 1


def test_too_many_rows_are_cut(path, monkeypatch):
    monkeypatch.setattr(comparison, "MOST_ROWS", 2)

    result, _ = compared(path)

    assert [row.seq for row in result.rows] == [1, 3]
    assert result.cut == "it has more than 2 calls"


def test_too_long_texts_are_cut(path, monkeypatch):
    monkeypatch.setattr(comparison, "MOST_TEXT", 20)

    result, _ = compared(path)

    assert [row.arguments for row in result.rows] == ['{"path":"log"}', '{"path":"secret"}']
    assert result.cut == "its calls have more than 20 characters"


def test_no_time_is_no_row(path):
    result, _ = compared(path, seconds=-1)

    assert result.rows == []
    assert result.cut == "it took more than -1 s"
