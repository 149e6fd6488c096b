"""A store's file of any size, written by the store's own statements in one transaction."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from toolbus.bus.ledger import DispatchRecord, HandlerEntry
from toolbus.events import Scope
from toolbus.messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolResponse
from toolbus.store import rows
from toolbus.store.sqlite import schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DIGEST = "0123456789abcdef" * 2


def make_archive(path: Path, size: int, sessions: int = 1) -> None:
    """Write a session "s" of *size* messages: calls and answers, a record beside each.

    Of several *sessions* the others are "s-2" and so on, the latest written last.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in schema.TABLES:
            connection.execute(statement)
        connection.execute("BEGIN")
        for session in range(1, sessions + 1):
            name = "s" if session == 1 else f"s-{session}"
            connection.execute(schema.ADD_SESSION, (name, 1, 1))
            connection.execute(schema.COUNT_UP, (size, size, session + 1, None, session))
            first = (session - 1) * size
            for at, message in enumerate(messages(size), 1):
                key = first + at
                *row, _ = rows.message_row(message, b"")
                connection.execute(schema.ADD_MESSAGE, (session, at, *row, None))
                calls = [(call_id, key) for call_id in rows.call_ids(message)]
                connection.executemany(schema.ADD_CALL, calls)
                *batch, _ = rows.batch_row([record(message.id, f"c-{(at + 1) // 2}", at)], b"")
                connection.execute(schema.ADD_BATCH, (key, session, at, at, *batch, None))
        connection.execute("COMMIT")


def messages(size: int) -> Iterator[Message]:
    """Give *size* messages "m-1" and so on: in turns a call, "c-1" and so on, and its answer."""
    for at in range(1, size + 1, 2):
        number = (at + 1) // 2
        call = ToolCall(id=f"c-{number}", name="read", arguments={"path": f"src/{number}.py"})
        yield AssistantMessage(id=f"m-{at}", tool_calls=(call,))
        said = ToolResponse.from_text("42 files, 3 of them changed since the last release")
        yield ToolMessage(
            id=f"m-{at + 1}", tool_call_id=call.id, tool_name="read", tool_response=said
        )


def record(subject: str, call_id: str, started_ns: int, *, handlers: int = 3) -> DispatchRecord:
    """Return the record of a dispatch to *handlers*, of which the first changed the message."""
    idle = HandlerEntry(
        name="Rules.look", priority=100, kind="transformer", status="ran", duration_ns=1_234
    )
    active = HandlerEntry(
        name="Rules.shorten",
        priority=100,
        kind="transformer",
        status="changed",
        duration_ns=12_345,
        fields=("tool_response",),
        before=_DIGEST,
        after=_DIGEST[::-1],
        size_before=4_321,
        size_after=321,
    )
    return DispatchRecord(
        event="message:append:before",
        scope=Scope(agent_id=_DIGEST[:16], session_id="s", run_id=_DIGEST[:16], turn=3),
        subject=subject,
        call_id=call_id,
        started_ns=started_ns,
        duration_ns=23_456,
        outcome="changed",
        original=_DIGEST,
        size=4_321,
        entries=(active, *[idle] * (handlers - 1)),
    )
