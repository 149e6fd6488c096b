"""Values assigned to the name of a secret, in all forms that agents meet.

There are dozens of forms. So one pass finds the names, `names` judges each, and the forms are tried
only behind names of secrets.

The second half reads the values of lists of names: tables, CSV, INSERT and COPY of SQL. A pattern
cannot count columns, so a rule finds the list of names, and a function here reads the rows.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from toolbus.redaction.placeholders import placeholders_in
from toolbus.redaction.secrets.expressions import ExpressionSet, compiled
from toolbus.redaction.secrets.names import name_at, name_kind
from toolbus.redaction.secrets.rules import builtin_file

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from typing import TypeAlias

    from toolbus.redaction.secrets.rules import NamedShape, Reader

    Values: TypeAlias = Generator["Span | None", None, bool]

Span = tuple[int, int]

_TURN = 500
"""Rows or values that are read before other tasks have a turn."""

_LONGEST_HEADING, _MOST_COLUMNS = 2_000, 64
# `name (unit)` is a heading; `foo(x` is part of a call, and `return user` of a program.
_HEADING_CELL = re.compile(
    rb"(?=.{1,64}\Z)(?!(?:return|import|from|for|def|yield|del|global|assert|const|let|var)[ (])"
    rb"(?:[\w .#/\x80-\xff-]|\([^()]*\))+"
)
_OPEN_CELL = re.compile(rb"[\w .#()/\x80-\xff-]{1,64}")
_RULER = re.compile(rb"[-+=|: \t\r\xe2\x94-\x96\x80-\xbf]+")
_PADDING = b" \t\r\"'`*"
_BARS = (b"|", "│".encode())
# The group is the separator of cells; inside quotes nothing separates (RFC 4180, section 2).
_SEPARATORS = {
    **{bar: re.compile(b"(" + re.escape(bar) + b")") for bar in _BARS},
    b"\t": re.compile(rb"(\t)"),
    b";": re.compile(rb'"(?:[^"]|"")*"|(;)'),
    b",": re.compile(rb'"(?:[^"]|"")*"|(,)'),
    b"  ": re.compile(rb"([ \t]{2,})"),
}
_SQL_VALUE = re.compile(
    rb"""\s*(?:[NE]?'(?P<text>(?:[^'\\]|''|\\.)*)'|"(?P<name>(?:[^"\\]|\\.)*)"|[^\s,()'"]*)\s*""",
    re.DOTALL,
)


class _TableForm(NamedTuple):
    """The form of a table: the *sign* between cells, which may also surround a line."""

    sign: bytes
    is_framed: bool = False


def table_values(data: bytes, name: Span, _stop: int) -> Values:
    """Yield the values of the column with *name* in its heading, to the end of the table."""
    near = max(0, name[0] - _LONGEST_HEADING), name[1] + _LONGEST_HEADING
    start, stop = _line_at(data, name[0], near)
    if stop - start > _LONGEST_HEADING:
        return False
    line = data[start:stop]
    if stop == len(data):
        return _may_be_heading(line)
    for sign in filter(line.__contains__, _SEPARATORS):
        form = _TableForm(sign, is_framed=sign in _BARS and line.strip().startswith(sign))
        heading = _cells(data, start, stop, form)
        column = _column(data, heading, name)
        if column is not None and 1 < len(heading) <= _MOST_COLUMNS:
            if not _is_row(data, start, form, len(heading)):
                return (yield from _below(data, stop + 1, form, (column, len(heading))))
            return False
    return False


def inserted_values(data: bytes, name: Span, stop: int) -> Values:
    """Yield the values for the column *name* of an INSERT whose rows begin at byte *stop*."""
    begin = data.rfind(b"(", max(0, name[0] - _LONGEST_HEADING), name[0])
    column = data.count(b",", begin, name[0])
    position, index, count = stop, -1, 0
    while position < len(data):
        sign = data[position : position + 1]
        if sign == b"(" and index < 0:
            index, position = 0, position + 1
        elif index >= 0:
            match = _SQL_VALUE.match(data, position)
            if match is None:
                return False
            if index == column and match.lastgroup:
                yield match.span(match.lastgroup)
            position, index = _next_value(data, match.end(), index)
            count += 1
            if count % _TURN == 0:
                yield None
        elif sign in b", \t\r\n":
            position += 1
        else:
            return False
    return True


def copied_values(data: bytes, name: Span, stop: int) -> Values:
    """Yield the values of the column *name* of a COPY whose lines begin at byte *stop*."""
    begin = data.rfind(b"(", max(0, name[0] - _LONGEST_HEADING), name[0])
    end = data.find(b")", name[0], name[0] + _LONGEST_HEADING)
    columns = data.count(b",", begin, end) + 1
    form, wanted = _TableForm(b"\t"), (data.count(b",", begin, name[0]), columns)
    return (yield from _below(data, stop, form, wanted))


def values_go_on(values: Values) -> bool:
    """Return whether the list of *values* continues at the end of the text."""
    try:
        while True:
            next(values)
    except StopIteration as end:
        return bool(end.value)


def _below(data: bytes, start: int, form: _TableForm, wanted: tuple[int, int]) -> Values:
    """Yield the cells of a column from byte *start*; *wanted* is its index and the column count."""
    column, columns = wanted
    count = 0
    while start < len(data):
        _, stop = _line_at(data, start)
        if not _RULER.fullmatch(data, start, stop):
            row = _cells(data, start, stop, form)
            if len(row) != columns:
                # A short line at the end of the text may be an unfinished row.
                return stop == len(data) and len(row) < columns
            yield row[column]
        start, count = stop + 1, count + 1
        if count % _TURN == 0:
            yield None
    return True


def _may_be_heading(line: bytes) -> bool:
    """Return whether *line*, which may continue, is the beginning of a heading."""
    for sign in _SEPARATORS:
        *cells, rest = [
            line[start:stop] for start, stop in _cells(line, 0, len(line), _TableForm(sign))
        ]
        is_open = not rest or _OPEN_CELL.fullmatch(rest.rstrip(_PADDING)) is not None
        # A bar may precede the first cell.
        first = cells[:1] if sign not in _BARS or cells[:1] != [b""] else []
        if is_open and all(map(_HEADING_CELL.fullmatch, [*first, *cells[1:]])):
            return True
    return False


def _is_row(data: bytes, start: int, form: _TableForm, columns: int) -> bool:
    """Return whether the line at *start* is a row: then the line before it has as many cells.

    So each line is read for one heading only.
    """
    near = max(0, start - 1 - _LONGEST_HEADING), start
    first, stop = _line_at(data, start - 1, near) if start else (0, 0)
    if first == stop or _RULER.fullmatch(data, first, stop):
        return False
    return len(_cells(data, first, stop, form)) == columns


def _line_at(data: bytes, position: int, near: Span | None = None) -> Span:
    """Return the span of the line at *position*, clipped to *near*."""
    first, end = near or (0, len(data))
    stop = data.find(b"\n", position, end)
    return data.rfind(b"\n", first, position) + 1 or first, min(
        end, len(data)
    ) if stop < 0 else stop


def _cells(data: bytes, start: int, stop: int, form: _TableForm) -> list[Span]:
    """Return the spans of the cells of a line, without blanks and quotes around them."""
    start, stop = _stripped(data, start, stop, b" \r")
    spans, position = [], start
    for match in _SEPARATORS[form.sign].finditer(data, start, stop):
        if match[1]:
            spans.append((position, match.start()))
            position = match.end()
    spans.append((position, stop))
    if form.is_framed:
        spans = spans[1:-1]
    return [_stripped(data, *span, _PADDING) for span in spans]


def _stripped(data: bytes, start: int, stop: int, padding: bytes) -> Span:
    text = data[start:stop].lstrip(padding)
    start = stop - len(text)
    return start, start + len(text.rstrip(padding))


def _column(data: bytes, heading: list[Span], name: Span) -> int | None:
    """Return the index of the cell of *heading* with *name*; None if it heads no table."""
    if not all(_HEADING_CELL.fullmatch(data, *span) for span in heading):
        return None
    columns = [index for index, span in enumerate(heading) if span[0] <= name[0] < span[1]]
    return columns[0] if columns else None


def _next_value(data: bytes, position: int, index: int) -> tuple[int, int]:
    """Return the start of the next value or row, and the value's index, -1 between rows."""
    sign = data[position : position + 1]
    if sign == b",":
        return position + 1, index + 1
    if sign == b")":
        return position + 1, -1
    # A call or another text that is not a row: the next value is behind it.
    stop = data.find(b")", position)
    return (len(data), -1) if stop < 0 else (stop + 1, index)


_REACH, _LONG_REACH, _SHORT_REACH = 1_024, 8_192, 256
"""Bytes behind a name: to choose forms, of the longest value, and of a value deep in a chain.

In a chain such as `token=token=…` each name would otherwise search to the end of the chain.
"""

_BEFORE, _DEEP = 80, 128
_CHAIN = re.compile(rb"(?:[^\s\"'\x60;,)<>}\]&|\\=:]*[=:]){8}[^\s\"'\x60;,)<>}\]&|\\]*")
# In the name of an AWS resource, "secret" is a type.
_RESOURCE = re.compile(rb"\barn:[\w:*/-]*\Z")
# A few short words up to the end of the line: the context of most names.
# Possessive, since backtracking never helps: a long chain would be read repeatedly.
_WORDS = re.compile(
    rb"(?:(?:[ \t.:=,;()/-]++[A-Za-z]{1,7}+){1,24}+[ \t.:,;()]*+\r?\n|\r?\n(?:[^ \t\r\n]|\Z))"
)
# The separator of a heading's cells, behind a name or, for the last name, before it.
_CELL = re.compile(rb"""["'`*)]{0,3}(?:[ \t]*(?:[|,;\t]|\xe2\x94\x82)|  )""")
_LAST_CELL = re.compile(rb"""["'`*)]{0,3}[ \t]*\r?\n""")
_EARLIER_CELL = re.compile(rb"[|,;\t]|\xe2\x94\x82|\S  ")


def assigned_values(data: bytes, name: Span, _stop: int) -> Iterator[Span | None]:
    """Yield the value assigned to *name*, or the values below it, if the name may be a secret's."""
    start, stop = name
    stop = start + len(data[start:stop].rstrip(b".-"))
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


READERS: Mapping[Reader, Callable[[bytes, Span, int], Iterator[Span | None]]] = {
    "assigned": assigned_values,
    "insert": inserted_values,
    "copy": copied_values,
}
"""The readers of values that a rule's pattern cannot reach, by their names in the rules.

Each takes the text, the span of the name, and the end of the rule's match.
"""


def is_heading(data: bytes, start: int, stop: int) -> bool:
    """Return whether the name between *start* and *stop* may be one of several in a line."""
    if _CELL.match(data, stop):
        return True
    if not _LAST_CELL.match(data, stop):
        return False
    return bool(_EARLIER_CELL.search(data, data.rfind(b"\n", 0, start) + 1, start))


def _assigned(data: bytes, whole: str, name: Span) -> Span | None:
    """Return the span of the value behind *name*; *whole* is the full text of the name."""
    start, stop = name
    first = stop - len(whole.encode())
    is_deep = start >= _DEEP and _CHAIN.fullmatch(data, start - _DEEP, start)
    end = stop + (_SHORT_REACH if is_deep else _LONG_REACH)
    known, names, together = _shapes()
    # The likely forms come first.
    for index in sorted(together.match(data[stop : min(stop + _REACH, end)])):
        shape = known[index]
        if not names[index].match(whole):
            continue
        span = _value(shape, data, (stop, end))
        if span is not None and (not shape.before or _stands_behind(shape.before, data, first)):
            return None if _RESOURCE.search(data[max(0, start - _BEFORE) : start]) else span
    return None


def _value(shape: NamedShape, data: bytes, window: Span) -> Span | None:
    """Return the span of the value if *shape* matches at the beginning of *window*."""
    expression = compiled(shape.behind)
    match = expression.match(data, window[0], min(len(data), window[1]))
    if match is None:
        return None
    for group in range(1, expression.groups + 1):
        span: Span = match.span(group)
        if span[0] < span[1]:
            return span
    return None


def _stands_behind(pattern: str, data: bytes, position: int) -> bool:
    before = data[max(0, position - _BEFORE) : position]
    return re.search(pattern.encode(), before) is not None


@cache
def _shapes() -> tuple[tuple[NamedShape, ...], list[re.Pattern[str]], ExpressionSet]:
    """Return all forms, the beginning of each one's name, and a set that matches all at once."""
    shapes = builtin_file().shapes
    names = [re.compile(shape.name) for shape in shapes]
    return shapes, names, ExpressionSet([shape.behind for shape in shapes], anchored=True)
