"""Hypothesis strategies for tests of handlers: records, values of events, calls, hostile texts.

A function with the parameter *texts* uses that strategy for all free texts:
`messages(hostile_texts())` draws messages with hostile texts.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import inspect

from toolbus.errors import RegistrationError
from toolbus.events.catalogue import CATALOGUE, McpRequest, Scope, ToolSpec
from toolbus.messages.records import Message, Part, ToolCall, ToolResponse
from toolbus.testing.schema_strategies import json_values as json_values  # noqa: PLC0414 - for importers
from toolbus.testing.schema_strategies import values_for as values_for  # noqa: PLC0414 - for importers
from toolbus.testing.text_strategies import HOSTILE_TEXTS as HOSTILE_TEXTS  # noqa: PLC0414 - for importers
from toolbus.testing.text_strategies import hostile_texts as hostile_texts  # noqa: PLC0414 - for importers
from toolbus.testing.text_strategies import st
from toolbus.testing.text_strategies import texts as texts  # noqa: PLC0414 - for importers
from toolbus.tools.definitions import Tool, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from toolbus.events.catalogue import Event

_TEXT, _COUNT = {"type": "string"}, {"type": "integer"}
# Typical schemas of tools: they restrict values by type only.
SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "object"},
    {"type": "object", "properties": {"text": _TEXT}},
    {"type": "object", "properties": {}, "additionalProperties": False},
    {"type": "object", "properties": {"path": _TEXT}, "required": ["path"]},
    {
        "type": "object",
        "properties": {"path": _TEXT, "lines": _COUNT, "all": {"type": "boolean"}},
        "required": ["path", "lines"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"names": {"type": "array", "items": _TEXT}, "rate": {"type": "number"}},
        "required": ["names"],
    },
    {
        "type": "object",
        "properties": {"found": {"$ref": "#/$defs/found"}},
        "$defs": {"found": {"type": ["object", "null"], "properties": {"text": _TEXT}}},
    },
)
"""Schemas of arguments of tools, the simplest first."""


def json_objects(*, max_size: int = 4) -> SearchStrategy[dict[str, Any]]:
    """Draw JSON objects of up to *max_size* items."""
    return st.dictionaries(st.text(), json_values(), max_size=max_size)


def parts(texts: SearchStrategy[str] | None = None) -> SearchStrategy[Part]:
    """Draw content parts of every type."""
    return _values(Part, texts)


def contents(texts: SearchStrategy[str] | None = None) -> SearchStrategy[tuple[Part, ...]]:
    """Draw the content of a response or of a user's message."""
    return _values(tuple[Part, ...], texts)


def tool_responses(texts: SearchStrategy[str] | None = None) -> SearchStrategy[ToolResponse]:
    """Draw tool responses, with and without the stamps of the lifecycle."""
    return _values(ToolResponse, texts)


def messages(texts: SearchStrategy[str] | None = None) -> SearchStrategy[Message]:
    """Draw messages of every role."""
    return _values(Message, texts)


def tool_specs(
    names: SearchStrategy[str] | None = None, schemas: SearchStrategy[Any] | None = None
) -> SearchStrategy[ToolSpec]:
    """Draw tool specs, with valid *schemas* of objects."""
    of_objects = st.sampled_from(SCHEMAS) if schemas is None else schemas
    return st.builds(
        ToolSpec,
        name=_NAMES if names is None else names,
        description=st.text(max_size=20),
        input_schema=of_objects,
        output_schema=st.none() | of_objects,
        annotations=st.just({}) | st.just({"readOnlyHint": True}),
    )


def tool_calls(
    of: Tool | ToolSpec | Mapping[str, Any] | Callable[..., Any] | None = None,
    *,
    texts: SearchStrategy[str] | None = None,
) -> SearchStrategy[ToolCall]:
    """Draw tool calls that match the schema of *of*; without it, with any name and arguments.

    *of* is a tool, a plain function, a `ToolSpec`, or the JSON schema of the arguments. *texts*
    are used for strings without other keywords.
    """
    if of is None:
        return _values(ToolCall, texts)
    if isinstance(of, Mapping):
        return st.builds(ToolCall, id=_IDS, name=_NAMES, arguments=values_for(of, texts))
    spec = spec_of(of)
    arguments = values_for(spec.input_schema, texts)
    return st.builds(ToolCall, id=_IDS, name=st.just(spec.name), arguments=arguments)


def spec_of(subject: Tool | ToolSpec | Callable[..., Any]) -> ToolSpec:
    """Return the spec of *subject*: a tool, a plain function, or a spec itself."""
    if isinstance(subject, ToolSpec):
        return subject
    if isinstance(subject, Tool):
        return subject.spec
    if not callable(subject):
        raise RegistrationError(f"tool {subject!r}", "expected a tool, its spec, or a function")
    return tool(subject).spec


def scopes() -> SearchStrategy[Scope]:
    """Draw scopes: of agents, of sub-agents, and empty ones."""
    return _values(Scope)


def mcp_requests(texts: SearchStrategy[str] | None = None) -> SearchStrategy[McpRequest]:
    """Draw requests of a client to an MCP server."""
    word = st.text() if texts is None else texts
    named = st.fixed_dictionaries({"name": word, "value": word, "type": st.just("ref/prompt")})
    members: dict[str, dict[str, SearchStrategy[Any]]] = {
        "resources/read": {"uri": word},
        "resources/subscribe": {"uri": word},
        "prompts/get": {"name": word, "arguments": json_objects()},
        "completion/complete": {"ref": named, "argument": named},
    }
    requests = [
        st.builds(McpRequest, method=st.just(method), params=st.fixed_dictionaries(params))
        for method, params in members.items()
    ]
    return st.one_of(requests)


def values_of(event: Event, texts: SearchStrategy[str] | None = None) -> SearchStrategy[Any]:
    """Draw values of *event*; for your own events hypothesis draws by the type.

    *texts* are used for free texts; by default any text.
    """
    if event in CATALOGUE:
        return _values(event.value, texts)
    kind: Any = event.value
    return st.from_type(kind)


_IDS = st.text(min_size=1, max_size=12)
_NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
_BYTES = st.binary(max_size=12).map(lambda data: b64encode(data).decode())
_ERRORS = st.sampled_from(("ValueError", "FileNotFoundError", "DeadlineError", "KeyError"))
_STRINGS: dict[str, SearchStrategy[str]] = {
    **dict.fromkeys(("id", "lineage", "pending", "session_key"), _IDS),
    **dict.fromkeys(("name", "tool_name", "format", "signature", "stop_reason"), _NAMES),
    **dict.fromkeys(("data", "blob"), _BYTES),
    "error_type": _ERRORS,
    "mime_type": st.sampled_from(("image/png", "audio/wav", "text/plain", "application/pdf")),
    "model": st.sampled_from(("model", "")),
    "output_json": st.sampled_from(("1", '{"a": ["b"]}')),
    "uri": st.from_regex(r"file:///[a-z]{1,8}", fullmatch=True),
}
"""The texts of fields with a format; all other fields are free texts."""
_LEFT_OUT = ("folder", "project", "root_session_id", "parent_session_id", "parent_call_id")
"""The fields of a scope that keep their defaults."""
_OBJECTS: dict[str, SearchStrategy[Any]] = {
    "usage": st.dictionaries(_NAMES, st.integers(0, 10**9), max_size=3),
    "context": json_objects(max_size=2),
    "output_schema": st.just({"type": "object", "properties": {}}),
}
"""The objects of fields with a format."""


def _values(kind: Any, texts: SearchStrategy[str] | None = None) -> SearchStrategy[Any]:
    """Draw values of *kind*, one of our records or a type made of them."""
    return _Values(st.text() if texts is None else texts).of(inspect.type_info(kind))


class _Values:
    """The strategies of values by type, and by the name of their field."""

    def __init__(self, texts: SearchStrategy[str]) -> None:
        self._texts = texts

    def of(self, kind: inspect.Type, name: str = "", default: object = None) -> SearchStrategy[Any]:
        """Draw values of *kind*, for the field *name* with its *default*."""
        match kind:
            case inspect.StructType():
                return self._records(kind)
            case inspect.UnionType(types=kinds):
                # None first: hypothesis shrinks to the first.
                ordered = sorted(kinds, key=lambda each: not isinstance(each, inspect.NoneType))
                return st.one_of([self.of(each, name, default) for each in ordered])
            case inspect.VarTupleType(item_type=item):
                return st.lists(self.of(item, name), max_size=3).map(tuple)
            case inspect.StrType():
                drawn = _STRINGS.get("id" if name.endswith("_id") else name, self._texts)
                return st.just("") | drawn if default == "" else drawn
        return self._plain(kind, name, default)

    def _plain(self, kind: inspect.Type, name: str, default: object) -> SearchStrategy[Any]:
        match kind:
            case inspect.IntType():
                highest = 10**12 if name == "duration_ns" else 50
                return st.integers(default if isinstance(default, int) else 0, highest)
            case inspect.DictType():
                return _OBJECTS.get(name, json_objects())
            case inspect.LiteralType(values=values):
                return st.sampled_from(values)
            case inspect.BoolType():
                return st.booleans()
            case inspect.NoneType():
                return st.none()
        return json_values(texts=self._texts)

    def _records(self, kind: inspect.StructType) -> SearchStrategy[Any]:
        if kind.cls is ToolSpec:
            return tool_specs()
        if kind.cls is McpRequest:
            return mcp_requests(self._texts)
        fields = [each for each in kind.fields if each.name not in _LEFT_OUT]
        drawn = {each.name: self.of(each.type, each.name, each.default) for each in fields}
        return st.builds(kind.cls, **drawn)
