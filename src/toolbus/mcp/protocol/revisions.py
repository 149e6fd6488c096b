"""What HTTP headers say of a request, and how they differ between the revisions of MCP.

Sessions and their headers: revision 2025-11-25, basic/transports, "Streamable HTTP". Headers that
repeat what a body says, `Mcp-Method`, `Mcp-Name` and `Mcp-Param-…`: revision 2026-07-28, the same
page, "Custom Headers" (SEP-2243).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import read_frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from toolbus.mcp.protocol.jsonrpc import Frame

SESSION, REVISION = "mcp-session-id", "mcp-protocol-version"
METHOD, NAME, PARAM = "mcp-method", "mcp-name", "mcp-param-"
CALL, LIST, LISTEN = "tools/call", "tools/list", "subscriptions/listen"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
ERROR = "error"
"""Stands for the method of what a server says in the place of a result."""
VERSION = "io.modelcontextprotocol/protocolVersion"
"""Where each request of the stateless revision, 2026-07-28, names its revision: in its `_meta`."""
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
"""Where each request of that revision says what its client can do: in its `_meta` as well."""
CLIENT = "io.modelcontextprotocol/clientInfo"
"""Where each request of that revision says who its client is."""
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
"""Where a notification of that revision names the `subscriptions/listen` that it is about."""
HEADER_MISMATCH = -32020
"""The code of the error that says that headers and body of a request differ."""
HANDSHAKE = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
"""The revisions that begin with `initialize`; those that came later are stateless."""

_NAMED = {CALL: "name", "prompts/get": "name", "resources/read": "uri"} | dict.fromkeys(
    ("tasks/get", "tasks/update", "tasks/cancel"), "taskId"
)
"""By method: the param that a header repeats; those of tasks are of their extension (SEP-2663)."""
_WITHOUT_TIMEOUT = frozenset({CALL, LISTEN})
_DEEPEST = 50
_TOOL_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SAFE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def is_tool_name(value: Any) -> bool:
    """Return whether *value* can be a tool's name: MCP, server features, tools, tool names."""
    return isinstance(value, str) and _TOOL_NAME.fullmatch(value) is not None


def is_stateless(headers: Mapping[str, str]) -> bool:
    """Tell whether a request with *headers* stands for itself: closing its answer cancels it."""
    return headers.get(REVISION, "2025-03-26") not in HANDSHAKE


def has_no_timeout(frame: Frame | None) -> bool:
    """Tell whether the answer to *frame* may take its time: nobody knows how long a tool works."""
    return frame is None or frame.method in _WITHOUT_TIMEOUT


def params_of(frame: Frame | None) -> dict[str, Any]:
    """Return the params of *frame*, empty if there are none that can be read."""
    params = None if frame is None else frame.params
    return params if isinstance(params, dict) else {}


def cancelled_id(frame: Frame | None) -> Any:
    """Return the id of the request that *frame* cancels, UNSET if it cancels none."""
    if frame is None or frame.method != CANCELLED:
        return UNSET
    request_id = params_of(frame).get("requestId")
    return request_id if isinstance(request_id, str | int) else UNSET


def version_of(params: Mapping[str, Any]) -> str | None:
    """Return the revision that the *params* of a stateless request name; None: they name none."""
    meta = params.get("_meta")
    version = meta.get(VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def _said_in_body(frame: Frame | None) -> dict[str, Any]:
    """Return what the body of a request says, by the names of the headers that repeat it."""
    params = params_of(frame)
    method = None if frame is None or frame.method is UNSET else frame.method
    name, version = params.get(_NAMED.get(method or "", "")), version_of(params)
    body = {METHOD: method, NAME: name}
    return body if version is None else {REVISION: version, **body}


def routing(frame: Frame | None) -> dict[str, str]:
    """Return the headers that repeat what a request says, as the revision of 2026-07-28 asks."""
    body = _said_in_body(frame)
    if REVISION not in body or body[METHOD] is None:
        return {}
    return {name: write_header(text) for name, text in body.items() if isinstance(text, str)}


def find_header_params(
    schema: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Give the way to each property of *schema* that a header repeats, and that header's name.

    What cannot be a part of a header's name is none: a server writes schemas, and no headers.
    """
    inner = schema.get("properties")
    for name, inner_schema in inner.items() if isinstance(inner, dict) else ():
        if isinstance(inner_schema, dict):
            token = inner_schema.get("x-mcp-header")
            if isinstance(token, str) and is_token(token):
                yield (*path, name), PARAM + token.lower()
            if len(path) < _DEEPEST:
                yield from find_header_params(inner_schema, (*path, name))


def header_params(ways: Iterable[tuple[tuple[str, ...], str]], arguments: Any) -> dict[str, str]:
    """Return the headers that repeat *arguments*; *ways* are those of `find_header_params`."""
    values = {header: _value(arguments, path) for path, header in ways}
    return {
        header: write_header(_text(value))
        for header, value in values.items()
        if isinstance(value, str | int | float)
    }


def _value(arguments: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def contradiction(frame: Frame | None, headers: Mapping[str, str]) -> str | None:
    """Return which of *headers* says of the request *frame* what its body does not say.

    What a header does not say is no contradiction. Which argument one repeats only the tool's
    schema tells, so it may be any.
    """
    body = _said_in_body(frame)
    wrong = [name for name in body if name in headers and read_header(headers[name]) != body[name]]
    repeated = {name: value for name, value in headers.items() if name.startswith(PARAM)}
    texts = {*_scalars(params_of(frame).get("arguments"))} if repeated else set()
    wrong += [name for name, value in repeated.items() if _read(value) not in texts]
    return f"the header {wrong[0]} does not say what the body says" if wrong else None


def _read(value: str) -> str | None:
    text = read_header(value)
    try:
        return text if text is None else repr(float(text))
    except ValueError:
        return text


def _scalars(value: Any) -> Iterator[str]:
    """Give each text and number in *value*, as `_read` reads it."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _scalars(inner)
    elif isinstance(value, str | int | float):
        yield _read(_text(value)) or ""


def mismatch(frame: Frame, headers: Mapping[str, str]) -> str | None:
    """Return which of *headers* does not repeat what the stateless request *frame* says."""
    expected = routing(frame)
    if REVISION not in expected:
        return "the body names no revision of MCP, the header does"
    for name, value in expected.items():
        sent = headers.get(name)
        if sent is None:
            return f"the header {name} is missing"
        if read_header(sent) != read_header(value):
            return f"the header {name} does not say what the body says"
    return None


def is_header(text: str) -> bool:
    """Tell whether *text* can stand in a header as it is."""
    return _SAFE.fullmatch(text) is not None


def is_token(text: str) -> bool:
    """Tell whether *text* can be a part of a header's name: RFC 9110, 5.6.2."""
    return _TOKEN.fullmatch(text) is not None


def write_header(text: str) -> str:
    """Return *text* as a header carries it: what is no plain ASCII as base64."""
    if is_header(text) and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def read_header(value: str) -> str | None:
    """Return the text that `write_header` wrote; None: it is none."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


class HeaderParams:
    """Which arguments of which tools are repeated; learned from the lists that pass."""

    def __init__(self) -> None:
        self._tools: dict[str, list[tuple[tuple[str, ...], str]]] = {}

    def learn(self, line: bytes) -> None:
        """Take the answer to a `tools/list`."""
        answer = read_frame(line)
        result = None if answer is None else answer.result
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            match tool:
                case {"name": str(name), "inputSchema": dict(schema)}:
                    self._tools[name] = list(find_header_params(schema))

    def headers(self, frame: Frame | None) -> dict[str, str]:
        """Return the headers that repeat arguments of the call *frame*."""
        if frame is None or frame.method != CALL or not any(self._tools.values()):
            return {}
        params = params_of(frame)
        name = params.get("name")
        ways = self._tools.get(name, []) if isinstance(name, str) else []
        return header_params(ways, params.get("arguments"))
