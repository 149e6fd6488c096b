"""What a reader finds in a file, piece by piece, so that no session need be in memory whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message


class SessionStart(NamedTuple):
    """A session begins; *folder* is where it began to work, "" if nothing says so."""

    session: str
    folder: str = ""


class MessageItem(NamedTuple):
    """The next message of a session; those of several sessions may alternate."""

    session: str
    message: Message


class RecordItem(NamedTuple):
    """The next ledger record of a session."""

    session: str
    record: DispatchRecord


class SessionEnd(NamedTuple):
    """No more of a session follows."""

    session: str


class Problem(NamedTuple):
    """A line (or row) that could not be read, and why."""

    line: int
    reason: str


class SkippedLine(NamedTuple):
    """A line that is no message and need not be one; *kind* is what its file calls it."""

    line: int
    kind: str


Item: TypeAlias = SessionStart | MessageItem | RecordItem | SessionEnd | Problem | SkippedLine
"""A piece of a file."""


class Reader(Protocol):
    """Turns the lines of one file into items."""

    def feed(self, number: int, data: bytes) -> Sequence[Item]:
        """Give what line *number* says; raises `ValueError` for a line that it cannot read.

        Its state changes only if it does not raise.
        """
        ...

    def end(self) -> Sequence[Item]:
        """Give what was left for the end of the file."""
        ...
