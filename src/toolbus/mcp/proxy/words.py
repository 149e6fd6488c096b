"""Where words stand in what programs read: a handshake, a list of tools, and its schemas.

What is not a word keeps a client at work: revisions, capabilities, names, cursors, the structure
of a schema. Handlers that reword what they do not know would take the server off its client. But
that holds only for what looks as the protocol wants it there: all else is words as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from toolbus.mcp.proxy.names import (
    CAPABILITIES,
    DIALECTS,
    WORDS,
    is_capability,
    is_name,
    is_revision,
    is_tool_name,
    is_type,
    leads,
    properties_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

LIST = "tools/list"
HANDSHAKES = ("initialize", "server/discover")

_OF_HANDSHAKES = frozenset(
    {"protocolVersion", "supportedVersions", "capabilities", "instructions", "serverInfo"}
)
_NEEDED = ("name", "version")
"""Of a server, without which its handshake is none."""

_SCHEMAS = ("inputSchema", "outputSchema")
# The vocabularies of JSON Schema 2020-12, and the older names that are still in use.
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


class Name(NamedTuple):
    """A name of a member of *holder* that is no name but words."""

    holder: Any
    value: str

    def put(self, value: Any) -> None:
        """Let the member be called *value*."""
        if value == self.value or self.value not in self.holder:
            return
        members = [
            (value if name == self.value else name, self.holder[name]) for name in self.holder
        ]
        self.holder.clear()
        self.holder.update([one for one in members if isinstance(one[0], str)])

    def clear(self) -> None:
        """Let the member be gone."""
        self.holder.pop(self.value, None)


Place: TypeAlias = Slot | Name


def find_words(method: str, body: dict[str, Any]) -> list[Place]:
    """Return the places of *body*, the result of *method*, that hold words, in their order."""
    found = [*(_in_list(body) if method == LIST else _in_handshake(body))]
    # What holds no text says nothing to a person or a model.
    told = [one for one in found if isinstance(one.value, str | list | dict)]
    # Names last: what stands under one must be found by it as long as it is put back.
    return sorted(told, key=lambda one: isinstance(one, Name))


def _in_handshake(body: dict[str, Any]) -> Iterator[Place]:
    yield from _members(body, _OF_HANDSHAKES)
    yield from _inside(body, "serverInfo")
    if not is_revision(body.get("protocolVersion", "0000-00-00")):
        yield Slot(body, "protocolVersion")
    yield from _each(body, "supportedVersions", is_revision)
    capabilities = body.get("capabilities")
    if isinstance(capabilities, dict):
        known = {name for name, one in CAPABILITIES.items() if _fits(capabilities, name, one)}
        yield from _members(capabilities, known)
    elif "capabilities" in body:
        yield Slot(body, "capabilities")


def _fits(capabilities: dict[str, Any], name: str, known: Any) -> bool:
    return name in capabilities and is_capability(capabilities[name], known)


def _in_list(body: dict[str, Any]) -> Iterator[Place]:
    tools = body.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, dict):
            yield Slot(tools, index)
            continue
        yield from _members(tool, {"name", *_SCHEMAS})
        if not is_tool_name(tool.get("name", "-")):
            yield Slot(tool, "name")
        for name in _SCHEMAS:
            if name in tool:
                known = _Known(tool[name], frozenset(properties_of(tool[name])))
                yield from _in_schema(tool, name, known)
    kept = {"tools"} if isinstance(tools, list) else set()
    if isinstance(body.get("nextCursor"), str):
        kept.add("nextCursor")
    yield from _members(body, kept)


class _Known(NamedTuple):
    """The schema of which another is a part, and the names of its properties."""

    root: Any
    names: frozenset[str]


def _in_schema(holder: Any, key: Any, known: _Known) -> Iterator[Place]:
    schema = holder[key]
    if not isinstance(schema, dict):
        yield Slot(holder, key)
        return
    yield from _odd_names(schema)
    for name in schema:
        yield from _in_member(schema, name, known)


def _in_member(schema: dict[str, Any], name: str, known: _Known) -> Iterator[Place]:
    value = schema[name]
    if name in _INNER:
        listed = isinstance(value, list)
        for inner in range(len(value)) if listed else [name]:
            yield from _in_schema(value if listed else schema, inner, known)
    elif name in _NAMED and isinstance(value, dict):
        yield from _odd_names(value)
        for inner in value:
            yield from _in_schema(value, inner, known)
    elif name == "required":
        yield from _each(schema, name, known.names.__contains__)
    elif name == "dependentRequired" and isinstance(value, dict):
        yield from _odd_names(value)
        for inner in value:
            yield from _each(value, inner, known.names.__contains__)
    elif not _is_structure(name, value, known.root):
        yield Slot(schema, name)


def _is_structure(name: str, value: Any, root: Any) -> bool:
    match name:
        case "type":
            return is_type(value)
        case "$schema":
            return isinstance(value, str) and value in DIALECTS
        case "$ref" | "$dynamicRef":
            return leads(value, root)
    return False


def _each(body: dict[str, Any], name: str, known: Callable[[str], bool]) -> Iterator[Slot]:
    """Give what stands in the list *name* and is not *known*."""
    inner = body.get(name)
    if isinstance(inner, list):
        for index, one in enumerate(inner):
            if not (isinstance(one, str) and known(one)):
                yield Slot(inner, index)
    elif name in body:
        yield Slot(body, name)


def _inside(body: dict[str, Any], name: str) -> Iterator[Place]:
    """Give what stands in the member *name*, one by one if it is an object."""
    if isinstance(inner := body.get(name), dict):
        yield from _members(inner, ())
    elif name in body:
        yield Slot(body, name)


def _members(body: dict[str, Any], but: Container[str]) -> Iterator[Place]:
    """Give the members of *body*, and those of their names that are none."""
    yield from _odd_names(body)
    for name, value in body.items():
        fixed = name in WORDS and isinstance(value, str) and value in WORDS[name]
        if name not in but and not fixed:
            yield Slot(body, name)


def _odd_names(body: dict[str, Any]) -> Iterator[Name]:
    return (Name(body, name) for name in body if not is_name(name))
