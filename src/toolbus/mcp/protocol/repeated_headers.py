"""Headers that repeat members of the body: `Mcp-Method`, `Mcp-Name` and `Mcp-Param-…`.

See MCP 2026-07-28, basic/transports, "Custom Headers" (SEP-2243).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import read_frame
from toolbus.mcp.protocol.revisions import CALL, REVISION, params_of, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.mcp.protocol.jsonrpc import Frame

METHOD, NAME, PARAM = "mcp-method", "mcp-name", "mcp-param-"
HEADER_MISMATCH = -32020
"""The error code for a request whose headers and body differ."""

_NAMED = {CALL: "name", "prompts/get": "name", "resources/read": "uri"} | dict.fromkeys(
    ("tasks/get", "tasks/update", "tasks/cancel"), "taskId"
)
"""By method: the param that a header repeats; tasks are an extension (SEP-2663)."""
_DEEPEST = 50
_SCALARS = (str, int, float)
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""A part of a header's name: RFC 9110, 5.6.2."""
_SAFE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def _expected_headers(frame: Frame | None) -> dict[str, Any]:
    """Return the values in the body of a request by the names of the headers that repeat them."""
    params = params_of(frame)
    method = None if frame is None or frame.method is UNSET else frame.method
    name, version = params.get(_NAMED.get(method or "", "")), version_of(params)
    body = {METHOD: method, NAME: name}
    return body if version is None else {REVISION: version, **body}


def routing(frame: Frame | None) -> dict[str, str]:
    """Return the headers that repeat the body of a request, as revision 2026-07-28 requires."""
    body = _expected_headers(frame)
    if REVISION not in body or body[METHOD] is None:
        return {}
    return {name: write_header(text) for name, text in body.items() if isinstance(text, str)}


def argument_headers(schema: Mapping[str, Any], arguments: Any, depth: int = 0) -> dict[str, str]:
    """Return the headers that repeat *arguments* according to the server's *schema*.

    An `x-mcp-header` that cannot be part of a header's name is ignored.
    """
    headers: dict[str, str] = {}
    properties = schema.get("properties")
    if not (isinstance(properties, dict) and isinstance(arguments, dict)) or depth > _DEEPEST:
        return headers
    for name, inner in properties.items():
        value = arguments.get(name)
        if not isinstance(inner, dict):
            continue
        token = inner.get("x-mcp-header")
        if isinstance(token, str) and _TOKEN.fullmatch(token) and isinstance(value, _SCALARS):
            headers[PARAM + token.lower()] = write_header(_text(value))
        headers |= argument_headers(inner, value, depth + 1)
    return headers


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def contradiction(frame: Frame | None, headers: Mapping[str, str]) -> str | None:
    """Return an error if one of *headers* differs from the body of the request *frame*.

    A missing header is not a contradiction. The tool's schema, which names the argument that a
    header repeats, is not known here, so the value of any argument will do.
    """
    body = _expected_headers(frame)
    wrong = [name for name in body if name in headers and read_header(headers[name]) != body[name]]
    repeated = {name: value for name, value in headers.items() if name.startswith(PARAM)}
    texts = {*_scalars(params_of(frame).get("arguments"))} if repeated else set()
    wrong += [name for name, value in repeated.items() if _read(value) not in texts]
    return f"the header {wrong[0]} differs from the body" if wrong else None


def _read(value: str) -> str | None:
    text = read_header(value)
    try:
        return text if text is None else repr(float(text))
    except ValueError:
        return text


def _scalars(value: Any) -> Iterator[str]:
    """Yield each string and number in *value*, in the form of `_read`."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _scalars(inner)
    elif isinstance(value, _SCALARS):
        yield _read(_text(value)) or ""


def mismatch(frame: Frame, headers: Mapping[str, str]) -> str | None:
    """Return an error if *headers* do not repeat the body of the stateless request *frame*."""
    expected = routing(frame)
    if REVISION not in expected:
        return f"the header {REVISION} names a revision of MCP, the body does not"
    for name, value in expected.items():
        sent = headers.get(name)
        if sent is None:
            return f"the header {name} is missing"
        if read_header(sent) != read_header(value):
            return f"the header {name} differs from the body"
    return None


def is_header(text: str) -> bool:
    """Return whether *text* is a valid header value without encoding."""
    return _SAFE.fullmatch(text) is not None


def write_header(text: str) -> str:
    """Return *text* as a header value, in base64 unless it is plain ASCII."""
    if is_header(text) and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def read_header(value: str) -> str | None:
    """Return the text of a value made by `write_header`, None if its base64 is invalid."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


class HeaderParams:
    """The schemas of tools whose arguments headers repeat, learned from `tools/list` results."""

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any]] = {}

    def learn(self, line: bytes) -> None:
        """Learn the schemas in the result of a `tools/list`."""
        answer = read_frame(line)
        result = None if answer is None else answer.result
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            match tool:
                case {"name": str(name), "inputSchema": dict(schema)}:
                    self._schemas[name] = schema

    def headers(self, frame: Frame | None) -> dict[str, str]:
        """Return the headers that repeat arguments of the call *frame*."""
        params = params_of(frame)
        name = params.get("name")
        if frame is None or frame.method != CALL or not isinstance(name, str):
            return {}
        return argument_headers(self._schemas.get(name, {}), params.get("arguments"))
