"""Where words stand in what programs read: a handshake, a list of tools, and its schemas.

What is not a word keeps a client at work: revisions, capabilities, names, cursors, the structure
of a schema. Handlers that reword what they do not know would take the server off its client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LIST = "tools/list"
HANDSHAKES = ("initialize", "server/discover")

_OF_RESULTS = frozenset({"resultType", "ttlMs", "cacheScope"})
_OF_HANDSHAKES = frozenset({"protocolVersion", "supportedVersions", "capabilities", "instructions"})
_OPEN = ("experimental", "extensions")
"""Capabilities in which anything may stand."""

_NEEDED = ("name", "version")
"""Of a server, without which its handshake is none."""

_SCHEMAS = ("inputSchema", "outputSchema")
# The vocabularies of JSON Schema 2020-12, and the older names that are still in use.
_STRUCTURE = frozenset(
    {
        *("$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary"),
        *("type", "required", "dependentRequired"),
    }
)
_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_INNER = frozenset(
    {
        *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
        *("additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    }
)


class Slot(NamedTuple):
    """A place in a body where words stand."""

    holder: Any
    key: Any

    @property
    def value(self) -> Any:
        """What stands there."""
        return self.holder[self.key]

    def put(self, value: Any) -> None:
        """Let *value* stand there."""
        self.holder[self.key] = value

    def clear(self) -> None:
        """Let nothing stand there."""
        if isinstance(self.holder, dict) and self.key not in _NEEDED:
            del self.holder[self.key]
        else:
            self.put("")


def find_words(method: str, body: dict[str, Any]) -> list[Slot]:
    """Return the places of *body*, the result of *method*, that hold words, in their order."""
    found = _in_list(body) if method == LIST else _in_handshake(body)
    # What holds no text says nothing to a person or a model.
    return [slot for slot in found if isinstance(slot.value, str | list | dict)]


def _in_handshake(body: dict[str, Any]) -> Iterator[Slot]:
    yield from _members(body, _OF_HANDSHAKES | _OF_RESULTS | {"serverInfo"})
    yield from _inside(body, "serverInfo")
    capabilities = body.get("capabilities")
    if isinstance(capabilities, dict):
        yield from [Slot(capabilities, name) for name in _OPEN if name in capabilities]


def _in_list(body: dict[str, Any]) -> Iterator[Slot]:
    tools = body.get("tools")
    if not isinstance(tools, list):
        yield from _members(body, _OF_RESULTS)
        return
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield Slot(tools, index)
            continue
        yield from _members(tool, {"name", *_SCHEMAS})
        if not isinstance(tool.get("name", ""), str):
            yield Slot(tool, "name")
        for name in _SCHEMAS:
            if name in tool:
                yield from _in_schema(tool, name)
    yield from _members(body, {"tools", "nextCursor", *_OF_RESULTS})


def _in_schema(holder: Any, key: Any) -> Iterator[Slot]:
    schema = holder[key]
    if not isinstance(schema, dict):
        yield Slot(holder, key)
        return
    for name, value in schema.items():
        if name in _INNER and isinstance(value, list):
            for index in range(len(value)):
                yield from _in_schema(value, index)
        elif name in _INNER:
            yield from _in_schema(schema, name)
        elif name in _NAMED and isinstance(value, dict):
            for inner in value:
                yield from _in_schema(value, inner)
        elif name not in _STRUCTURE:
            yield Slot(schema, name)


def _inside(body: dict[str, Any], name: str) -> Iterator[Slot]:
    """Give what stands in the member *name*, one by one if it is an object."""
    if isinstance(inner := body.get(name), dict):
        yield from _members(inner, ())
    elif name in body:
        yield Slot(body, name)


def _members(body: dict[str, Any], but: Iterable[str]) -> Iterator[Slot]:
    return (Slot(body, name) for name in body if name not in but)
