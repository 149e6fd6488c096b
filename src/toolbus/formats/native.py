"""The native format: JSON Lines with the content of a store, without loss.

The first line has the format's name and version. Each session has an opening line, a line for each
message and each ledger record, and an end line with their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.errors import DecodeError
from toolbus.formats.items import Item, MessageItem, Problem, RecordItem, SessionEnd, SessionStart
from toolbus.messages.codec import decoder, encode
from toolbus.messages.records import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = 1
"""The version that is written, and the newest that is read."""


class HeaderLine(Struct, frozen=True, kw_only=True, tag="toolbus"):
    """The first line."""

    version: int = VERSION


class SessionLine(Struct, frozen=True, kw_only=True, tag="session", omit_defaults=True):
    """The start of a session; times are nanoseconds since the epoch, 0 if unknown.

    *folder* is its initial working folder, if the records name it.
    """

    id: str
    created_ns: int = 0
    updated_ns: int = 0
    folder: str = ""


class MessageLine(Struct, frozen=True, kw_only=True, tag="message"):
    """A message of the current session."""

    message: Message


class RecordLine(Struct, frozen=True, kw_only=True, tag="record"):
    """A ledger record of the current session."""

    record: DispatchRecord


class EndLine(Struct, frozen=True, kw_only=True, tag="end"):
    """The end of the current session, with the numbers of its messages and records."""

    messages: int
    records: int


Line: TypeAlias = HeaderLine | SessionLine | MessageLine | RecordLine | EndLine
"""A line of the format."""

_decode = decoder(Line)


def encode_line(line: Line) -> bytes:
    """Return *line* as bytes, with a line end."""
    return encode(line) + b"\n"


class Native:
    """A reader of the native format; lines before the first session belong to session *name*."""

    def __init__(self, name: str) -> None:
        self._session, self._open, self._known = name, False, True
        self._messages = self._records = self._line = 0

    def feed(self, number: int, data: bytes) -> Sequence[Item]:
        """Return the items of a line."""
        self._line = number
        line: Line = _decode(data)
        if not self._known:
            raise DecodeError("not read: the file was written by a newer toolbus")
        match line:
            case MessageLine(message=message):
                opening = self._opening()
                self._messages += 1
                return *opening, MessageItem(self._session, message)
            case RecordLine(record=record):
                opening = self._opening()
                self._records += 1
                return *opening, RecordItem(self._session, record)
            case SessionLine(id=session, folder=folder):
                closing = tuple(self.end())
                self._session = session
                return *closing, *self._opening(folder)
            case EndLine():
                return self._closing(number, line)
            case HeaderLine(version=version):
                self._known = version <= VERSION
                if not self._known:
                    reason = f"format version {version}, newer than {VERSION}; update toolbus"
                    raise DecodeError(reason)
        return ()

    def end(self) -> Sequence[Item]:
        """Return a problem and the end for a session that was cut off."""
        if not self._open:
            return ()
        reason = f"session {self._session!r} has no end line after this; the file was cut off"
        self._open = False
        return Problem(self._line, reason), SessionEnd(self._session)

    def _opening(self, folder: str = "") -> tuple[SessionStart, ...]:
        if self._open:
            return ()
        self._open, self._messages, self._records = True, 0, 0
        return (SessionStart(self._session, folder),)

    def _closing(self, number: int, line: EndLine) -> tuple[Item, ...]:
        opening = self._opening()
        self._open = False
        problems: list[Problem] = []
        for kind, promised, count in (
            ("messages", line.messages, self._messages),
            ("records", line.records, self._records),
        ):
            if promised != count:
                reason = f"session {self._session!r}: expected {promised} {kind}, got {count}"
                problems.append(Problem(number, reason))
        return *opening, *problems, SessionEnd(self._session)
