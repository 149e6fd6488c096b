"""Frames in the one form that all readers read alike, in which they go on where somebody judges.

`from_client(line)` and `from_server(line, method_of)` return the frame in *line* written anew: one
line of compact UTF-8 with a line end; the members `jsonrpc`, `id`, `method`, `params`, `result`
and `error` alone, each once, in this order; no CR and nothing else at which a reader cuts lines;
U+FFFD for half a character. What cannot be said so is a `Refusal`: no JSON, NaN, what is nested
too deeply, and what readers take for different things.

What a server says is read by a client whose answer nobody can ask for again, so it is mended where
that is safe: members that no handler takes for what some reader takes them are dropped.
"""

from __future__ import annotations

import json
import logging
import re
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from toolbus.errors import ToolbusError
from toolbus.hosts.mcp.alike import (
    PROTOTYPE,
    Digits,
    FlawError,
    check,
    check_known,
    drop_prototypes,
    prune,
)
from toolbus.hosts.mcp.frames import (
    INVALID_REQUEST,
    PARSE_ERROR,
    outline,
    read_frame,
    write_line,
)
from toolbus.hosts.mcp.shapes import ASKED, ERROR, SAID
from toolbus.immutable import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

logger = logging.getLogger("toolbus")

_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})

_CALL = "tools/call"
_METHOD = re.compile(r"[A-Za-z0-9_$./:-]{1,128}")
_ID = re.compile(r"[A-Za-z0-9_$./:+=-]{0,128}")
"""What the methods and the ids of servers look like: they are no place for prose."""

_HALF = re.compile("[\ud800-\udfff]")
_SURE = 15
"""So many digits a double always keeps."""


Kind = Literal["request", "notification", "answer", "unknown"]


class Refusal(NamedTuple):
    """Why a frame must not go on: the error's *code* and *reason*, for the *id* that it names.

    *kind* is what it is, for all that can be known: nothing of it goes on, but who waits for an
    answer needs one. The id is `UNSET` if it has none.
    """

    id: Any
    kind: Kind
    code: int
    reason: str

    @property
    def wants_answer(self) -> bool:
        """Whether its sender may wait for an answer."""
        return self.kind in {"request", "unknown"}


class _Unreadable(ToolbusError):
    """A line is no JSON that all readers could read, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class _RangeError(ValueError):
    """A number is beyond what a double can say."""


def from_client(line: bytes) -> bytes | Refusal:
    """Return the client's frame in *line* as it may go on to a server, or why it may not.

    That is *line* itself, if it is so already.
    """
    try:
        frame = _read(line, _client)
    except _Unreadable as error:
        return _unreadable(line, error)
    try:
        if not frame.keys() <= _MEMBERS:
            check_known(frame, _MEMBERS)
        _check_form(frame)
        _check_params(frame)
    except FlawError as error:
        return _refused(frame, str(error))
    written = _written(frame)
    return line if line == written else written


def from_server(line: bytes, method_of: Callable[[Any], str | None]) -> bytes | Refusal:
    """Return the server's frame in *line* as it may go on to a client, or why it may not.

    *method_of* returns the method of the request with an id, which tells what an answer means.
    """
    try:
        frame = _read(line, _server)
    except _Unreadable as error:
        return _unreadable(line, error)
    try:
        _check_form(frame)
        _check_prose(frame)
    except FlawError as error:
        return _refused(frame, str(error))
    _prune(frame, method_of)
    written = _written(frame)
    # Only here an escaped name looks like what it means.
    if b'"__proto__":' in written:
        logger.warning("the server said a member %r; dropped", PROTOTYPE)
        return _written(drop_prototypes(frame))
    return written


# --- reading -----------------------------------------------------------------------------------


def _read_number(text: str) -> float:
    value = float(text)
    if len(text) <= _SURE and "e" not in text and "E" not in text:
        return value
    if not isfinite(value):
        raise _RangeError
    if value and Decimal(text) == Decimal(repr(value)):
        return value
    if not value and not re.search(r"[1-9]", re.split("[eE]", text)[0]):
        return value
    exact = Digits(value)
    exact.digits = text
    return exact


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise _RangeError
    return value


_client = msgspec.json.Decoder(float_hook=_read_number)
_server = msgspec.json.Decoder()


def _read(line: bytes, decoder: msgspec.json.Decoder[Any]) -> dict[str, Any]:
    try:
        value = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _read_leniently(line, _read_number if decoder is _client else _finite)
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _is_deep(value):
        raise _Unreadable(f"it is nested deeper than {MAX_DEPTH}")
    if type(value) is not dict:
        raise _Unreadable("it is no object")
    return value


def _read_leniently(line: bytes, number: Callable[[str], float]) -> Any:
    try:
        value = json.loads(line.decode(), parse_float=number, parse_constant=_refuse_constant)
    except RecursionError:
        raise _Unreadable(f"it is nested deeper than {MAX_DEPTH}") from None
    except UnicodeDecodeError:
        raise _Unreadable("it is no UTF-8") from None
    except _RangeError:
        raise _Unreadable("a number in it is beyond what readers can hold") from None
    except ValueError:
        raise _Unreadable("it is no JSON") from None
    mended = _mend(value)
    if type(value) is dict and "id" in value:
        mended["id"] = value["id"]
    return mended


def _refuse_constant(name: str) -> Any:
    raise _Unreadable(f"{name} is no JSON")


def _mend(value: Any) -> Any:
    match value:
        case str():
            return _HALF.sub("\ufffd", value)
        case dict():
            return {_mend(name): _mend(inner) for name, inner in value.items()}
        case list():
            return [_mend(one) for one in value]
    return value


def _is_deep(value: Any) -> bool:
    """Tell whether *value* has more than `MAX_DEPTH` levels; how deep a stack may be is no matter.

    Interpreters differ in how many levels they read.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for one in level:
            if type(one) is dict:
                inner += one.values()
            elif type(one) is list:
                inner += one
        if not inner:
            return False
        level = inner
    return any(type(one) in {dict, list} for one in level)


# --- judging -----------------------------------------------------------------------------------


def _check_form(frame: dict[str, Any]) -> None:
    own, answers = frame.get("id"), "result" in frame or "error" in frame
    if not _is_id(own):
        raise FlawError("an id is a text or a number")
    if type(own) is str and _HALF.search(own):
        raise FlawError("an id is a text of whole characters")
    if "method" not in frame:
        if not answers:
            raise FlawError("neither a request nor an answer")
        if "id" not in frame:
            raise FlawError("an answer to nothing")
    elif answers:
        raise FlawError("a request and an answer in one")
    elif type(frame["method"]) is not str:
        raise FlawError("a method is a text")


def _check_params(frame: dict[str, Any]) -> None:
    params, method = frame.get("params"), frame.get("method")
    if method is None or type(params) not in {dict, list}:
        return
    if type(params) is dict and (known := ASKED.get(method)) is not None:
        if not params.keys() <= known:
            check_known(params, known)
        if method == _CALL:
            check({"arguments": params.get("arguments")}, numbers=True)
    check(params)


def _check_prose(frame: dict[str, Any]) -> None:
    """Raise `FlawError` for a text where a server has a name to say: no handler is shown it."""
    method, own = frame.get("method"), frame.get("id")
    if method is None:
        return
    if not _METHOD.fullmatch(method):
        raise FlawError("a method is a short name")
    if type(own) is str and not _ID.fullmatch(own):
        raise FlawError("an id is a short name")


def _prune(frame: dict[str, Any], method_of: Callable[[Any], str | None]) -> None:
    kind, about = "params", frame.get("method")
    if about is None:
        kind = "error" if frame.get("error") is not None else "result"
        about = ERROR if kind == "error" else method_of(frame.get("id"))
    shape = SAID.get(about or "")
    for name in () if shape is None else prune(frame.get(kind), shape):
        logger.warning("the server said %r under a name alike; dropped", name)


# --- writing -----------------------------------------------------------------------------------


def _written(frame: dict[str, Any]) -> bytes:
    said = {name: frame[name] for name in _said(frame) if name in frame}
    return write_line({"jsonrpc": "2.0", **said}, _encoder)


def _said(frame: dict[str, Any]) -> tuple[str, ...]:
    if "method" in frame:
        return "id", "method", "params"
    if frame.get("error") is None:
        # Some servers say `null` for no error.
        frame.setdefault("result", None)
        return "id", "result"
    return "id", "error"


def _encode_number(value: Digits) -> msgspec.Raw:
    return msgspec.Raw(value.digits.encode())


_encoder = msgspec.json.Encoder(enc_hook=_encode_number)


def _refused(frame: dict[str, Any], reason: str) -> Refusal:
    own = frame.get("id", UNSET)
    if type(own) is Digits or (own is not UNSET and not _is_id(own)):
        own = None
    return Refusal(own, _kind(frame.keys()), INVALID_REQUEST, reason)


def _unreadable(line: bytes, error: _Unreadable) -> Refusal:
    own, names = outline(line)
    code = PARSE_ERROR if read_frame(line) is None else INVALID_REQUEST
    return Refusal(own, _kind(names), code, error.reason)


def _kind(names: Collection[str]) -> Kind:
    # Who gives an id waits for an answer, also if nobody can tell which id it is.
    if "method" in names:
        return "request" if "id" in names else "notification"
    return "answer" if "result" in names or "error" in names else "unknown"


def _is_id(value: Any) -> bool:
    # By its type: `true` is no id, but in Python it is 1, which may be another request's.
    return value is None or type(value) in {str, int, float, Digits}
