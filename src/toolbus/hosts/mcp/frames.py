"""JSON-RPC frames: what is read of one, those that the proxy makes, and lines of a stream."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from toolbus.errors import ToolbusError

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
REFUSED, SERVER_GONE = -32001, -32000
"""Codes of errors; the last two are of the range that JSON-RPC 2.0 leaves to servers."""

_KEYS = (str, int, float)
_SHORT, _SPACED = 4_096, re.compile(rb'"\s+:')
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)')


class Frame(Struct):
    """A JSON-RPC frame; *params*, *result* and *error* are left as they came."""

    id: Any = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def is_request(self) -> bool:
        """Whether it is a request, which wants an answer."""
        return self.method is not UNSET and self.id is not UNSET

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer, a result or an error, and nothing else."""
        said = self.result is not UNSET or self.error is not UNSET
        return said and self.method is UNSET and self.id is not UNSET

    @property
    def failed(self) -> bool:
        """Whether it is an answer that says an error; some servers say `null` for none."""
        return self.error is not UNSET and bytes(self.error) != b"null"


class ExactFrame(Frame, forbid_unknown_fields=True):
    """A frame without any member that JSON-RPC does not know."""

    jsonrpc: str | UnsetType = UNSET


class FrameTooLongError(ToolbusError):
    """A frame has more than *limit* bytes and no end in sight."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(limit)

    def __str__(self) -> str:
        return f"a frame has more than {self.limit} bytes; raise the limit with --max-frame"


_frame = msgspec.json.Decoder(Frame)
_exact = msgspec.json.Decoder(ExactFrame)
_batch = msgspec.json.Decoder(list[Raw])
_json = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def read_frame(line: bytes | Raw) -> Frame | None:
    """Return the frame in *line*, None if it is no JSON object or has an id of a strange kind."""
    try:
        # Most are: so whether they are need not be asked with a second look at the line.
        frame: Frame = _exact.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            frame = _frame.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
    # By their types: `true` is no id, but in Python it is 1, which may be another request's.
    return frame if frame.id is None or frame.id is UNSET or type(frame.id) in _KEYS else None


def is_exact(frame: Frame, line: bytes) -> bool:
    """Tell whether *frame*, as *line*, says what JSON-RPC has a place for, all of it once.

    What stands elsewhere no handler has seen, nor a member that another of its name hides.
    """
    exact = isinstance(frame, ExactFrame) and frame.jsonrpc in {"2.0", UNSET}
    if not exact or not is_single(line):
        return False
    return frame.method is not UNSET or (
        frame.params is UNSET and not (frame.failed and frame.result is not UNSET)
    )


def is_single(line: bytes) -> bool:
    """Tell whether no object in *line* has two members of one name: readers differ in which counts.

    *line* is JSON that was read before.
    """
    with suppress(ValueError, RecursionError):
        read = _json.decode(line)
        # Each member ends its name with these two; a text may hold them as well.
        if len(line) < _SHORT and not _SPACED.search(line):
            if line.count(b'":') == _count_members(read):
                return True
        # Many programs write JSON as our encoder does, and it writes each member once.
        elif _encoder.encode(read) == line.strip():
            return True
    try:
        json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return False
    return True


def make_single(line: bytes) -> bytes | None:
    """Return *line*, where an object has two members of one name without the first of them.

    None if that cannot be written.
    """
    if is_single(line):
        return line
    try:
        return _encoder.encode(_json.decode(line)) + b"\n"
    except (ValueError, RecursionError):
        return None


def _count_members(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count_members, value.values()))
    return sum(map(_count_members, value)) if isinstance(value, list) else 0


def _once(members: list[tuple[str, Any]]) -> None:
    if len(members) > 1 and len(dict(members)) < len(members):
        raise ValueError("two members of one name")


def read_batch(line: bytes) -> list[bytes] | None:
    """Return the frames of a batch, as the revision of 2025-03-26 has it; None if it is none."""
    if not line.lstrip().startswith(b"["):
        return None
    try:
        return [bytes(item) for item in _batch.decode(line)]
    except (msgspec.DecodeError, RecursionError):
        return None


def read_json(raw: Raw | bytes) -> Any:
    """Return the JSON value *raw*, free to change; raises `ValueError`."""
    try:
        return _json.decode(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def guess_id(line: bytes) -> Any:
    """Return the only id that a broken *line* names, else UNSET."""
    found = _ID.findall(line[:65536])
    if len(found) != 1:
        return UNSET
    try:
        return _json.decode(found[0])
    except ValueError:
        return UNSET


def write_frame(**members: Any) -> bytes:
    """Return a frame of *members*, with its line end."""
    return _encoder.encode({"jsonrpc": "2.0", **members}) + b"\n"


def error_frame(own: Any, code: int, message: str) -> bytes:
    """Return the answer to the request *own* that says what went wrong."""
    own = None if own is UNSET else own
    return write_frame(id=own, error={"code": code, "message": message})


class Lines:
    """Cuts a stream into lines, each with its end; raises `FrameTooLongError` beyond *limit*."""

    def __init__(self, limit: int) -> None:
        self._limit, self._begun, self._size = limit, [b""], 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that *data* completes."""
        if not self._size and 0 < data.find(b"\n") + 1 == len(data) <= self._limit:
            return [data]  # One whole line, as most are.
        # Only `data` is searched, so a long line is not searched again with every piece of it.
        head, newline, rest = data.partition(b"\n")
        self._begun.append(head + newline)
        self._size += len(head)
        if self._size > self._limit:
            raise FrameTooLongError(self._limit)
        if not newline:
            return []
        lines = [b"".join(self._begun)]
        *whole, last = rest.split(b"\n")
        lines.extend([one + b"\n" for one in whole])
        self._begun, self._size = [last], len(last)
        return lines

    @property
    def left(self) -> bytes:
        """What came after the last line end."""
        return b"".join(self._begun)
