"""What an append writes, as rows of tables, before its session is locked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.messages.records import AssistantMessage, Message, ToolMessage
from toolbus.store import rows
from toolbus.store.postgres.text_ids import escape, indexed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.jobs import Append


class EncodedAppend(NamedTuple):
    """The rows of an append, but for the numbers, which are known once its session is locked.

    *calls* are (index of the message, id, tool, status, duration).
    """

    messages: tuple[tuple[str, int, str, int], ...]
    calls: tuple[tuple[int, str, str, str | None, int | None], ...]
    page: tuple[int, int, str, int] | None
    mentions: tuple[str, ...]
    size: int


def encode_append(job: Append) -> EncodedAppend:
    """Return the rows of *job*; raises `UnicodeEncodeError` for half a character in an id."""
    stored = job.stored
    messages = [rows.message_row(message) for message in stored.messages]
    calls = [
        (index, indexed(call_id), escape(tool), status, duration)
        for index, message in enumerate(stored.messages)
        for call_id, tool, status, duration in _calls_of(message)
    ]
    mentions = rows.mentioned(stored.records, stored.message) if stored.records else ()
    page = rows.page_row(stored.records) if stored.records else None
    bodies = [row[2] for row in messages] + ([page[2]] if page else [])
    originals = [len(original.body) for original in stored.originals]
    names = [indexed(name) for name, *_ in messages]
    for text in (*names, *[call[1] + call[2] for call in calls]):
        text.encode()
    return EncodedAppend(
        tuple([(name, *row[1:]) for name, row in zip(names, messages, strict=True)]),
        tuple(calls),
        page,
        tuple([indexed(name) for name in sorted(mentions)]),
        sum(map(len, bodies)) + sum(originals),
    )


def _calls_of(message: Message) -> Iterator[tuple[str, str, str | None, int | None]]:
    match message:
        case ToolMessage(tool_call_id=call_id, tool_name=tool, tool_response=response):
            if response is None:
                yield call_id, tool, "ok", None
            else:
                status = (response.error_type or "error") if response.is_error else "ok"
                yield call_id, tool, escape(status), response.duration_ns
        case AssistantMessage(tool_calls=calls):
            yield from [(call.id, call.name, None, None) for call in calls]
