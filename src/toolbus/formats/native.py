"""Our own format: JSON Lines that say what a store holds, and are read back without loss.

The first line says format and version; then, for each session, comes a line that opens it, one
for each message, one for each ledger record, and one that says how many there were.
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
"""The version of the format that is written, and the newest that is read."""


class HeaderLine(Struct, frozen=True, kw_only=True, tag="toolbus"):
    """The first line."""

    version: int = VERSION


class SessionLine(Struct, frozen=True, kw_only=True, tag="session", omit_defaults=True):
    """The beginning of a session; times are nanoseconds since the epoch, 0 if unknown.

    *folder* is where it began to work, if its records say so.
    """

    id: str
    created_ns: int = 0
    updated_ns: int = 0
    folder: str = ""


class MessageLine(Struct, frozen=True, kw_only=True, tag="message"):
    """A message of the session that was opened last."""

    message: Message


class RecordLine(Struct, frozen=True, kw_only=True, tag="record"):
    """A ledger record of that session."""

    record: DispatchRecord


class EndLine(Struct, frozen=True, kw_only=True, tag="end"):
    """The end of that session: how many messages and records it has."""

    messages: int
    records: int


Line: TypeAlias = HeaderLine | SessionLine | MessageLine | RecordLine | EndLine
"""A line of the format."""

_decode = decoder(Line)


def encode_line(line: Line) -> bytes:
    """Return *line* as bytes, its end included."""
    return encode(line) + b"\n"


class Native:
    """Reads our own format; lines before the first session belong to one called *name*."""

    def __init__(self, name: str) -> None:
        self._session, self._open, self._known = name, False, True
        self._messages = self._records = self._line = 0

    def feed(self, number: int, data: bytes) -> Sequence[Item]:
        """Give what a line says."""
        self._line = number
        line: Line = _decode(data)
        if not self._known:
            raise DecodeError("not read, since a newer toolbus wrote the file")
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
        """Close a session that was cut off."""
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
                reason = (
                    f"session {self._session!r} should have {promised} {kind}, {count} were read"
                )
                problems.append(Problem(number, reason))
        return *opening, *problems, SessionEnd(self._session)
