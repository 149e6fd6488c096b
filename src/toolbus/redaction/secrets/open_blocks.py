r"""Open blocks at the end of a text: while a block is open, none of its lines is released.

Nearly every match ends in its line, or has its name in the lines before its value, which are read
again with each line. A block is any other match: a value of several lines, or one that later lines
reveal as a secret. `builtin.toml` lists most forms; tables, keys and quotes are here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from toolbus.redaction.secrets.assigned import (
    copied_values,
    inserted_values,
    is_heading,
    table_values,
    values_go_on,
)
from toolbus.redaction.secrets.expressions import compiled
from toolbus.redaction.secrets.names import name_at, name_kind
from toolbus.redaction.secrets.rules import Reader, builtin_file, rule_read_by
from toolbus.redaction.views import views_to_end


class _BlockForm(NamedTuple):
    """A block from a match of *opener* to a match of *closer*, or of at most *lines* lines."""

    opener: re.Pattern[bytes]
    closer: re.Pattern[bytes]
    lines: int | None


@cache
def _forms() -> tuple[_BlockForm, ...]:
    return tuple(
        [
            _BlockForm(
                re.compile(block.opener.encode()), re.compile(block.closer.encode()), block.lines
            )
            for block in builtin_file().blocks
        ]
    )


_ROWS: dict[Reader, Any] = {"insert": inserted_values, "copy": copied_values}

# As in the published rule: an end too far behind the first line does not make a key.
_KEY_HEAD = re.compile(rb"(?i)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(rb"[A-Za-z0-9+/]{20}")
_KEY_END = re.compile(rb"(?i)KEY(?: BLOCK)?-----")
_BODY_WITHIN, _SHORTEST_BODY = 220, 40

# An opening quote, up to its closing quote or the end of the line.
_QUOTED = re.compile(rb"""(?<![\w\\])(["'\x60])(?:\\.|(?!\1)[^\\\n])*(\1|\Z)""")


def open_block(data: bytes, begin: int) -> int:
    """Return the start, behind byte *begin*, of the block open at the end of *data*, or its length.

    The text before *begin* was released.
    """
    place = _open_block(data, begin)
    _, *others = views_to_end(data[begin:])
    for view in others:
        start, size = _open_block(view.data, 0), len(view.data)
        if start < size:
            place = min(place, begin + view.span(start, size)[0])
    return max(begin, place)


def _open_block(data: bytes, begin: int) -> int:
    starts: list[int] = [_open_end().search(data, begin).start()]
    starts += [_open_in(block, data, begin) for block in _forms()]
    starts += [_open_quote(data), _open_key(data, begin), _open_table(data), _open_rows(data)]
    return min(starts)


@cache
def _open_end() -> Any:
    # One pattern for all: its leftmost match is the block that began first.
    ends = [f"(?:{end.pattern})" for end in builtin_file().open_ends]
    return compiled(f"(?:{'|'.join(ends)})?\\z")


def _open_in(form: _BlockForm, data: bytes, begin: int) -> int:
    """Return the start of the open block of *form* in *data*, or the length of *data*."""
    far, position = 0 if form.lines is None else _lines_back(data, form.lines), begin
    while (opener := form.opener.search(data, position)) is not None:
        closer = form.closer.search(data, opener.end())
        if closer is None and opener.end() >= far:
            return opener.start()
        position = max(opener.end(), far if closer is None else closer.start())
    return len(data)


def _lines_back(data: bytes, count: int) -> int:
    """Return the start of the last *count* lines of *data* and the unfinished one behind them."""
    position = len(data)
    for _ in range(count + 1):
        position = data.rfind(b"\n", 0, max(position, 0))
    return max(position, 0)


def _open_quote(data: bytes) -> int:
    """Return the start of an unclosed quote in the last line of *data*, or its length."""
    for quoted in _QUOTED.finditer(data, data.rfind(b"\n") + 1):
        if not quoted[2]:
            return quoted.start()
    return len(data)


def _open_key(data: bytes, begin: int) -> int:
    """Return the start of an unfinished private key in *data*, or its length."""
    position = begin
    while (head := _KEY_HEAD.search(data, position)) is not None:
        body = _KEY_BODY.search(data, head.end(), head.end() + _BODY_WITHIN)
        end = None if body is None else _KEY_END.search(data, body.start() + _SHORTEST_BODY)
        if end is None and (body is not None or len(data) < head.end() + _BODY_WITHIN):
            return head.start()
        position = head.end() if end is None else end.end()
    return len(data)


def _open_table(data: bytes) -> int:
    """Return the start of a table with a secret's column, if more rows may come, or the length."""
    names = compiled(rule_read_by("assigned").pattern)
    for match in names.finditer(data):
        start, stop = match.span(names.groupindex["name"])
        stop = start + len(data[start:stop].rstrip(b".-"))
        if (
            is_heading(data, start, stop)
            and name_kind(name_at(data, start, stop)) is not None
            and values_go_on(table_values(data, (start, stop), stop))
        ):
            return data.rfind(b"\n", 0, start) + 1
    return len(data)


def _open_rows(data: bytes) -> int:
    """Return the start of an INSERT or COPY, if more rows may come, or the length."""
    for reader, rows in _ROWS.items():
        expression = compiled(rule_read_by(reader).pattern)
        name = expression.groupindex["name"]
        for match in expression.finditer(data):
            if values_go_on(rows(data, match.span(name), match.end())):
                return int(match.start())
    return len(data)
