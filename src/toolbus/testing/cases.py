"""What a check draws: tools that a handler is for and others, calls, responses."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.events import ToolSpec
from toolbus.messages import ToolCall, ToolResponse
from toolbus.testing.drawing import strategies as st
from toolbus.testing.fitting import values_for
from toolbus.testing.records import contents, json_values, spec_of, tool_calls, tool_specs
from toolbus.testing.texts import texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypothesis.strategies import SearchStrategy

    from toolbus.tools import Tool


class Cases:
    """Strategies for one check.

    *patterns* are the glob patterns of the tools that a handler is for, *tools* those to try it
    with; *calls* and *responses* replace what is drawn, if given.
    """

    def __init__(
        self,
        patterns: Iterable[str] = ("*",),
        tools: Iterable[Tool | ToolSpec | Callable[..., Any]] = (),
        calls: SearchStrategy[ToolCall] | None = None,
        responses: SearchStrategy[ToolResponse] | None = None,
    ) -> None:
        self._patterns = tuple(patterns)
        self._given = tuple([spec_of(one) for one in tools])
        self._calls, self._responses = calls, responses
        self.sometimes = st.sampled_from((False, False, False, True))
        # Made once: to make a strategy takes longer than to draw from it.
        self._texts, self._contents = texts(), contents(texts())
        self._json = json_values(max_leaves=6, texts=self._texts)

    def is_named(self, name: str) -> bool:
        """Tell whether the tool *name* is one that the handler says it is for."""
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def specs(self) -> SearchStrategy[ToolSpec]:
        """Draw tools, most of them such as the handler is for."""
        if self._given:
            return st.sampled_from(self._given)
        named = st.one_of([st.from_regex(_regex(one), fullmatch=True) for one in self._patterns])
        others = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
        return tool_specs(st.one_of(named, named, others))

    def some_spec(self) -> ToolSpec:
        """Return one tool that the handler is for."""
        for spec in self._given:
            if self.is_named(spec.name):
                return spec
        pattern = self._patterns[0] if self._patterns else "*"
        return ToolSpec(name=re.sub(r"[*?]|\[.*?\]", "a", pattern))

    def calls(self, spec: ToolSpec) -> SearchStrategy[ToolCall]:
        """Draw calls that fit *spec*, or those that were given, with its name."""
        if self._calls is None:
            return tool_calls(spec, texts=self._texts)
        return self._calls.map(lambda call: replace(call, name=spec.name))

    def nonsense(self, spec: ToolSpec) -> SearchStrategy[ToolCall]:
        """Draw calls of *spec* as models make them up: they may fit and mostly do not."""
        known = tuple(spec.input_schema.get("properties", ())) or ("a",)
        names = st.sampled_from(known) | st.text(max_size=8)
        arguments = st.dictionaries(names, self._json, max_size=4)
        return st.builds(
            ToolCall,
            id=st.just("call-1"),
            name=st.just(spec.name),
            arguments=arguments,
            raw=st.none() | st.text(max_size=8),
        )

    def responses(self, spec: ToolSpec, call: ToolCall) -> SearchStrategy[ToolResponse]:
        """Draw responses to *call*, as the lifecycle has stamped them."""
        stamps = {"tool_name": spec.name, "tool_call_id": call.id}
        if self._responses is not None:
            return self._responses.map(lambda one: replace(one, **stamps))
        schema = spec.output_schema
        fitting = self._json if schema is None else values_for(schema, self._texts)
        return st.builds(
            ToolResponse,
            content=self._contents,
            structured=st.none() | fitting,
            is_error=st.booleans(),
            error_type=st.none() | st.just("ValueError"),
            parameters=st.none() | st.just(call.arguments),
            duration_ns=st.none() | st.integers(0, 10**9),
            metadata=st.just({}) | st.just({"a": 1}),
            tool_name=st.just(spec.name),
            tool_call_id=st.just(call.id),
        )

    @staticmethod
    def saying(spec: ToolSpec, text: str) -> dict[str, Any]:
        """Return arguments for *spec* with *text* wherever a string may stand."""
        properties = spec.input_schema.get("properties", {})
        said = {
            name: text
            for name, rule in properties.items()
            if isinstance(rule, bool) or "string" in str(rule.get("type", "string"))
        }
        return said or {"text": text}


def _regex(pattern: str) -> str:
    """Return an expression for short names that the glob *pattern* matches."""
    pieces = re.split(r"(\*|\?|\[[^\]]+\])", pattern)
    return "".join(map(_piece, pieces))


def _piece(piece: str) -> str:
    if piece == "*":
        return "[a-z_]{1,6}"
    if piece == "?":
        return "[a-z]"
    if piece.startswith("[") and piece.endswith("]"):
        return f"[{'^' if piece[1] == '!' else ''}{piece.strip('[]!')}]"
    return re.escape(piece)
