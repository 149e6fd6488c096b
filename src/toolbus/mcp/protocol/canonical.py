"""The canonical form of JSON-RPC frames, which every reader understands alike.

`from_client(line)` and `from_server(line, method_of)` return the frame in *line* rewritten: one
line of compact UTF-8 with a line end; only the members `jsonrpc`, `id`, `method`, `params`,
`result` and `error`, each once, in this order; no CR or other character at which a reader splits
lines; U+FFFD for an unpaired surrogate. A frame without a canonical form becomes a `Refusal`:
invalid JSON, NaN, too many levels, ambiguous members. The form is close to I-JSON, RFC 7493, 2.

A server's frame is repaired where that is safe, since its response cannot be requested again:
members that some readers would take for a known member are dropped.
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

_FRAME_MEMBERS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})

_REQUEST_MEMBERS: tuple[str, ...] = ("id", "method", "params")
_RESULT_MEMBERS, _ERROR_MEMBERS = ("id", "result"), ("id", "error")

_METHOD = re.compile(r"[A-Za-z0-9_$./:-]{1,128}")
_ID = re.compile(r"[A-Za-z0-9_$./:+=-]{0,128}")
"""The form of methods and ids in a server's frames, too narrow for prose."""

_SERVER_ASKS = "The MCP server asks, not toolbus: "

_CALL_MEMBERS = frozenset({"name", "arguments", "_meta", "task", "inputResponses", "requestState"})
_CLIENT_MEMBERS = {
    CALL: _CALL_MEMBERS,
    "prompts/get": _CALL_MEMBERS,
    "resources/read": frozenset({"uri", "_meta", "inputResponses", "requestState"}),
}
"""The members of client requests that handlers base decisions on."""

_PRUNED = frozenset(
    {
        *(CALL, LIST, ERROR, "resources/read", "prompts/get", "initialize", "server/discover"),
        *("notifications/message", "notifications/progress"),
    }
)
"""The methods whose bodies from a server handlers see member by member."""

_MCP_MEMBERS = frozenset(
    {
        *("content", "structuredContent", "isError", "resultType", "contents", "messages", "role"),
        *("type", "text", "data", "blob", "mimeType", "uri", "resource", "annotations"),
        *("name", "title", "description", "icons", "execution", "inputSchema", "outputSchema"),
        *("tools", "nextCursor", "ttlMs", "cacheScope", "protocolVersion", "supportedVersions"),
        *("capabilities", "serverInfo", "instructions", "level", "logger", "code", "message"),
        *("progressToken", "progress", "total"),
    }
)
"""The members that MCP defines in such bodies."""

_HOLDERS = frozenset({"content", "contents", "messages", "resource", "tools"})
"""The members that hold objects with MCP's members; other objects have free names."""

_BY_LOOSE_NAME = {normalize_loose(name): name for name in _MCP_MEMBERS}

Kind = Literal["request", "notification", "answer", "unknown"]


class Refusal(NamedTuple):
    """The reason why a frame is not forwarded, with the error's *code*, for the request *id*.

    *kind* is a best guess, since the frame may be unreadable: a waiting sender needs a response.
    The id is `UNSET` if the frame has none.
    """

    id: Any
    kind: Kind
    code: int
    reason: str

    @property
    def wants_answer(self) -> bool:
        """Whether the sender may be waiting for a response."""
        return self.kind in {"request", "unknown"}


def from_client(line: bytes) -> Frame | Refusal:
    """Return the client's frame in *line* in canonical form, or a refusal.

    The frame's line is the object *line* itself if it is canonical already.
    """
    try:
        members = parse(line, digits=True)
    except UnreadableError as error:
        return _refuse_unreadable(line, error)
    try:
        if not members.keys() <= _FRAME_MEMBERS:
            check_known(members, _FRAME_MEMBERS)
        _check_form(members)
        _check_params(members)
    except AmbiguousJsonError as error:
        return _refuse(members, str(error))
    frame = _frame_of(members)
    if frame.line == line:
        frame.line = line
    return frame


def from_server(line: bytes, method_of: Callable[[Any], str | None]) -> Frame | Refusal:
    """Return the server's frame in *line* in canonical form, or a refusal.

    *method_of* maps the id of a request to its method, which gives a response its meaning.
    """
    try:
        members = parse(line)
    except UnreadableError as error:
        return _refuse_unreadable(line, error)
    try:
        _check_form(members)
        _check_prose(members)
    except AmbiguousJsonError as error:
        return _refuse(members, str(error))
    _prune(members, method_of)
    frame = _frame_of(members)
    # Only in canonical form is a name never escaped.
    if b'"__proto__":' in frame.line:
        logger.warning("dropped the server's member %r", PROTOTYPE)
        return _frame_of(drop_prototypes(members))
    return frame


# --- checking ----------------------------------------------------------------------------------


def _check_form(frame: dict[str, Any]) -> None:
    request_id, answers = frame.get("id"), "result" in frame or "error" in frame
    if not _is_id(request_id):
        raise AmbiguousJsonError("expected a string or a number as the id")
    if type(request_id) is str and HALF.search(request_id):
        raise AmbiguousJsonError("the id has an unpaired surrogate")
    if "method" not in frame:
        if not answers:
            raise AmbiguousJsonError("neither a request nor a response")
        if "id" not in frame:
            raise AmbiguousJsonError("a response without an id")
    elif answers:
        raise AmbiguousJsonError("a request and a response in one frame")
    elif type(frame["method"]) is not str:
        raise AmbiguousJsonError("expected a string as the method")


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
    """Raise `AmbiguousJsonError` for a method or id with prose, which handlers do not see."""
    method, request_id = frame.get("method"), frame.get("id")
    if method is None:
        return
    if not _METHOD.fullmatch(method):
        raise AmbiguousJsonError("expected a short name as the method")
    if type(request_id) is str and not _ID.fullmatch(request_id):
        raise AmbiguousJsonError("expected a short name as the id")


def _prune(frame: dict[str, Any], method_of: Callable[[Any], str | None]) -> None:
    """Remove look-alike members from *frame*, and mark the forms in it.

    A form is a request, or part of a result or of a task's status: MCP 2026-07-28,
    basic/patterns/mrtr, and SEP-2663.
    """
    about, body = frame.get("method"), frame.get("params")
    if about is not None:
        _mark_forms({"": frame})
    elif (body := frame.get("error")) is not None:
        about = ERROR
    else:
        about, body = method_of(frame.get("id")), frame.get("result")
    if type(body) is dict and type(requests := body.get("inputRequests")) is dict:
        _mark_forms(requests)
    for name in _pruned(body) if about in _PRUNED else ():
        logger.warning("dropped a server's member whose name some readers take for %r", name)


def _pruned(value: Any) -> list[str]:
    """Remove members that lenient readers take for a member of MCP from a server's *value*.

    Return the names of MCP's members that were imitated.
    """
    pruned: list[str] = []
    if type(value) is list:
        for item in value:
            pruned += _pruned(item)
    elif type(value) is dict:
        for name in value.keys() - _MCP_MEMBERS:
            if (meant := _BY_LOOSE_NAME.get(normalize_loose(name))) is not None:
                del value[name]
                pruned.append(meant)
        for name in _HOLDERS & value.keys():
            pruned += _pruned(value[name])
    return pruned


def _mark_forms(requests: dict[str, Any]) -> None:
    """Mark each form among *requests* as asked by the server.

    An unmarked form could imitate one of toolbus's questions and train the user to say yes.
    """
    for request in requests.values():
        match request:
            case {"method": str(method), "params": dict(params)} if method == ELICIT:
                params["message"] = f"{_SERVER_ASKS}{params.get('message', '')}"


# --- writing -----------------------------------------------------------------------------------


def _frame_of(members: dict[str, Any]) -> Frame:
    """Return the frame of *members* with its canonical line."""
    if "method" in members:
        names = _REQUEST_MEMBERS
    elif members.get("error") is None:
        # Some servers send `"error": null` for no error.
        members.setdefault("result", None)
        names = _RESULT_MEMBERS
    else:
        names = _ERROR_MEMBERS
    known = {name: members[name] for name in names if name in members}
    try:
        line = write_frame(**known)
    except TypeError:
        # A number without an exact double is forwarded as written; handlers see the nearest double.
        line = write_line({"jsonrpc": "2.0", **known}, _exact)
        known = read_json(line)
        del known["jsonrpc"]
    return Frame(line, **known)


def _encode_number(value: ExactNumber) -> msgspec.Raw:
    return msgspec.Raw(value.digits.encode())


_exact = msgspec.json.Encoder(enc_hook=_encode_number)


def _refuse(frame: dict[str, Any], reason: str) -> Refusal:
    request_id = frame.get("id", UNSET)
    if type(request_id) is ExactNumber or (request_id is not UNSET and not _is_id(request_id)):
        request_id = None
    return Refusal(request_id, _kind(frame.keys()), INVALID_REQUEST, reason)


def _refuse_unreadable(line: bytes, error: UnreadableError) -> Refusal:
    request_id, names = scan_top_level(line)
    code = PARSE_ERROR if read_frame(line) is None else INVALID_REQUEST
    return Refusal(request_id, _kind(names), code, error.reason)


def _kind(names: Collection[str]) -> Kind:
    # A sender that gives an id waits for a response, even if the id is unreadable.
    if "method" in names:
        return "request" if "id" in names else "notification"
    return "answer" if "result" in names or "error" in names else "unknown"


def _is_id(value: Any) -> bool:
    # By type: `true` is not an id, but equals 1 in Python, which may be another request's id.
    return value is None or type(value) in {str, int, float, ExactNumber}
