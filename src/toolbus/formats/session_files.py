"""Recorded sessions in files of several formats, detected and read line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from toolbus.errors import DecodeError
from toolbus.formats.claude_code import ClaudeCode
from toolbus.formats.conversations import Conversations
from toolbus.formats.items import Item, Problem, Reader
from toolbus.formats.json_input import parse
from toolbus.formats.native import Native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINE_LIMIT = 16 * 2**20
"""The default limit for the bytes of a line."""

_BOM = b"\xef\xbb\xbf"
_CHUNK = 2**16

_MAKERS: dict[str, Callable[[str], Reader]] = {
    "toolbus": Native,
    "openai": lambda name: Conversations(name, "openai"),
    "anthropic": lambda name: Conversations(name, "anthropic"),
    "claude-code": ClaudeCode,
}

FORMATS = tuple(_MAKERS)
"""The names of the readable formats."""


class LineStream(Protocol):
    """A source of lines, such as a binary file."""

    def readline(self, limit: int = -1, /) -> bytes:
        """Return up to *limit* bytes of the next line, with its end; empty at the end."""
        ...


def read(
    stream: LineStream, name: str, *, kind: str | None = None, limit: int = LINE_LIMIT
) -> Iterator[Item]:
    """Yield the items of the lines of *stream*, with a `Problem` for each unreadable line.

    Args:
        stream: JSON Lines.
        name: the prefix for ids of sessions without an id of their own.
        kind: one of `FORMATS`; by default detected from the first line that fits one.
        limit: the maximum bytes of a line; a longer line is dropped.
    """
    reader = None if kind is None else _MAKERS[kind](name)
    for number, data in read_lines(stream, limit):
        if data is None:
            yield Problem(number, f"longer than {limit} bytes; give a higher limit")
            continue
        try:
            reader = reader or _recognized(data, name)
            items = reader.feed(number, data)
        except (DecodeError, ValueError) as error:
            yield Problem(number, str(error))
            continue
        yield from items
    if reader is not None:
        yield from reader.end()


def _recognized(data: bytes, name: str) -> Reader:
    """Return a reader for the format of the line *data*; raises `DecodeError`."""
    match parse(data):
        case {"type": "toolbus" | "session" | "end"} | {"type": "message", "message": {"role": _}}:
            return Native(name)
        case {"type": "record", "record": {}}:
            return Native(name)
        case {"type": str()} as line if ClaudeCode.recognizes(line):
            return ClaudeCode(name)
        case dict() as line if Conversations.recognizes(line):
            return Conversations(name)
        case dict() as line:
            fields = ", ".join(list(line)[:5])
            reason = f"unknown format (fields: {fields or 'none'})"
        case _:
            reason = "expected a JSON object"
    raise DecodeError(f"{reason}; name the format of the file: {', '.join(FORMATS)}")


def read_lines(stream: LineStream, limit: int = LINE_LIMIT) -> Iterator[tuple[int, bytes | None]]:
    """Yield number and bytes of each line that is not blank, None for one longer than *limit*."""
    number = 0
    # Two extra bytes, because a line may end with "\r\n".
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


def _skip(stream: LineStream) -> bool:
    """Skip to the end of the line in chunks; return whether there was text before it."""
    has_text = False
    while chunk := stream.readline(_CHUNK):
        has_text = has_text or bool(chunk.strip())
        if chunk.endswith(b"\n"):
            break
    return has_text
