"""Situations in which a handler is tried: a value of its event, the tool in force, who speaks."""

from __future__ import annotations

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
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.testing.drawing import strategies as st
from toolbus.testing.records import messages, scopes
from toolbus.testing.texts import HOSTILE_TEXTS, texts
from toolbus.testing.values import tool_call_failures, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

    from toolbus.events.catalogue import Event
    from toolbus.testing.cases import Cases
    from toolbus.testing.questions import Questions

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
