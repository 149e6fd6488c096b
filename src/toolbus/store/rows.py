"""The encoding of messages, ledger records and states as rows of a table."""

from __future__ import annotations

from binascii import crc32
from typing import TYPE_CHECKING, TypeVar

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.errors import DecodeError
from toolbus.messages.records import AssistantMessage, ToolMessage, decode, decoder, encode
from toolbus.store.chain import commitment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toolbus.messages.records import Message

T = TypeVar("T")

ENCODING = 1
"""The version of the encoding, stored in each row."""


def message_row(message: Message, salt: bytes) -> tuple[str, int, str, int, bytes]:
    """Return the id, version, body and checksum of *message*, and the commitment to it."""
    body = encode(message)
    return message.id, ENCODING, body.decode(), crc32(body), commitment(salt, body)


def batch_row(records: Sequence[DispatchRecord], salt: bytes) -> tuple[int, int, str, int, bytes]:
    """Return the number, version, body and checksum of *records*, and the commitment to them."""
    body = encode(records)
    return len(records), ENCODING, body.decode(), crc32(body), commitment(salt, body)


def mentioned(records: Iterable[DispatchRecord], message: Message | None) -> set[str]:
    """Return the ids in *records* except those of *message*, which is written with them."""
    ids = {name for record in records for name in (record.subject, record.call_id)} - {""}
    return ids if message is None else ids - {message.id, *call_ids(message)}


def call_ids(message: Message) -> tuple[str, ...]:
    """Return the ids of the calls that *message* requests or answers."""
    match message:
        case ToolMessage(tool_call_id=call_id):
            return (call_id,)
        case AssistantMessage(tool_calls=calls):
            return tuple([call.id for call in calls])
    return ()


def decode_message(version: object, body: bytes, checksum: object) -> Message:
    """Decode the message of a row; raises `DecodeError`."""
    return _proved(decode, version, body, checksum)


def state_row(body: bytes) -> tuple[int, str, int]:
    """Return the version, body and checksum of a state whose JSON is *body*."""
    return ENCODING, body.decode(), crc32(body)


def checked_json(version: object, body: bytes, checksum: object) -> bytes:
    """Return *body*, the JSON of a state or an original; raises `DecodeError` if it is damaged."""
    _proved(_decode_json, version, body, checksum)
    return body


def decode_batch(version: object, body: bytes, checksum: object) -> tuple[DispatchRecord, ...]:
    """Decode the records of a row; raises `DecodeError`."""
    return _proved(_decode_batch, version, body, checksum)


_decode_json: Callable[[bytes], object] = decoder(object)
_decode_batch: Callable[[bytes], tuple[DispatchRecord, ...]] = decoder(tuple[DispatchRecord, ...])


def _proved(decode: Callable[[bytes], T], version: object, body: bytes, checksum: object) -> T:
    if version != ENCODING:
        raise DecodeError(f"has version {version!r}, expected {ENCODING}; update toolbus")
    way_out = "restore the file from a copy"
    try:
        decoded = decode(body)
    except (DecodeError, TypeError) as error:
        raise DecodeError(f"is damaged: {error}; {way_out}") from error
    # Rows of an older toolbus have no checksum.
    if checksum is not None and checksum != crc32(body):
        raise DecodeError(f"is damaged: the checksum does not match; {way_out}")
    return decoded
