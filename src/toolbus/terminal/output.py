"""Where text goes: a stream whose reader may leave, whose disk may be full, whose letters few."""

from __future__ import annotations

from typing import TextIO

# For terminals and files that cannot write them.
_PLAIN = str.maketrans({"…": "~", "│": "|", "·": "-", "→": "->", "✓": "+", "✗": "x", "─": "-"})


class Output:
    """Writes to *stream* until that is impossible, and then to nowhere: `lost` says why.

    Handlers print while an agent works, and a reader that has left (`| head`) must not disturb
    that work.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: OSError | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether a person is likely to look."""
        return self._stream.isatty()

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
