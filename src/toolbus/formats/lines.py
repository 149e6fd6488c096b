"""The lines of a stream, none longer than a limit, however long the file makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE_LIMIT = 16 * 2**20
"""Bytes of the longest line that is read, unless the caller says another."""

_BOM = b"\xef\xbb\xbf"
_PIECE = 2**16


class Lines(Protocol):
    """What lines are read from: a binary file, for one."""

    def readline(self, limit: int = -1, /) -> bytes:
        """Return up to *limit* bytes of the next line, with its end; at the end of all, none."""
        ...


def read_lines(stream: Lines, limit: int = LINE_LIMIT) -> Iterator[tuple[int, bytes | None]]:
    """Give number and bytes of each line that is not blank; None for one longer than *limit*."""
    number = 0
    # Two bytes more: a line may end with "\r\n".
    while data := stream.readline(limit + 2):
        number += 1
        if number == 1:
            data = data.removeprefix(_BOM)
        line = data.strip()
        if len(line) > limit:
            yield number, None
        elif line:
            yield number, line
        if not data.endswith(b"\n"):
            too_long = _skip(stream)
            if too_long and len(line) <= limit:
                yield number, None


def _skip(stream: Lines) -> bool:
    """Read to the end of the line in pieces; tell whether there was anything but its end."""
    found = False
    while piece := stream.readline(_PIECE):
        found = found or bool(piece.strip())
        if piece.endswith(b"\n"):
            break
    return found
