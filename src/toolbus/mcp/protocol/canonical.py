"""Frames in the one form that all readers read alike, in which they go on where somebody judges.

`from_client(line)` and `from_server(line, method_of)` return the frame in *line* written anew: one
line of compact UTF-8 with a line end; the members `jsonrpc`, `id`, `method`, `params`, `result`
and `error` alone, each once, in this order; no CR and nothing else at which a reader cuts lines;
U+FFFD for half a character. A frame that cannot be said so is a `Refusal`: no JSON, NaN, too many
levels, and members that readers take for different things. That is about I-JSON, RFC 7493, 2.

A frame of a server is mended where that is safe, since nobody can ask for its answer again: members
that no handler takes for what some reader takes them are dropped.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Frame,
    read_frame,
    read_json,
    scan_top_level,
    write_frame,
    write_line,
)
from toolbus.mcp.protocol.revisions import CALL, ELICIT, ERROR, LIST
from toolbus.mcp.protocol.strict_json import (
    HALF,
    PROTOTYPE,
    AmbiguousJsonError,
    ExactNumber,
    UnreadableError,
    check,
    check_known,
    drop_prototypes,
    normalize_loose,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

logger = logging.getLogger("toolbus")

_OF_FRAMES = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})

_OF_REQUESTS: tuple[str, ...] = ("id", "method", "params")
_OF_RESULTS, _OF_ERRORS = ("id", "result"), ("id", "error")

_METHOD = re.compile(r"[A-Za-z0-9_$./:-]{1,128}")
_ID = re.compile(r"[A-Za-z0-9_$./:+=-]{0,128}")
"""The form of the methods and ids of servers, in which no prose has room."""

_SERVER_ASKS = "The MCP server asks, not toolbus: "

_OF_CALLS = frozenset(
    {"name", "arguments", "_meta", "task", "inputResponses", "requestState"},
)
_CLIENT_MEMBERS = {
    CALL: _OF_CALLS,
    "prompts/get": _OF_CALLS,
    "resources/read": frozenset({"uri", "_meta", "inputResponses", "requestState"}),
}
"""The members of requests of clients by which handlers decide."""

_PRUNED = frozenset(
    {
        *(CALL, LIST, ERROR, "resources/read", "prompts/get", "initialize", "server/discover"),
        *("notifications/message", "notifications/progress"),
    }
)
"""The methods of which handlers see what a server says at its place."""

_MEMBERS = frozenset(
    {
        *("content", "structuredContent", "isError", "resultType", "contents", "messages", "role"),
        *("type", "text", "data", "blob", "mimeType", "uri", "resource", "annotations"),
        *("name", "title", "description", "icons", "execution", "inputSchema", "outputSchema"),
        *("tools", "nextCursor", "ttlMs", "cacheScope", "protocolVersion", "supportedVersions"),
        *("capabilities", "serverInfo", "instructions", "level", "logger", "code", "message"),
        *("progressToken", "progress", "total"),
    }
)
"""The members that MCP knows in what those servers say."""

_HOLDERS = frozenset({"content", "contents", "messages", "resource", "tools"})
"""The members that hold such objects; elsewhere a server may name members as it likes."""

_ALIKE = {normalize_loose(name): name for name in _MEMBERS}

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


def from_client(line: bytes) -> Frame | Refusal:
    """Return the client's frame in *line* as it may go on to a server, or why it may not.

    Its line is *line* itself, the same object, if that is in this form already.
    """
    try:
        members = parse(line, digits=True)
    except UnreadableError as error:
        return _unreadable(line, error)
    try:
        if not members.keys() <= _OF_FRAMES:
            check_known(members, _OF_FRAMES)
        _check_form(members)
        _check_params(members)
    except AmbiguousJsonError as error:
        return _refused(members, str(error))
    frame = _written(members)
    if frame.line == line:
        frame.line = line
    return frame


def from_server(line: bytes, method_of: Callable[[Any], str | None]) -> Frame | Refusal:
    """Return the server's frame in *line* as it may go on to a client, or why it may not.

    *method_of* returns the method of the request with an id, which tells what an answer means.
    """
    try:
        members = parse(line)
    except UnreadableError as error:
        return _unreadable(line, error)
    try:
        _check_form(members)
        _check_prose(members)
    except AmbiguousJsonError as error:
        return _refused(members, str(error))
    _prune(members, method_of)
    frame = _written(members)
    # Only here an escaped name looks like what it means.
    if b'"__proto__":' in frame.line:
        logger.warning("the server said a member %r; dropped", PROTOTYPE)
        return _written(drop_prototypes(members))
    return frame


# --- judging -----------------------------------------------------------------------------------


def _check_form(frame: dict[str, Any]) -> None:
    request_id, answers = frame.get("id"), "result" in frame or "error" in frame
    if not _is_id(request_id):
        raise AmbiguousJsonError("an id is a text or a number")
    if type(request_id) is str and HALF.search(request_id):
        raise AmbiguousJsonError("an id is a text of whole characters")
    if "method" not in frame:
        if not answers:
            raise AmbiguousJsonError("neither a request nor an answer")
        if "id" not in frame:
            raise AmbiguousJsonError("a response without an id")
    elif answers:
        raise AmbiguousJsonError("a request and an answer in one")
    elif type(frame["method"]) is not str:
        raise AmbiguousJsonError("a method is a text")


def _check_params(frame: dict[str, Any]) -> None:
    params, method = frame.get("params"), frame.get("method")
    if method is None:
        return
    if type(params) is dict and (known := _CLIENT_MEMBERS.get(method)) is not None:
        if not params.keys() <= known:
            check_known(params, known)
        check(params, exact="arguments" if method == CALL else None)
    else:
        check(params)


def _check_prose(frame: dict[str, Any]) -> None:
    """Raise `AmbiguousJsonError` for prose in a place of a name, which handlers do not see."""
    method, request_id = frame.get("method"), frame.get("id")
    if method is None:
        return
    if not _METHOD.fullmatch(method):
        raise AmbiguousJsonError("a method is a short name")
    if type(request_id) is str and not _ID.fullmatch(request_id):
        raise AmbiguousJsonError("an id is a short name")


def _prune(frame: dict[str, Any], method_of: Callable[[Any], str | None]) -> None:
    """Take members under names alike from *frame*, and mark the forms in it.

    Forms are requests, or stand in results, and in what is told of a task: MCP 2026-07-28,
    basic/patterns/mrtr, and SEP-2663.
    """
    about, body = frame.get("method"), frame.get("params")
    if about is not None:
        _mark({"": frame})
    elif (body := frame.get("error")) is not None:
        about = ERROR
    else:
        about, body = method_of(frame.get("id")), frame.get("result")
    if type(body) is dict and type(requests := body.get("inputRequests")) is dict:
        _mark(requests)
    for name in _pruned(body) if about in _PRUNED else ():
        logger.warning("the server said %r under a name alike; dropped", name)


def _pruned(value: Any) -> list[str]:
    """Take from *value*, said by a server, what generous readers take for a member of MCP.

    Return which members those are.
    """
    pruned: list[str] = []
    if type(value) is list:
        for item in value:
            pruned += _pruned(item)
    elif type(value) is dict:
        for name in value.keys() - _MEMBERS:
            if (meant := _ALIKE.get(normalize_loose(name))) is not None:
                del value[name]
                pruned.append(meant)
        for name in _HOLDERS & value.keys():
            pruned += _pruned(value[name])
    return pruned


def _mark(requests: dict[str, Any]) -> None:
    """Have each form among *requests* say that the server asks.

    Otherwise a server could word its question as one of ours, and train its person to say yes.
    """
    for request in requests.values():
        match request:
            case {"method": str(method), "params": dict(params)} if method == ELICIT:
                params["message"] = f"{_SERVER_ASKS}{params.get('message', '')}"


# --- writing -----------------------------------------------------------------------------------


def _written(members: dict[str, Any]) -> Frame:
    """Return the frame of *members* with its one line."""
    if "method" in members:
        names = _OF_REQUESTS
    elif members.get("error") is None:
        # Some servers say `null` for no error.
        members.setdefault("result", None)
        names = _OF_RESULTS
    else:
        names = _OF_ERRORS
    known = {name: members[name] for name in names if name in members}
    try:
        line = write_frame(**known)
    except TypeError:
        # A number that no double says goes on as it was written; handlers see the next double.
        line = write_line({"jsonrpc": "2.0", **known}, _exact)
        known = read_json(line)
        del known["jsonrpc"]
    return Frame(line, **known)


def _encode_number(value: ExactNumber) -> msgspec.Raw:
    return msgspec.Raw(value.digits.encode())


_exact = msgspec.json.Encoder(enc_hook=_encode_number)


def _refused(frame: dict[str, Any], reason: str) -> Refusal:
    request_id = frame.get("id", UNSET)
    if type(request_id) is ExactNumber or (request_id is not UNSET and not _is_id(request_id)):
        request_id = None
    return Refusal(request_id, _kind(frame.keys()), INVALID_REQUEST, reason)


def _unreadable(line: bytes, error: UnreadableError) -> Refusal:
    request_id, names = scan_top_level(line)
    code = PARSE_ERROR if read_frame(line) is None else INVALID_REQUEST
    return Refusal(request_id, _kind(names), code, error.reason)


def _kind(names: Collection[str]) -> Kind:
    # A sender that gives an id waits for an answer, also if the id cannot be told.
    if "method" in names:
        return "request" if "id" in names else "notification"
    return "answer" if "result" in names or "error" in names else "unknown"


def _is_id(value: Any) -> bool:
    # By its type: `true` is no id, but in Python it is 1, which may be another request's.
    return value is None or type(value) in {str, int, float, ExactNumber}
