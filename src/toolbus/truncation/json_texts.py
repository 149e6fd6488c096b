"""The truncation of JSON to valid JSON: long arrays, objects and strings lose their middle.

A kept value is copied as it was written, so no number is rounded. A shortened value is written
without spaces.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.json import Encoder

from toolbus.truncation.budgets import common_limit
from toolbus.truncation.cut_texts import cut_text

_NOTICE = "toolbus:shortened"
"""The member of an object with the notice."""

_MOST_VALUES = 500_000
"""The maximum of values in a text: each takes a hundred bytes when it is parsed."""

_DEEPEST = 40
_LEAST = 48
"""The minimum size of a shown value, in bytes."""

_MARK = 60
"""The maximum size of a mark with its key."""

_HEAD = 2 / 3
_EMPTY: dict[bytes, Any] = {b"[": (), b"{": {}}
_write = Encoder().encode


def is_json(text: str) -> bool:
    """Return whether *text* as a whole is a JSON array, object or string of a limited size."""
    kind = text.lstrip(" \t\r\n")[:1]
    if kind not in {"{", "[", '"'}:
        return False
    try:
        msgspec.json.decode(text, type=Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return kind == '"' or text.count(",") + text.count("[") + text.count("{") <= _MOST_VALUES


def shorten_json(raw: bytes, limit: int, notice: str | None) -> str:
    """Return the compact JSON *raw* in about *limit* bytes of UTF-8, with *notice* in it.

    Without a notice there are no marks either: arrays are shorter, and members are missing.
    """
    if notice is None:
        return _write(_cut(raw, max(limit, 2), 0, marks=False)).decode()
    limit = max(limit - len(_write(notice)) - len(_NOTICE) - 8, 2)
    value = _cut(raw, limit, 0, marks=True)
    match value:
        case str():
            value = f"{value} {notice}"
        case list():
            value.append(notice)
        case dict():
            value[_NOTICE] = notice
    return _write(value).decode()


def _cut(raw: bytes, limit: int, depth: int, *, marks: bool) -> Any:
    """Return the value *raw*, at *depth*, shortened to *limit* bytes if necessary."""
    if depth > 0 and len(raw) <= limit:
        return Raw(raw)
    match raw[:1]:
        case b'"':
            return _cut_string(raw, limit)
        case b"[" if depth < _DEEPEST:
            items = [("", item) for item in msgspec.json.decode(raw, type=list[Raw])]
            keys = [0] * len(items)
            return [item for _, item in _cut_members(items, keys, limit - 2, depth, marks=marks)]
        case b"{" if depth < _DEEPEST:
            members = [*msgspec.json.decode(raw, type=dict[str, Raw]).items()]
            keys = [len(_write(key)) + 1 for key, _ in members]
            return dict(_cut_members(members, keys, limit - 2, depth, marks=marks))
    text = f"[… {len(raw):,} bytes left out …]"
    return text if marks else _EMPTY.get(raw[:1], text)


def _cut_string(raw: bytes, limit: int) -> str:
    """Return the string *raw* cut to *limit* bytes of JSON, including its escapes."""
    text = msgspec.json.decode(raw, type=str)
    size = max(limit - 2, 0) * len(text) // len(raw)
    while len(written := _write(cut := cut_text(text, size, _HEAD)[0])) > limit and size > 0:
        size = size * limit // len(written) * 9 // 10
    return cut


def _cut_members(
    pairs: list[tuple[str, Raw]], keys: list[int], limit: int, depth: int, *, marks: bool
) -> list[tuple[str, Any]]:
    """Return *pairs* of keys and values, or the first and last ones, shortened to *limit* bytes.

    *keys* are the sizes of the keys, each 0 in an array.
    """
    total, ceiling = len(pairs), max(limit // 16, _LEAST)
    kind = "members" if any(keys) else "items"
    if max(keys, default=0) > ceiling:
        # A key is never cut: it would be a different one.
        pairs = [pair for pair, key in zip(pairs, keys, strict=True) if key <= ceiling]
        keys = [key for key in keys if key <= ceiling]
    sizes = [size + memoryview(pair[1]).nbytes + 1 for size, pair in zip(keys, pairs, strict=True)]
    head, tail = _ends(sizes, limit, ceiling)
    del pairs[head:tail], keys[head:tail], sizes[head:tail]
    if len(pairs) < total:
        limit -= _MARK
    level = int(common_limit(sizes, limit))
    shortened: list[tuple[str, Any]] = []
    for (name, value), key in zip(pairs, keys, strict=True):
        shortened.append((name, _cut(bytes(value), level - key - 1, depth + 1, marks=marks)))
    if marks and len(pairs) < total:
        mark = f"[… {total - len(pairs):,} of {total:,} {kind} left out …]"
        shortened.insert(head, ("…", mark))
    return shortened


def _ends(sizes: list[int], limit: int, ceiling: int) -> tuple[int, int]:
    """Return the end of the first *sizes*, with two thirds of *limit*, and the start of the last.

    A size counts as at most *ceiling*.
    """
    sums = [*accumulate([min(size, ceiling) for size in sizes], initial=0)]
    if sums[-1] <= limit:
        return len(sizes), len(sizes)
    limit -= _MARK
    head = max(bisect_right(sums, limit * _HEAD) - 1, 0)
    return head, max(bisect_left(sums, sums[-1] - limit + sums[head]), head)
