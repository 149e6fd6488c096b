"""A JSON text made shorter that stays JSON: long arrays, objects and strings lose their middle.

A value that stays is copied as it was written, so no number is rounded. What is shortened is
written without spaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Encoder

from toolbus.truncation.cuts import cut_after, cut_before

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NOTICE = "toolbus:shortened"
"""The member of an object that says what is missing."""

_MOST_PIECES = 500_000
"""With more values than this a text is not taken apart: each takes a hundred bytes."""

_DEEPEST = 40
_LEAST = 48
"""Room for a value that is worth showing, in bytes."""

_write = Encoder().encode


class Manner(Struct, frozen=True):
    """How it is done: with *marks* for what is left out, which not every schema takes."""

    marks: bool = True


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


def shorten_json(raw: bytes, room: int, notice: str | None) -> str:
    """Return the compact JSON *raw* in at most about *room* bytes of UTF-8, with *notice* in it.

    Without one there are no marks either: arrays are just shorter, and members are missing.
    """
    manner = Manner(marks=notice is not None)
    said = _write(notice or "")
    left = room - (0 if notice is None else len(said) + len(NOTICE) + 8)
    kind = raw[:1]
    if _pieces(raw) > _MOST_PIECES and kind != b'"':
        return _wrapped(raw, left, notice, manner)
    body = _shorten(raw, max(left, 2), 0, manner)
    return body.decode() if notice is None else _noticed(body, kind, notice, said).decode()


def _noticed(body: bytes, kind: bytes, notice: str, said: bytes) -> bytes:
    if kind == b'"':
        return _write(f"{msgspec.json.decode(body, type=str)} {notice}")
    comma = b"," if len(body) > 2 else b""  # noqa: PLR2004 - empty ones have two brackets
    if kind == b"[":
        return body[:-1] + comma + said + b"]"
    return body[:-1] + comma + _write(NOTICE) + b":" + said + b"}"


def _wrapped(raw: bytes, room: int, notice: str | None, manner: Manner) -> str:
    """Return a value of *raw*'s kind that shows its beginning as a text."""
    if notice is None:
        return raw[:1].decode() + ("]" if raw[:1] == b"[" else "}")
    beginning = raw[: max(room // 2, 0)].decode(errors="ignore")
    shown = _shorten(_write(beginning), max(room - 16, 2), 0, manner)
    said = _write(notice)
    if raw[:1] == b"[":
        return (b"[" + shown + b"," + said + b"]").decode()
    return (b'{"beginning":' + shown + b"," + _write(NOTICE) + b":" + said + b"}").decode()


def _pieces(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def _shorten(raw: bytes, room: int, depth: int, manner: Manner) -> bytes:
    if len(raw) <= room:
        return raw
    match raw[:1]:
        case b'"':
            return _shorten_string(raw, room)
        case b"[" if depth < _DEEPEST:
            items = msgspec.json.decode(raw, type=list[Raw])
            return b"[" + _joined((), items, room - 2, depth, manner) + b"]"
        case b"{" if depth < _DEEPEST:
            members = msgspec.json.decode(raw, type=dict[str, Raw])
            keys = [_write(key) + b":" for key in members]
            return b"{" + _joined(keys, list(members.values()), room - 2, depth, manner) + b"}"
    if raw[:1] in {b"[", b"{"} and not manner.marks:
        return raw[:1] + (b"]" if raw[:1] == b"[" else b"}")
    return _write(f"[… {len(raw):,} bytes left out …]")


def _shorten_string(raw: bytes, room: int) -> bytes:
    text = msgspec.json.decode(raw, type=str)
    # Escapes take up to six bytes a character, so what fits is found by trying.
    size = min(len(text), max(room - 40, 0))
    while True:
        head, tail = cut_before(text, size * 2 // 3), cut_after(text, len(text) - size // 3)
        mark = f" [… {tail - head:,} characters left out …] "
        written = _write(f"{text[:head]}{mark}{text[tail:]}")
        if len(written) <= room or size == 0:
            return written
        size = size * min(room, len(written) - 1) // len(written) if size > 8 else 0  # noqa: PLR2004


def _joined(
    keys: Sequence[bytes], values: Sequence[Raw], room: int, depth: int, manner: Manner
) -> bytes:
    """Return *values*, after their *keys*, in *room*: all of them shorter, or not all of them."""
    limit, total, named = max(room // 8, _LEAST), len(values), bool(keys)
    # A key is never cut: it would be another one.
    if any(len(key) > limit for key in keys):
        short = [at for at, key in enumerate(keys) if len(key) <= limit]
        keys, values = [keys[at] for at in short], [values[at] for at in short]
    sizes = [memoryview(value).nbytes + 1 for value in values]
    if keys:
        sizes = [size + len(key) for size, key in zip(sizes, keys, strict=True)]

    def pieces(chosen: range, most: int) -> Iterator[bytes]:
        for at in chosen:
            key = keys[at] if named else b""
            yield key + _shorten(bytes(values[at]), most - len(key) - 1, depth + 1, manner)

    level = _level(sizes, room)
    if level >= 2 * _LEAST and len(values) == total:
        return b",".join(pieces(range(total), level))
    said = _mark(total, total, named=named) if manner.marks else b""
    head, tail = _chosen(sizes, room - len(said) - 1, limit)
    gone = total - head - tail
    mark = [_mark(gone, total, named=named)] if manner.marks and gone else []
    first, last = range(head), range(len(sizes) - tail, len(sizes))
    return b",".join([*pieces(first, limit), *mark, *pieces(last, limit)])


def _level(sizes: list[int], room: int) -> int:
    """Return how long each of *sizes* may be at most, so that all together have *room*."""
    left, count = room, len(sizes)
    for size in sorted(sizes):
        if size * count > left:
            return left // count
        left, count = left - size, count - 1
    return max(sizes, default=0)


def _chosen(sizes: list[int], room: int, limit: int) -> tuple[int, int]:
    """Return how many of the first and of the last of *sizes* have *room*, two thirds of it first.

    None of them takes more than *limit*.
    """
    head = _count(sizes, room * 2 // 3, limit)
    used = sum([min(size, limit) for size in sizes[:head]])
    tail = _count(reversed(sizes[head:]), room - used, limit)
    return head, tail


def _count(sizes: Iterable[int], room: int, limit: int) -> int:
    count = 0
    for size in sizes:
        room -= min(size, limit)
        if room < 0:
            break
        count += 1
    return count


def _mark(gone: int, total: int, *, named: bool) -> bytes:
    """Return what stands for *gone* of *total* items, or members if they are *named*."""
    said = _write(f"[… {gone:,} of {total:,} {'members' if named else 'items'} left out …]")
    return _write("…") + b":" + said if named else said
