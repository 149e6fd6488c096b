"""Where text goes: a stream whose reader may leave, whose disk may be full, whose letters few."""

from __future__ import annotations

import select
from errno import EPIPE
from typing import TextIO

# For terminals and files that cannot write them.
_PLAIN = str.maketrans(
    {"…": "~", "│": "|", "·": "-", "→": "->", "✓": "+", "✗": "x", "─": "-", "µ": "u"}
)


class Output:
    """Writes to *stream* until that is impossible, and then to nowhere: `lost` says why.

    Handlers print while an agent works, and a reader that has left (`| head`) must not disturb
    that work. *is_terminal* tells whether a person is likely to look.
    """

    def __init__(self, stream: TextIO, *, is_terminal: bool | None = None) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty() if is_terminal is None else is_terminal
        self.lost: OSError | None = None

    def rest(self, seconds: float) -> None:
        """Wait, but not for longer than somebody reads; who has left is in `lost`."""
        poll = select.poll()
        # Nothing is asked for: that the other end is closed is told anyway.
        poll.register(self._stream, 0)
        if poll.poll(seconds * 1e3):
            self.lost = self.lost or BrokenPipeError(EPIPE, "the reader has left")

    def write(self, text: str) -> None:
        """Write *text* at once."""
        if self.lost is not None:
            return
        try:
            self._stream.write(self._encodable(text))
            self._stream.flush()
        except OSError as error:
            self.lost = error

    def _encodable(self, text: str) -> str:
        encoding = self._stream.encoding or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            plain = text.translate(_PLAIN)
            return plain.encode(encoding, "replace").decode(encoding)
        return text
