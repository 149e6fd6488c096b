"""Values that stand behind the name of a secret, in all shapes that agents meet.

There are dozens of them. So names are sought in one pass, `names` judges each, and the shapes are
tried only behind those that a secret may have.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from toolbus.redaction.placeholders import placeholders_in
from toolbus.redaction.secrets.builtin.assignments import ASSIGNMENTS, FLAGS, SPECIAL
from toolbus.redaction.secrets.builtin.grammar import NamedShape
from toolbus.redaction.secrets.builtin.pairs import PAIRS
from toolbus.redaction.secrets.builtin.prose import SENTENCES
from toolbus.redaction.secrets.columns import copied_values, inserted_values, table_values
from toolbus.redaction.secrets.expressions import ExpressionSet, compiled
from toolbus.redaction.secrets.names import name_at, name_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.redaction.secrets.columns import Span

_REACH, _LONG_REACH, _SHORT_REACH = 1_024, 8_192, 256
"""Bytes behind a name: to tell shapes apart, of the longest value, and of a value deep in a chain.

In a chain such as `token=token=…` each name would look for the end of all.
"""

_BEFORE, _DEEP = 80, 128
_CHAIN = re.compile(rb"(?:[^\s\"'\x60;,)<>}\]&|\\=:]*[=:]){8}[^\s\"'\x60;,)<>}\]&|\\]*")
# In a name of a resource, as AWS writes them, "secret" is a type.
_RESOURCE = rb"\barn:[\w:*/-]*\Z"
# Nothing but short words up to the end of the line, and not too many: most names stand so.
# Possessive, since giving letters back never helps: a long chain would be read again and again.
_WORDS = re.compile(
    rb"(?:(?:[ \t.:=,;()/-]++[A-Za-z]{1,7}+){1,24}+[ \t.:,;()]*+\r?\n|\r?\n(?:[^ \t\r\n]|\Z))"
)
# What parts the cells of a heading, behind a name or, if that is the last one, before it.
_CELL = re.compile(rb"""["'`*)]{0,3}(?:[ \t]*(?:[|,;\t]|\xe2\x94\x82)|  )""")
_LAST_CELL = re.compile(rb"""["'`*)]{0,3}[ \t]*\r?\n""")
_EARLIER_CELL = re.compile(rb"[|,;\t]|\xe2\x94\x82|\S  ")


def assigned_values(data: bytes, name: Span, _stop: int) -> Iterator[Span | None]:
    """Give the value that belongs to *name*, or the values below it, if it can be a secret's."""
    start, stop = name
    while stop > start and data[stop - 1] in b".-":
        stop -= 1
    is_among_words = bool(_WORDS.match(data, stop))
    may_head = is_heading(data, start, stop)
    if is_among_words and not may_head:
        return
    whole = name_at(data, start, stop)
    if name_kind(whole) is None or ("-" in whole and placeholders_in(f"[{whole}]")):
        return
    span = None if is_among_words else _assigned(data, whole, (start, stop))
    if span is not None:
        yield span
    if may_head:
        yield from table_values(data, (start, stop), stop)


READERS: Mapping[str, Callable[[bytes, Span, int], Iterator[Span | None]]] = {
    "assigned": assigned_values,
    "insert": inserted_values,
    "copy": copied_values,
}
"""The readers of values that a rule's pattern cannot reach, by the name that the rule has for each.

Each takes the text, where the name stands in it, and where the rule's match ends.
"""


def is_heading(data: bytes, start: int, stop: int) -> bool:
    """Tell whether the name between *start* and *stop* may be one of several in a line."""
    if _CELL.match(data, stop):
        return True
    if not _LAST_CELL.match(data, stop):
        return False
    return bool(_EARLIER_CELL.search(data, data.rfind(b"\n", 0, start) + 1, start))


def _assigned(data: bytes, whole: str, name: Span) -> Span | None:
    """Return where the value stands behind *name*, of which *whole* is the text from its begin."""
    start, stop = name
    first = stop - len(whole.encode())
    is_deep = start >= _DEEP and _CHAIN.fullmatch(data, start - _DEEP, start)
    end = stop + (_SHORT_REACH if is_deep else _LONG_REACH)
    shapes, together = _shapes()
    # The likely ones come first.
    for index in sorted(together.match(data[stop : min(stop + _REACH, end)])):
        shape = shapes[index]
        if shape.name and not re.match(shape.name, whole):
            continue
        span = _value(shape, data, (stop, end))
        if span is not None and (not shape.before or _stands_behind(shape.before, data, first)):
            return None if _stands_behind(_RESOURCE, data, start) else span
    return None


def _value(shape: NamedShape, data: bytes, window: Span) -> Span | None:
    """Return where the value is, if *shape* stands at the begin of *window*."""
    expression = compiled(shape.behind)
    match = expression.match(data, window[0], min(len(data), window[1]))
    if match is None:
        return None
    for group in range(1, expression.groups + 1):
        span: Span = match.span(group)
        if span[0] < span[1]:
            return span
    return None


def _stands_behind(pattern: bytes, data: bytes, position: int) -> bool:
    return re.search(pattern, data[max(0, position - _BEFORE) : position]) is not None


@cache
def _shapes() -> tuple[tuple[NamedShape, ...], ExpressionSet]:
    """Return all shapes, and what tells which of them may stand somewhere."""
    usual = [NamedShape(f"(?i){behind}") for behind in (*PAIRS, *ASSIGNMENTS, *SENTENCES)]
    shapes = (*SPECIAL, *usual, FLAGS)
    return shapes, ExpressionSet([shape.behind for shape in shapes], anchored=True)
