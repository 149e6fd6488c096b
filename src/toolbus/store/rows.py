"""Messages and ledger records as rows of a table, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from toolbus.errors import DecodeError
from toolbus.ledger import DispatchRecord
from toolbus.messages import AssistantMessage, ToolMessage, decode, decoder, encode
from toolbus.store.schema import ENCODING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toolbus.messages import Message

T = TypeVar("T")

Row = tuple[int, object, bytes]
"""Sequence number, version and body."""


def message_row(message: Message) -> tuple[str, int, str]:
    """Return id, version and body of *message*."""
    return message.id, ENCODING, encode(message).decode()


def page_row(records: Sequence[DispatchRecord]) -> tuple[int, str]:
    """Return version and body of the page of *records*."""
    return ENCODING, encode(records).decode()


def mentioned(records: Iterable[DispatchRecord], message: Message | None) -> set[str]:
    """Return the ids that *records* speak of and *message*, written with them, does not have."""
    ids = {one for record in records for one in (record.subject, record.call_id) if one}
    return ids if message is None else ids - {message.id, *call_ids(message)}


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
    """Decode *rows* of pages of ledger records; raises `DecodeError` that names the row."""
    pages = _decoded("record", _decode_page, session_id, rows)
    return tuple([record for page in pages for record in page])


_decode_page = decoder(tuple[DispatchRecord, ...])


def _decoded(
    kind: str, decode: Callable[[bytes], T], session_id: str, rows: Iterable[Row]
) -> tuple[T, ...]:
    decoded: list[T] = []
    for seq, version, body in rows:
        row = f"{kind} {seq!r} of session {session_id!r}"
        if version != ENCODING:
            raise DecodeError(f"{row} has version {version!r}, expected {ENCODING}; update toolbus")
        try:
            decoded.append(decode(body))
        except (DecodeError, TypeError) as error:
            raise DecodeError(f"{row} is damaged: {error}; restore the file from a copy") from error
    return tuple(decoded)
