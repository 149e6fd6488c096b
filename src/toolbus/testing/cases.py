"""Cases for checks of handlers and adapters: tools, calls, responses, values of events."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
    RunStart,
    Scope,
    ToolSpec,
)
from toolbus.events.subjects import ToolSelector
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.testing.argument_lookups import ANSWERS
from toolbus.testing.schema_strategies import json_values, values_for
from toolbus.testing.strategies import contents, scopes, spec_of, tool_specs, values_of
from toolbus.testing.text_strategies import st, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypothesis.strategies import SearchStrategy

    from toolbus.events.catalogue import Event
    from toolbus.tools.definitions import Tool

_CALL_IDS = st.sampled_from(("call-1", "1", "toolu_01A"))


class Cases:
    """The strategies of one check.

    *patterns* are the glob patterns of the tools that a handler applies to, *tools* the tools to
    draw; *calls* and *responses* replace the default strategies, if given.
    """

    def __init__(
        self,
        patterns: Iterable[str] | str = "*",
        tools: Iterable[Tool | ToolSpec | Callable[..., Any]] = (),
        calls: SearchStrategy[ToolCall] | None = None,
        responses: SearchStrategy[ToolResponse] | None = None,
    ) -> None:
        self._selector = ToolSelector(patterns)
        self.tools = tuple([spec_of(tool) for tool in tools])
        self.given_calls, self.given_responses = calls, responses
        self.sometimes = st.sampled_from((False, False, False, True))
        # Created once: creating a strategy takes longer than drawing from it.
        self._texts = texts()
        self._json = json_values(max_leaves=6, texts=self._texts)
        answer = st.sampled_from(ANSWERS) | self._json
        self.answers = st.just(()) | st.lists(answer, max_size=6).map(tuple)
        self._bare = st.builds(
            ToolResponse,
            content=contents(self._texts),
            is_error=self.sometimes,
            error_type=st.none() | st.just("ValueError"),
            duration_ns=st.none() | st.integers(0, 10**9),
            metadata=st.just({}) | st.just({"a": 1}),
        )
        self._fits = cache(lambda schema: values_for(schema, self._texts))
        self.specs = self._drawn_specs()

    def is_named(self, name: str) -> bool:
        """Return whether the handler claims to apply to the tool *name*."""
        return self._selector.matches(name)

    def some_spec(self, output: Any = None) -> ToolSpec:
        """Return a tool that the handler applies to; a made-up one has a schema for *output*."""
        for spec in self.tools:
            if self.is_named(spec.name):
                return spec
        pattern = self._selector.patterns[0] if self._selector.patterns else "*"
        name = _name_like(pattern, "a")
        promise = (
            {"type": "object", "required": list(output)[:1]} if isinstance(output, dict) else None
        )
        return ToolSpec(name=name, output_schema=promise)

    def calls(self, spec: ToolSpec) -> SearchStrategy[ToolCall]:
        """Draw calls that match *spec*, or the given calls with its name."""
        if self.given_calls is not None:
            return self.given_calls.map(lambda call: replace(call, name=spec.name))
        return _calls(spec, self._fits(spec.input_schema))

    def nonsense(self, spec: ToolSpec) -> SearchStrategy[ToolCall]:
        """Draw calls of *spec* with arbitrary arguments, which usually do not match it."""
        known = tuple(spec.input_schema.get("properties", ())) or ("a",)
        names = st.sampled_from(known) | st.text(max_size=8)
        return _calls(spec, st.dictionaries(names, self._json, max_size=4))

    def responses(self, spec: ToolSpec, call: ToolCall) -> SearchStrategy[ToolResponse]:
        """Draw responses to *call*, stamped as by the lifecycle of a call."""
        drawn = self.given_responses
        if drawn is None:
            schema = spec.output_schema
            # Tools with an output schema usually comply with it.
            drawn_json = [self._json] if schema is None else [self._fits(schema)] * 3
            structured = st.one_of(st.none(), *drawn_json)
            drawn = st.tuples(self._bare, structured).map(
                lambda pair: replace(pair[0], structured=pair[1])
            )
        known = (None, call.arguments) if self.given_responses is None else (call.arguments,)
        return st.tuples(drawn, st.sampled_from(known)).map(
            lambda pair: replace(
                pair[0],
                parameters=pair[0].parameters or pair[1],
                tool_name=spec.name,
                tool_call_id=call.id,
            )
        )

    def _drawn_specs(self) -> SearchStrategy[ToolSpec]:
        if self.tools:
            return st.sampled_from(self.tools)
        words, patterns = st.from_regex(r"[a-z_]{1,6}", fullmatch=True), self._selector.patterns
        named = st.builds(_name_like, st.sampled_from(patterns), words) if patterns else words
        return tool_specs(named | named | words)


def _calls(spec: ToolSpec, arguments: SearchStrategy[Any]) -> SearchStrategy[ToolCall]:
    # `builds` would inspect the type's annotations each time that a tool is drawn.
    return st.tuples(_CALL_IDS, arguments).map(
        lambda pair: ToolCall(id=pair[0], name=spec.name, arguments=pair[1])
    )


def _name_like(pattern: str, word: str) -> str:
    """Return a name that matches the glob *pattern*, with *word* in place of its stars."""
    name = re.sub(r"\[!.*?\]", "_", pattern)
    name = re.sub(r"\[(.).*?\]", r"\1", name)
    return name.replace("*", word).replace("?", word[0])


def saying(spec: ToolSpec, text: str) -> dict[str, Any]:
    """Return arguments for *spec* with *text* for each parameter that may be a string."""
    properties = spec.input_schema.get("properties", {})
    arguments = {
        name: text
        for name, rule in properties.items()
        if isinstance(rule, bool) or "string" in str(rule.get("type", "string"))
    }
    return arguments or {"text": text}


class HandlerCase(NamedTuple):
    """A value of an event, with the tool and the scope of its context."""

    value: Any
    tool: ToolSpec | None = None
    scope: Scope = Scope()


CALLS = (TOOL_CALL_BEFORE, TOOL_CALL_ERROR)
"""The events about one call of the model."""
_MESSAGES = (MESSAGE_APPEND_BEFORE, MESSAGE_PERSIST_BEFORE)


def handler_cases(event: Event, cases: Cases) -> SearchStrategy[HandlerCase]:
    """Draw cases of *event*."""
    if event is TOOLS_PROVIDE:
        several = st.lists(cases.specs, max_size=3, unique_by=lambda spec: spec.name)
        return cases_with(several.map(tuple))
    values = values_of(event, texts())
    if event not in (*CALLS, *_MESSAGES):
        return cases_with(values)
    speakers = scopes()

    def about_tool(spec: ToolSpec) -> SearchStrategy[HandlerCase]:
        # Sometimes the tool is unknown: a model may invent tools.
        tool = st.sampled_from((spec, spec, spec, None))
        drawn = st.tuples(_about(event, cases, spec, values), tool, speakers)
        return drawn.map(lambda facts: HandlerCase(*facts))

    drawn = cases.specs.flatmap(about_tool)
    return drawn if event in CALLS else cases_with(values) | drawn


def cases_with(values: SearchStrategy[Any]) -> SearchStrategy[HandlerCase]:
    """Draw cases with *values* and without a known tool."""
    return st.builds(HandlerCase, values, st.none(), scopes())


def _about(
    event: Event, cases: Cases, spec: ToolSpec, failures: SearchStrategy[Any]
) -> SearchStrategy[Any]:
    """Draw values of *event* about the tool *spec*."""
    calls = cases.calls(spec) | cases.nonsense(spec)
    if event is TOOL_CALL_BEFORE:
        return calls
    if event is TOOL_CALL_ERROR:
        return st.tuples(failures, calls).map(lambda pair: replace(pair[0], call=pair[1]))
    responses = st.none() | cases.responses(spec, ToolCall(id="call-1", name=spec.name))
    return responses.map(lambda response: _answer(spec, response))


def hostile_cases(event: Event, spec: ToolSpec, text: str) -> list[HandlerCase]:
    """Return cases of *event* that contain *text*, for the tool *spec* if it is about one."""
    if event is TOOL_CALL_BEFORE:
        call = ToolCall(id="call-1", name=spec.name, arguments=saying(spec, text))
        return [HandlerCase(call, spec)]
    if event is RUN_BEFORE:
        return [HandlerCase(RunStart(prompt=text))]
    if event not in _MESSAGES:
        return []
    return [
        HandlerCase(_answer(spec, ToolResponse.from_text(text))),
        HandlerCase(UserMessage(id="m-1", content=text)),
        HandlerCase(AssistantMessage(id="m-1", content=text)),
        HandlerCase(SystemMessage(id="m-1", content=text)),
    ]


def _answer(spec: ToolSpec, response: ToolResponse | None) -> ToolMessage:
    return ToolMessage(id="m-1", tool_call_id="call-1", tool_name=spec.name, tool_response=response)
