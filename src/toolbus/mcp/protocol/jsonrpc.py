"""JSON-RPC frames: what is read of one, those that the proxy makes, and lines of a stream.

See JSON-RPC 2.0, sections 4 "Request object" and 5 "Response object". On pipes a frame is one line:
MCP 2025-11-25, basic/transports, "stdio".
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from toolbus.errors import ToolbusError

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
REFUSED, SERVER_GONE = -32001, -32000
"""Codes of errors: JSON-RPC 2.0, section 5.1; the last two are of the range left to servers."""

_KEYS = (str, int, float)
# A text without an end goes to the end: else each quote in it would be tried as a beginning.
# A word that is not a number is taken whole as well: its beginning may be another request's id.
_TOKEN = re.compile(rb'(?s)"(?:[^"\\]|\\.)*+(?:"(?:\s*+:)?|\\?\Z)|[][{}]|[-+.\w]++')
_OPENING, _CLOSING = frozenset({b"[", b"{"}), frozenset({b"]", b"}"})
_BREAKS = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "\x85\u2028\u2029"}
"""Characters at which some readers end a line, and that JSON allows in a text."""


class Frame(Struct):
    """A JSON-RPC frame, read once: its *line* as it came or goes on, and the members in it.

    The values of *params*, *result* and *error* are free to change; the line stays as it is.
    """

    line: bytes
    id: Any = UNSET
    method: str | UnsetType = UNSET
    params: Any = UNSET
    result: Any = UNSET
    error: Any = UNSET

    @property
    def is_request(self) -> bool:
        """Whether it is a request, which wants an answer."""
        return self.method is not UNSET and self.id is not UNSET

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer, a result or an error, and nothing else."""
        answers = self.result is not UNSET or self.error is not UNSET
        return answers and self.method is UNSET and self.id is not UNSET

    @property
    def failed(self) -> bool:
        """Whether it is an answer that says an error; some servers say `null` for none."""
        return self.error is not UNSET and self.error is not None


class FrameTooLongError(ToolbusError):
    """A frame has more than *limit* bytes and no end in sight."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(limit)

    def __str__(self) -> str:
        return f"a frame has more than {self.limit} bytes; raise the limit with --max-frame"


_batch = msgspec.json.Decoder(list[Raw])
_json = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def read_frame(line: bytes) -> Frame | None:
    """Return the frame in *line*, None if it is not a JSON object or has an id of a strange kind.

    A line that only some readers take for JSON counts: with half a character, or NaN.
    """
    try:
        value = _json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _read_leniently(line)
    return frame_of(value, line) if type(value) is dict else None


def frame_of(value: dict[str, Any], line: bytes) -> Frame | None:
    """Return the frame that *value*, read from *line*, stands for; None as `read_frame`."""
    get = value.get
    request_id, method = get("id", UNSET), get("method", UNSET)
    # By their types: `true` is not an id, but in Python it is 1, which may be another request's.
    if not (request_id is UNSET or request_id is None or type(request_id) in _KEYS):
        return None
    if not (method is UNSET or type(method) is str):
        return None
    return Frame(
        *(line, request_id, method),
        *(get("params", UNSET), get("result", UNSET), get("error", UNSET)),
    )


def _read_leniently(line: bytes) -> Any:
    try:
        return json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def read_batch(line: bytes) -> list[bytes] | None:
    """Return the frames of a batch, as the revision of 2025-03-26 has it; None if it is none."""
    if not line.lstrip().startswith(b"["):
        return None
    try:
        return [bytes(item) for item in _batch.decode(line)]
    except msgspec.DecodeError:
        parts = _read_leniently(line)
        return None if parts is None else [json.dumps(part).encode() for part in parts]
    except RecursionError:
        return None


def frames_in(line: bytes) -> list[Frame]:
    """Return the frames in *line*, which may be a batch.

    A request that cannot be read is one without params, if its id can be told.
    """
    batch = read_batch(line)
    if batch is not None:
        return [frame for part in batch if (frame := read_frame(part)) is not None]
    if (frame := read_frame(line)) is not None:
        return [frame]
    request_id, names = scan_top_level(line)
    is_request = request_id is not UNSET and "method" in names
    return [Frame(line, request_id, "")] if is_request else []


def read_json(raw: Raw | bytes) -> Any:
    """Return the JSON value *raw*, free to change; raises `ValueError`."""
    try:
        return _json.decode(raw)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def scan_top_level(line: bytes) -> tuple[Any, frozenset[str]]:
    """Return the only id that *line* names, else UNSET, and the names of its members.

    It may be no JSON, or too much of it to be read.
    """
    names: set[Any] = set()
    ids: list[Any] = []
    depth, key = 0, ""
    for match in _TOKEN.finditer(line[:65536]):
        token = match[0]
        if token in _OPENING:
            depth += 1
        elif token in _CLOSING:
            depth -= 1
        elif depth == 1 and token.endswith(b":"):
            key = _plain(token[:-1].rstrip())
            names.add(key)
            continue
        elif depth == 1 and key == "id":
            ids.append(_plain(token))
        key = ""
    return ids[0] if len(ids) == 1 else UNSET, frozenset(names)


def _plain(token: bytes) -> Any:
    try:
        value = json.loads(token)
    except ValueError:
        return UNSET
    sound = type(value) in {str, int} or (type(value) is float and isfinite(value))
    return value if sound else UNSET


def write_frame(**members: Any) -> bytes:
    """Return a frame of *members*, with its line end."""
    return write_line({"jsonrpc": "2.0", **members})


def write_line(value: Any, encoder: msgspec.json.Encoder = _encoder) -> bytes:
    """Return *value* as one line of JSON with its end, at which alone every reader cuts."""
    try:
        line = encoder.encode(value)
    except UnicodeEncodeError:
        # Of what is not judged an id may hold half a character, and is answered as it came.
        line = json.dumps(value).encode()
    return escape_breaks(line) + b"\n"


def escape_breaks(line: bytes) -> bytes:
    """Return the JSON *line* without what only some readers take for the end of a line."""
    if not line.isascii():
        for char, escaped in _BREAKS.items():
            line = line.replace(char, escaped)
    return line


def error_frame(request_id: Any, code: int, message: str) -> bytes:
    """Return the answer to the request *request_id* that says what went wrong."""
    request_id = None if request_id is UNSET else request_id
    return write_frame(id=request_id, error={"code": code, "message": message})


class LineSplitter:
    """Cuts a stream into lines, each with its end; raises `FrameTooLongError` beyond *limit*."""

    def __init__(self, limit: int) -> None:
        self._limit, self._partial, self._size = limit, [b""], 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that *data* completes."""
        if not self._size and 0 < data.find(b"\n") + 1 == len(data) <= self._limit:
            return [data]  # One whole line, as most are.
        # Only `data` is searched, so a long line is not searched again with every piece of it.
        head, newline, rest = data.partition(b"\n")
        self._partial.append(head + newline)
        self._size += len(head)
        if self._size > self._limit:
            raise FrameTooLongError(self._limit)
        if not newline:
            return []
        lines = [b"".join(self._partial)]
        *whole, tail = rest.split(b"\n")
        lines.extend([line + b"\n" for line in whole])
        self._partial, self._size = [tail], len(tail)
        return lines

    @property
    def remainder(self) -> bytes:
        """The bytes after the last line end."""
        return b"".join(self._partial)
