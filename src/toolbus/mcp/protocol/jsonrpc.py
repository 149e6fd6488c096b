"""JSON-RPC frames: decoding, encoding, and the splitting of a stream into lines.

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
"""Error codes: JSON-RPC 2.0, section 5.1; the last two are from the range for implementations."""

_KEYS = (str, int, float)
# An unterminated string extends to the end: else each quote in it would be tried as a beginning.
# A word that is not a number is one token as well: its prefix may be another request's id.
_TOKEN = re.compile(rb'(?s)"(?:[^"\\]|\\.)*+(?:"(?:\s*+:)?|\\?\Z)|[][{}]|[-+.\w]++')
_OPENING, _CLOSING = frozenset({b"[", b"{"}), frozenset({b"]", b"}"})
_BREAKS = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "\x85\u2028\u2029"}
"""Characters at which some readers end a line, although JSON allows them in a string."""


class Frame(Struct):
    """A decoded JSON-RPC frame: its *line*, as received or forwarded, and its members.

    The values of *params*, *result* and *error* may be mutated; the line does not follow.
    """

    line: bytes
    id: Any = UNSET
    method: str | UnsetType = UNSET
    params: Any = UNSET
    result: Any = UNSET
    error: Any = UNSET

    @property
    def is_request(self) -> bool:
        """Whether the frame is a request, which requires a response."""
        return self.method is not UNSET and self.id is not UNSET

    @property
    def is_response(self) -> bool:
        """Whether the frame is a response, a result or an error, and nothing else."""
        answers = self.result is not UNSET or self.error is not UNSET
        return answers and self.method is UNSET and self.id is not UNSET

    @property
    def failed(self) -> bool:
        """Whether the frame is an error response; some servers send a null error with a result."""
        return self.error is not UNSET and self.error is not None


class FrameTooLongError(ToolbusError):
    """A frame exceeds *limit* bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(limit)

    def __str__(self) -> str:
        return f"a frame has more than {self.limit} bytes; raise the limit with --max-frame"


_batch = msgspec.json.Decoder(list[Raw])
_json = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def read_frame(line: bytes) -> Frame | None:
    """Return the frame in *line*, None if it is not a JSON object or its id has an invalid type.

    JSON that only some readers accept is decoded too: with an unpaired surrogate, or NaN.
    """
    try:
        value = _json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _read_leniently(line)
    return frame_of(value, line) if type(value) is dict else None


def frame_of(value: dict[str, Any], line: bytes) -> Frame | None:
    """Return the frame with the members *value*, decoded from *line*; None as `read_frame`."""
    get = value.get
    request_id, method = get("id", UNSET), get("method", UNSET)
    # By type: `true` is not an id, but equals 1 in Python, which may be another request's id.
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
    """Return the frames of a batch, a feature of revision 2025-03-26; None if not a batch."""
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

    An unreadable request is returned without params if its id can be recovered.
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
    """Return the decoded JSON of *raw*, which may be mutated; raises `ValueError`."""
    try:
        return _json.decode(raw)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def scan_top_level(line: bytes) -> tuple[Any, frozenset[str]]:
    """Return the id in *line*, UNSET unless there is exactly one, and the names of its members.

    The line may be invalid JSON; only its first 64 KiB are scanned.
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
    """Return the line of a frame with *members*, with its line end."""
    return write_line({"jsonrpc": "2.0", **members})


def write_line(value: Any, encoder: msgspec.json.Encoder = _encoder) -> bytes:
    """Return *value* as JSON with a line end, the only place where any reader splits it."""
    try:
        line = encoder.encode(value)
    except UnicodeEncodeError:
        # An id in an unfiltered frame may hold an unpaired surrogate; its response repeats it.
        line = json.dumps(value).encode()
    return escape_breaks(line) + b"\n"


def escape_breaks(line: bytes) -> bytes:
    """Return the JSON *line* with the characters escaped at which only some readers end a line."""
    if not line.isascii():
        for char, escaped in _BREAKS.items():
            line = line.replace(char, escaped)
    return line


def error_frame(request_id: Any, code: int, message: str) -> bytes:
    """Return the line of an error response to the request *request_id*."""
    request_id = None if request_id is UNSET else request_id
    return write_frame(id=request_id, error={"code": code, "message": message})


class LineSplitter:
    """A splitter of a stream into lines with their ends, of at most *limit* bytes each."""

    def __init__(self, limit: int) -> None:
        self._limit, self._partial, self._size = limit, [b""], 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that *data* completes; raises `FrameTooLongError`."""
        if not self._size and 0 < data.find(b"\n") + 1 == len(data) <= self._limit:
            return [data]  # The common case: exactly one line.
        # Only `data` is searched, so that a long line is not searched again for every chunk.
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
