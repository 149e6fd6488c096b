"""A JSON text made shorter that stays JSON: long arrays, objects and strings lose their middle.

A value that stays is copied as it was written, so no number is rounded. What is shortened is
written without spaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw
from msgspec.json import Encoder

from toolbus.truncation.budgets import level_of
from toolbus.truncation.cuts import cut_after, cut_before

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NOTICE = "toolbus:shortened"
"""The member of an object that says what is missing."""

_MOST_VALUES = 500_000
"""With more values than this a text is not taken apart: each takes a hundred bytes."""

_DEEPEST = 40
_LEAST = 48
"""The size of a value that is worth showing, in bytes."""

_EMPTY = {b"[": b"[]", b"{": b"{}"}
_write = Encoder().encode


def is_json(text: str) -> bool:
    """Tell whether *text* as a whole is a JSON array, object or string.

    What is nested too deep to be read is none.
    """
    if text.lstrip(" \t\r\n")[:1] not in {"{", "[", '"'}:
        return False
    try:
        msgspec.json.decode(text, type=Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return True


def compact(raw: bytes) -> bytes:
    """Return the JSON *raw* without spaces between its values, and else as it was."""
    return msgspec.json.format(raw, indent=-1)


def shorten_json(raw: bytes, limit: int, notice: str | None) -> str:
    """Return the compact JSON *raw* in at most about *limit* bytes of UTF-8, with *notice* in it.

    Without one there are no marks either: arrays are just shorter, and members are missing.
    """
    if notice is not None:
        limit -= len(_write(notice)) + len(NOTICE) + 8
    kind = raw[:1]
    if kind != b'"' and raw.count(b",") + raw.count(b"[") + raw.count(b"{") > _MOST_VALUES:
        return _beginning(raw, limit, notice)
    body = _shorten(raw, max(limit, 2), 0, marks=notice is not None)
    return body.decode() if notice is None else _with_notice(body, kind, notice).decode()


def _with_notice(body: bytes, kind: bytes, notice: str) -> bytes:
    if kind == b'"':
        return _write(f"{msgspec.json.decode(body, type=str)} {notice}")
    comma = b"," if len(body) > 2 else b""  # noqa: PLR2004 - empty ones have two brackets
    if kind == b"[":
        return body[:-1] + comma + _write(notice) + b"]"
    return body[:-1] + comma + _write(NOTICE) + b":" + _write(notice) + b"}"


def _beginning(raw: bytes, limit: int, notice: str | None) -> str:
    """Return a value of *raw*'s kind that shows its beginning as a text."""
    if notice is None:
        return _EMPTY[raw[:1]].decode()
    beginning = raw[: max(limit // 2, 0)].decode(errors="ignore")
    shown = _shorten(_write(beginning), max(limit - 16, 2), 0, marks=True)
    body = b"[" + shown + b"]" if raw[:1] == b"[" else b'{"beginning":' + shown + b"}"
    return _with_notice(body, raw[:1], notice).decode()


def _shorten(raw: bytes, limit: int, depth: int, *, marks: bool) -> bytes:
    """Return the value *raw*, which stands *depth* values deep, in about *limit* bytes."""
    if len(raw) <= limit:
        return raw
    match raw[:1]:
        case b'"':
            return _shorten_string(raw, limit)
        case b"[" if depth < _DEEPEST:
            items = [(b"", item) for item in msgspec.json.decode(raw, type=list[Raw])]
            return b"[" + _join(items, "items", limit - 2, depth, marks=marks) + b"]"
        case b"{" if depth < _DEEPEST:
            members = msgspec.json.decode(raw, type=dict[str, Raw])
            named = [(_write(key) + b":", value) for key, value in members.items()]
            return b"{" + _join(named, "members", limit - 2, depth, marks=marks) + b"}"
    if raw[:1] in _EMPTY and not marks:
        return _EMPTY[raw[:1]]
    return _write(f"[… {len(raw):,} bytes left out …]")


def _shorten_string(raw: bytes, limit: int) -> bytes:
    text = msgspec.json.decode(raw, type=str)
    # Escapes take up to six bytes a character, so what fits is found by trying.
    size = min(len(text), max(limit - 40, 0))
    while True:
        head, tail = cut_before(text, size * 2 // 3), cut_after(text, len(text) - size // 3)
        mark = f" [… {tail - head:,} characters left out …] "
        written = _write(f"{text[:head]}{mark}{text[tail:]}")
        if len(written) <= limit or size == 0:
            return written
        size = size * min(limit, len(written) - 1) // len(written) if size > 8 else 0  # noqa: PLR2004


def _join(
    values: list[tuple[bytes, Raw]], kind: str, limit: int, depth: int, *, marks: bool
) -> bytes:
    """Return *values*, each behind its key or b"", within *limit*: all shorter, or not all.

    *kind* is what they are: items or members.
    """
    ceiling, total = max(limit // 8, _LEAST), len(values)
    # A key is never cut: it would be another one.
    values = [(key, value) for key, value in values if len(key) <= ceiling]
    sizes = [len(key) + memoryview(value).nbytes + 1 for key, value in values]

    def shortened(chosen: list[tuple[bytes, Raw]], size: int) -> Iterator[bytes]:
        for key, value in chosen:
            yield key + _shorten(bytes(value), size - len(key) - 1, depth + 1, marks=marks)

    level = int(level_of(sizes, limit))
    if level >= 2 * _LEAST and len(values) == total:
        return b",".join(shortened(values, level))
    mark = _mark(total, total, kind) if marks else b""
    # Two thirds for the first ones, and for the last ones what these leave.
    head = _count(sizes, (limit - len(mark) - 1) * 2 // 3, ceiling)
    used = sum([min(size, ceiling) for size in sizes[:head]])
    tail = _count(reversed(sizes[head:]), limit - len(mark) - 1 - used, ceiling)
    omitted = total - head - tail
    gap = [_mark(omitted, total, kind)] if marks and omitted else []
    ends = values[:head], values[len(values) - tail :]
    return b",".join([*shortened(ends[0], ceiling), *gap, *shortened(ends[1], ceiling)])


def _count(sizes: Iterable[int], limit: int, ceiling: int) -> int:
    """Return how many of the first of *sizes* are within *limit*, none taken for over *ceiling*."""
    count = 0
    for size in sizes:
        limit -= min(size, ceiling)
        if limit < 0:
            break
        count += 1
    return count


def _mark(omitted: int, total: int, kind: str) -> bytes:
    """Return what stands for the *omitted* of *total* items or members, as *kind* says."""
    mark = _write(f"[… {omitted:,} of {total:,} {kind} left out …]")
    return _write("…") + b":" + mark if kind == "members" else mark
