"""The items of a recorded file, one by one, so that no session is in memory as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message


class SessionStart(NamedTuple):
    """The start of a session; *folder* is its initial working folder, "" if unknown.

    It *is_partial* if its host did not show all texts of its model.
    """

    session: str
    folder: str = ""
    is_partial: bool = False


class MessageItem(NamedTuple):
    """The next message of a session; messages of several sessions may alternate."""

    session: str
    message: Message


class RecordItem(NamedTuple):
    """The next ledger record of a session."""

    session: str
    record: DispatchRecord


class SessionEnd(NamedTuple):
    """The end of a session."""

    session: str


class Problem(NamedTuple):
    """An unreadable line (or row), with the reason."""

    line: int
    reason: str


class SkippedLine(NamedTuple):
    """A line other than a message; *kind* is its type in the file."""

    line: int
    kind: str


Item: TypeAlias = SessionStart | MessageItem | RecordItem | SessionEnd | Problem | SkippedLine
"""An item of a file."""


class Reader(Protocol):
    """A reader of the lines of one file as items."""

    def feed(self, number: int, data: bytes) -> Sequence[Item]:
        """Return the items of line *number*; raises `ValueError` for an unreadable line.

        The state is unchanged if it raises.
        """
        ...

    def end(self) -> Sequence[Item]:
        """Return the remaining items at the end of the file."""
        ...
