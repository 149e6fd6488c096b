"""Messages and ledger records as rows of a table, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from toolbus.errors import DecodeError
from toolbus.ledger import DispatchRecord
from toolbus.messages import AssistantMessage, ToolMessage, decode, decoder, encode
from toolbus.store.schema import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.messages import Message

T = TypeVar("T")

Row = tuple[int, object, bytes]
"""Sequence number, version and body."""


def message_row(message: Message) -> tuple[str, int, str]:
    """Return id, version and body of *message*."""
    return message.id, VERSION, encode(message).decode()


def record_row(record: DispatchRecord) -> tuple[str, str, int, str]:
    """Return subject, call id, version and body of *record*."""
    return record.subject, record.call_id, VERSION, encode(record).decode()


def call_ids(message: Message) -> tuple[str, ...]:
    """Return the ids of the calls that *message* asks for or answers."""
    match message:
        case ToolMessage(tool_call_id=call_id):
            return (call_id,)
        case AssistantMessage(tool_calls=calls):
            return tuple([call.id for call in calls])
    return ()


def read_messages(session_id: str, rows: Iterable[Row]) -> tuple[Message, ...]:
    """Decode *rows* of messages; raises `DecodeError` that names the row."""
    return _decoded("message", decode, session_id, rows)


def read_records(session_id: str, rows: Iterable[Row]) -> tuple[DispatchRecord, ...]:
    """Decode *rows* of ledger records; raises `DecodeError` that names the row."""
    return _decoded("record", _decode_record, session_id, rows)


_decode_record = decoder(DispatchRecord)


def _decoded(
    kind: str, decode: Callable[[bytes], T], session_id: str, rows: Iterable[Row]
) -> tuple[T, ...]:
    decoded: list[T] = []
    for seq, version, body in rows:
        row = f"{kind} {seq!r} of session {session_id!r}"
        if version != VERSION:
            raise DecodeError(f"{row} has version {version!r}, expected {VERSION}; update toolbus")
        try:
            decoded.append(decode(body))
        except (DecodeError, TypeError) as error:
            raise DecodeError(f"{row} is damaged: {error}; restore the file from a copy") from error
    return tuple(decoded)
