"""Recorded sessions in files: our own format and those of others, told apart and read by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.errors import DecodeError
from toolbus.formats.claude_code import ClaudeCode
from toolbus.formats.conversations import Conversations
from toolbus.formats.items import Aside, Closed, Item, Noted, Opened, Problem, Reader, Said
from toolbus.formats.lines import LINE_LIMIT, Lines, read_lines
from toolbus.formats.native import Native
from toolbus.formats.parsing import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "FORMATS",
    "LINE_LIMIT",
    "Aside",
    "Closed",
    "Item",
    "Noted",
    "Opened",
    "Problem",
    "Said",
    "read",
]

_MAKERS: dict[str, Callable[[str], Reader]] = {
    "toolbus": Native,
    "openai": lambda name: Conversations(name, "openai"),
    "anthropic": lambda name: Conversations(name, "anthropic"),
    "claude-code": ClaudeCode,
}

FORMATS = tuple(_MAKERS)
"""The formats of lines that can be read."""


def read(
    stream: Lines, name: str, *, kind: str | None = None, limit: int = LINE_LIMIT
) -> Iterator[Item]:
    """Give what the lines of *stream* say, as they come; what cannot be read is a `Problem`.

    Args:
        stream: JSON Lines.
        name: begins the ids of sessions that have none of their own.
        kind: one of `FORMATS`; without it, the first line that fits one decides.
        limit: bytes of a line; of a longer one nothing is kept.
    """
    reader = None if kind is None else _MAKERS[kind](name)
    for number, data in read_lines(stream, limit):
        if data is None:
            yield Problem(number, f"longer than {limit} bytes; give a higher limit")
            continue
        try:
            reader = reader or _recognised(data, name)
            items = reader.feed(number, data)
        except (DecodeError, ValueError) as error:
            yield Problem(number, str(error))
            continue
        yield from items
    if reader is not None:
        yield from reader.end()


def _recognised(data: bytes, name: str) -> Reader:
    """Return the reader of the format that the line *data* is in; raises `DecodeError`."""
    match parse(data):
        case {"type": "toolbus" | "session" | "end"} | {"type": "message", "message": {"role": _}}:
            return Native(name)
        case {"type": "record", "record": {}}:
            return Native(name)
        case {"type": str()} as line if ClaudeCode.knows(line):
            return ClaudeCode(name)
        case dict() as line if Conversations.knows(line):
            return Conversations(name)
        case dict() as line:
            fields = ", ".join(list(line)[:5])
            reason = f"no known format (its fields: {fields or 'none'})"
        case _:
            reason = "no JSON object"
    raise DecodeError(f"{reason}; name the format of the file: {', '.join(FORMATS)}")
