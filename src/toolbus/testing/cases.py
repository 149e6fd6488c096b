"""What a check draws: tools that a handler is for and others, calls, responses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.events.catalogue import ToolSpec
from toolbus.events.subjects import ToolSelector
from toolbus.messages.records import ToolCall, ToolResponse, encode
from toolbus.testing.drawing import strategies as st
from toolbus.testing.fitting import values_for
from toolbus.testing.records import contents, json_values, spec_of, tool_specs
from toolbus.testing.texts import texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypothesis.strategies import SearchStrategy

    from toolbus.messages.records import JsonObject
    from toolbus.tools.definitions import Tool

_CALL_IDS = st.sampled_from(("call-1", "1", "toolu_01A"))
_TEXT, _COUNT = {"type": "string"}, {"type": "integer"}
# As those of tools are: they say types and no more of a value.
_SCHEMAS: tuple[dict[str, Any], ...] = (
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


class Cases:
    """Strategies for one check.

    *patterns* are the glob patterns of the tools that a handler is for, *tools* those to try it
    with; *calls* and *responses* replace what is drawn, if given.
    """

    def __init__(
        self,
        patterns: Iterable[str] | str = "*",
        tools: Iterable[Tool | ToolSpec | Callable[..., Any]] = (),
        calls: SearchStrategy[ToolCall] | None = None,
        responses: SearchStrategy[ToolResponse] | None = None,
    ) -> None:
        self._selector = ToolSelector(patterns)
        self._tools = tuple([spec_of(tool) for tool in tools])
        self._calls, self._responses = calls, responses
        self.sometimes = st.sampled_from((False, False, False, True))
        # Made once: to make a strategy takes longer than to draw from it.
        self._texts = texts()
        self._json = json_values(max_leaves=6, texts=self._texts)
        self._bare = st.builds(
            ToolResponse,
            content=contents(self._texts),
            is_error=st.booleans(),
            error_type=st.none() | st.just("ValueError"),
            duration_ns=st.none() | st.integers(0, 10**9),
            metadata=st.just({}) | st.just({"a": 1}),
        )
        self._specs = self._drawn_specs()
        self._fitting: dict[bytes, SearchStrategy[Any]] = {}

    def is_named(self, name: str) -> bool:
        """Tell whether the tool *name* is one that the handler says it is for."""
        return self._selector.matches(name)

    def specs(self) -> SearchStrategy[ToolSpec]:
        """Draw tools, most of them such as the handler is for."""
        return self._specs

    def some_spec(self) -> ToolSpec:
        """Return one tool that the handler is for."""
        for spec in self._tools:
            if self.is_named(spec.name):
                return spec
        pattern = self._selector.patterns[0] if self._selector.patterns else "*"
        return ToolSpec(name=re.sub(r"[*?]|\[.*?\]", "a", pattern))

    def calls(self, spec: ToolSpec) -> SearchStrategy[ToolCall]:
        """Draw calls that fit *spec*, or those that were given, with its name."""
        if self._calls is not None:
            return self._calls.map(lambda call: replace(call, name=spec.name))
        drawn = st.tuples(_CALL_IDS, self._fits(spec.input_schema))
        return drawn.map(lambda pair: ToolCall(id=pair[0], name=spec.name, arguments=pair[1]))

    def nonsense(self, spec: ToolSpec) -> SearchStrategy[ToolCall]:
        """Draw calls of *spec* as models make them up: they may fit and mostly do not."""
        known = tuple(spec.input_schema.get("properties", ())) or ("a",)
        names = st.sampled_from(known) | st.text(max_size=8)
        drawn = st.dictionaries(names, self._json, max_size=4)
        return drawn.map(
            lambda arguments: ToolCall(id="call-1", name=spec.name, arguments=arguments)
        )

    def responses(self, spec: ToolSpec, call: ToolCall) -> SearchStrategy[ToolResponse]:
        """Draw responses to *call*, as the lifecycle has stamped them."""
        stamps = {"tool_name": spec.name, "tool_call_id": call.id}
        if self._responses is not None:
            return self._responses.map(lambda response: replace(response, **stamps))
        schema = spec.output_schema
        structured = st.none() | (self._json if schema is None else self._fits(schema))
        drawn = st.tuples(self._bare, structured, st.sampled_from((None, call.arguments)))
        return drawn.map(
            lambda facts: replace(facts[0], structured=facts[1], parameters=facts[2], **stamps)
        )

    def _drawn_specs(self) -> SearchStrategy[ToolSpec]:
        if self._tools:
            return st.sampled_from(self._tools)
        named = st.one_of(
            [st.from_regex(_regex(glob), fullmatch=True) for glob in self._selector.patterns]
        )
        others = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
        return tool_specs(st.one_of(named, named, others), st.sampled_from(_SCHEMAS))

    def _fits(self, schema: JsonObject) -> SearchStrategy[Any]:
        key = encode(schema)
        if key not in self._fitting:
            self._fitting[key] = values_for(schema, self._texts)
        return self._fitting[key]

    @staticmethod
    def saying(spec: ToolSpec, text: str) -> dict[str, Any]:
        """Return arguments for *spec* with *text* wherever a string may stand."""
        properties = spec.input_schema.get("properties", {})
        arguments = {
            name: text
            for name, rule in properties.items()
            if isinstance(rule, bool) or "string" in str(rule.get("type", "string"))
        }
        return arguments or {"text": text}


def _regex(pattern: str) -> str:
    """Return an expression for short names that the glob *pattern* matches."""
    parts = re.split(r"(\*|\?|\[[^\]]+\])", pattern)
    return "".join(map(_expression, parts))


def _expression(part: str) -> str:
    if part == "*":
        return "[a-z_]{1,6}"
    if part == "?":
        return "[a-z]"
    if part.startswith("[") and part.endswith("]"):
        return f"[{'^' if part[1] == '!' else ''}{part.strip('[]!')}]"
    return re.escape(part)
