"""Cases that handlers and adapters are tried with: tools, calls, questions, values of events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec.structs import force_setattr, replace

from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
    RunStart,
    Scope,
    ToolCallFailure,
    ToolSpec,
)
from toolbus.events.subjects import ToolSelector
from toolbus.messages.immutable import FrozenDict
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    encode,
)
from toolbus.testing.drawing import strategies as st
from toolbus.testing.fitting import values_for
from toolbus.testing.strategies import (
    contents,
    json_values,
    messages,
    scopes,
    spec_of,
    tool_call_failures,
    tool_specs,
    values_of,
)
from toolbus.testing.texts import HOSTILE_TEXTS, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hypothesis.strategies import SearchStrategy

    from toolbus.events.catalogue import Event
    from toolbus.messages.records import JsonObject
    from toolbus.tools.definitions import Tool

Path: TypeAlias = tuple[str, ...]
"""Where an argument stands: the keys that lead to it, `_ITEM` for what is in a list."""
_ITEM = "[]"
# A handler that asks for ever deeper or ever new arguments is left at that.
_MOST_LEVELS, _MOST_QUESTIONS = 8, 200
# Models give every type in any case; a handler may look into objects and lists of them.
_LEAF = {"type": ["string", "object", "array"], "items": {"type": ["object", "string"]}}
_ANSWERS: tuple[Any, ...] = (None, True, 0, "", "a", [], {}, ["a"], [{}])


class Questions:
    """The arguments that a handler asked for by name and once did not find.

    Whoever walks through all arguments asks for none of them.
    """

    def __init__(self) -> None:
        self._missed: dict[Path, None] = {}
        self._tried: set[Path] = set()
        self._answered: set[Path] = set()

    @property
    def asked(self) -> frozenset[Path]:
        """All that was asked for and not there, at least once."""
        return frozenset(self._missed)

    @property
    def unanswered(self) -> list[str]:
        """What was never there, as code: `arguments['edit']['path']`."""
        return [_code(path) for path in self._missed if path not in self._answered]

    def attach(self, value: Any) -> Any:
        """Return *value* with arguments that tell what they are asked for, if it has any."""
        match value:
            case ToolCall():
                call = replace(value)
                # The constructor would make a plain `FrozenDict` of it.
                force_setattr(call, "arguments", NotedArguments.of(value.arguments, self.note, ()))
                return call
            case ToolCallFailure():
                return replace(value, call=self.attach(value.call))
        return value

    def note(self, path: Path, *, is_there: bool) -> None:
        """Note that somebody asked for the argument at *path*."""
        if is_there:
            self._answered.add(path)
        else:
            self._missed[path] = None

    def answers(self) -> Iterator[dict[str, Any]]:
        """Give arguments with each JSON type in each place that was asked for and not tried yet.

        Once with nothing else in them, and once beside texts for all else that was asked for.
        """
        # An answer to one question may lead to the next one, a level deeper.
        while path := next((path for path in self._missed if self._is_open(path)), None):
            self._tried.add(path)
            beside = {name: "a" for name, *below in self._missed if not below}
            for value in _ANSWERS:
                arguments = value
                for name in reversed(path):
                    arguments = [arguments] if name == _ITEM else {name: arguments}
                yield arguments
                yield {**beside, **arguments}

    def _is_open(self, path: Path) -> bool:
        is_few = len(self._tried) < _MOST_QUESTIONS and len(path) <= _MOST_LEVELS
        return is_few and path not in self._tried

    def schema(self, path: Path = ()) -> dict[str, Any]:
        """Return the schema of arguments, or of the one at *path*, with all that was asked for."""
        depth = len(path)
        below = [each for each in self._missed if len(each) > depth and each[:depth] == path]
        names = dict.fromkeys(each[depth] for each in below)
        if _ITEM in names:
            return {"type": "array", "items": self.schema((*path, _ITEM))}
        if not names and path:
            return _LEAF
        properties = {name: self.schema((*path, name)) for name in names}
        return {"type": "object", "properties": properties}


class NotedArguments(FrozenDict):
    """Arguments that tell *note* of each lookup; equal to a like dict, and encoded as that."""

    __slots__ = ("_note", "_path")

    _note: Callable[..., None]
    _path: Path

    @classmethod
    def of(cls, value: Any, note: Callable[..., None], path: Path) -> Any:
        """Return *value*, frozen JSON at *path*, with such objects; what is below follows later.

        Only what is looked up by name is noted, so walking through all of it asks for nothing.
        """
        match value:
            case FrozenDict():
                noted = dict.__new__(cls)
                dict.update(noted, value)
                object.__setattr__(noted, "_note", note)
                object.__setattr__(noted, "_path", path)
                return noted
            case tuple():
                return tuple([cls.of(item, note, (*path, _ITEM)) for item in value])
        return value

    def __getitem__(self, name: str) -> Any:
        # Asked first, so that it is noted, and dict's own error is raised.
        path = self._ask(name)
        return self.of(super().__getitem__(name), self._note, path)

    def __contains__(self, name: object) -> bool:
        self._ask(name)
        return super().__contains__(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the argument *name*, else *default*."""
        path = self._ask(name)
        return self.of(super().get(name, default), self._note, path)

    def _ask(self, name: Any) -> Path:
        path = (*self._path, name)
        if isinstance(name, str):
            self._note(path, is_there=super().__contains__(name))
        return path


# A handler's error speaks of the class that arguments have elsewhere.
NotedArguments.__name__ = FrozenDict.__name__


def _code(path: Path) -> str:
    return "arguments" + "".join("[…]" if name == _ITEM else f"[{name!r}]" for name in path)


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
    with; *calls* and *responses* replace what is drawn, if given. *schema* is that of the
    arguments of tools that are made up.
    """

    def __init__(
        self,
        patterns: Iterable[str] | str = "*",
        tools: Iterable[Tool | ToolSpec | Callable[..., Any]] = (),
        calls: SearchStrategy[ToolCall] | None = None,
        responses: SearchStrategy[ToolResponse] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        self._selector = ToolSelector(patterns)
        self._tools = tuple([spec_of(tool) for tool in tools])
        self._calls, self._responses = calls, responses
        self._schemas = _SCHEMAS if schema is None else (schema,)
        self.sometimes = st.sampled_from((False, False, False, True))
        # Made once: to make a strategy takes longer than to draw from it.
        self._texts = texts()
        self._json = json_values(max_leaves=6, texts=self._texts)
        self._bare = st.builds(
            ToolResponse,
            content=contents(self._texts),
            is_error=self.sometimes,
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

    def some_spec(self, output: Any = None) -> ToolSpec:
        """Return one tool that the handler is for; one that is made up promises *output*."""
        for spec in self._tools:
            if self.is_named(spec.name):
                return spec
        pattern = self._selector.patterns[0] if self._selector.patterns else "*"
        name = re.sub(r"[*?]|\[.*?\]", "a", pattern)
        promise = (
            {"type": "object", "required": list(output)[:1]} if isinstance(output, dict) else None
        )
        return ToolSpec(name=name, input_schema=self._schemas[0], output_schema=promise)

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
        # Tools that promise a form keep it, most often.
        drawn_json = [self._json] if schema is None else [self._fits(schema)] * 3
        structured = st.one_of(st.none(), *drawn_json)
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
        return tool_specs(st.one_of(named, named, others), st.sampled_from(self._schemas))

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


_MESSAGES = (MESSAGE_APPEND_BEFORE, MESSAGE_PERSIST_BEFORE)


class Situation(NamedTuple):
    """One value, and what a context says besides."""

    value: Any
    tool: ToolSpec | None = None
    scope: Scope = Scope()


class Situations:
    """The situations of *event*, which put *questions* to calls; *values* replace what is drawn."""

    def __init__(
        self,
        event: Event,
        cases: Cases,
        questions: Questions,
        values: SearchStrategy[Any] | None = None,
    ) -> None:
        self._event, self._cases, self._questions = event, cases, questions
        self.is_ours = values is None
        self.sometimes = cases.sometimes
        # Made once: to make a strategy takes longer than to draw from it.
        self._scopes, self._failed = scopes(), tool_call_failures(texts())
        if values is not None:
            self.drawn = st.builds(Situation, values, st.none(), scopes())
        elif event is TOOL_CALL_BEFORE:
            self.drawn = cases.specs().flatmap(self._calls)
        elif event is TOOL_CALL_ERROR:
            self.drawn = cases.specs().flatmap(self._failures)
        elif event in _MESSAGES:
            others = st.builds(Situation, messages(texts()), st.none(), scopes())
            self.drawn = others | cases.specs().flatmap(self._answers)
        elif event is TOOLS_PROVIDE:
            provided = st.lists(cases.specs(), max_size=3, unique_by=lambda spec: spec.name)
            self.drawn = st.builds(Situation, provided.map(tuple), st.none(), scopes())
        else:
            self.drawn = st.builds(Situation, values_of(event, texts()), st.none(), scopes())

    def hostile(self) -> Iterator[Situation]:
        """Give situations with each of the hostile texts, for the events where people speak."""
        for text in HOSTILE_TEXTS if self.is_ours else ():
            for value in self._saying(text):
                tool = self._cases.some_spec() if isinstance(value, ToolCall) else None
                yield self._noted(Situation(value, tool))

    def answers(self) -> Iterator[Situation]:
        """Give calls that have what was asked for and not tried yet, for the event of calls."""
        spec = self._cases.some_spec()
        for arguments in self._questions.answers() if self._event is TOOL_CALL_BEFORE else ():
            yield self._noted(Situation(ToolCall(id="call-1", name=spec.name, arguments=arguments)))

    def _saying(self, text: str) -> list[Any]:
        spec = self._cases.some_spec()
        if self._event is TOOL_CALL_BEFORE:
            arguments = self._cases.saying(spec, text)
            return [ToolCall(id="call-1", name=spec.name, arguments=arguments)]
        if self._event is RUN_BEFORE:
            return [RunStart(prompt=text)]
        if self._event not in _MESSAGES:
            return []
        return [
            _answer(spec, ToolResponse.from_text(text)),
            UserMessage(id="m-1", content=text),
            AssistantMessage(id="m-1", content=text),
            SystemMessage(id="m-1", content=text),
        ]

    def _calls(self, spec: ToolSpec) -> SearchStrategy[Situation]:
        made = self._cases.calls(spec) | self._cases.nonsense(spec)
        return self._situations(made, spec)

    def _failures(self, spec: ToolSpec) -> SearchStrategy[Situation]:
        made = self._cases.calls(spec) | self._cases.nonsense(spec)
        drawn = st.tuples(self._failed, made)
        return self._situations(drawn.map(lambda pair: replace(pair[0], call=pair[1])), spec)

    def _answers(self, spec: ToolSpec) -> SearchStrategy[Situation]:
        call = ToolCall(id="call-1", name=spec.name)
        responses = st.none() | self._cases.responses(spec, call)
        return self._situations(responses.map(lambda response: _answer(spec, response)), spec)

    def _situations(self, values: SearchStrategy[Any], spec: ToolSpec) -> SearchStrategy[Situation]:
        """Draw *values* of the tool *spec*; now and then of none: a model may make tools up."""
        tool = st.sampled_from((spec, spec, spec, None))
        drawn = st.tuples(values, tool, self._scopes)
        return drawn.map(lambda facts: self._noted(Situation(*facts)))

    def _noted(self, situation: Situation) -> Situation:
        return situation._replace(value=self._questions.attach(situation.value))


def _answer(spec: ToolSpec, response: ToolResponse | None) -> ToolMessage:
    return ToolMessage(id="m-1", tool_call_id="call-1", tool_name=spec.name, tool_response=response)
