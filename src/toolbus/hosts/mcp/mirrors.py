"""Arguments that HTTP headers repeat: `Mcp-Param-…`, for the properties with an `x-mcp-header`.

See SEP-2243, in the revision of 2026-07-28 under "Custom Headers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.hosts.mcp.frames import read_frame, read_json
from toolbus.hosts.mcp.revisions import is_token, params_of, write_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.hosts.mcp.frames import Frame

_MARK, _PREFIX = "x-mcp-header", "mcp-param-"


class Mirrors:
    """Which arguments of which tools are repeated; learned from the lists that pass."""

    def __init__(self) -> None:
        self._tools: dict[str, dict[tuple[str, ...], str]] = {}

    def learn(self, line: bytes) -> None:
        """Take the answer to a `tools/list`."""
        answer = read_frame(line)
        try:
            result = {} if answer is None or answer.result is UNSET else read_json(answer.result)
        except ValueError:
            return
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            match tool:
                case {"name": str(name), "inputSchema": dict(schema)}:
                    self._tools[name] = dict(_marked(schema, ()))

    def headers(self, frame: Frame | None) -> dict[str, str]:
        """Return the headers that repeat arguments of the call *frame*."""
        if frame is None or frame.method != "tools/call" or not any(self._tools.values()):
            return {}
        params = params_of(frame)
        name = params.get("name")
        marked = self._tools.get(name, {}) if isinstance(name, str) else {}
        values = {token: _value(params.get("arguments"), path) for path, token in marked.items()}
        return {
            f"{_PREFIX}{token}": write_header(_text(value))
            for token, value in values.items()
            if isinstance(value, str | int | float)
        }


def _marked(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[Any, str]]:
    """Give the way to each property that has a mark, and what it is called in a header."""
    inner = schema.get("properties")
    for name, one in inner.items() if isinstance(inner, dict) else ():
        if isinstance(one, dict):
            token = one.get(_MARK)
            if isinstance(token, str) and is_token(token):
                yield (*path, name), token.lower()
            yield from _marked(one, (*path, name))


def _value(arguments: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
