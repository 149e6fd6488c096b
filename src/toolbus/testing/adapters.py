"""Check adapters: hunt for a case in which one breaks a law."""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.components.adapters import AdapterContext, ToolAdapter, with_context
from toolbus.errors import RegistrationError
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, MAX_DEPTH
from toolbus.messages.records import TextPart, ToolCall, ToolResponse
from toolbus.testing.installed import CHECKED
from toolbus.testing.trials import Abandoned, Invocation, differ

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.events.catalogue import ToolSpec
    from toolbus.testing.cases import Cases
    from toolbus.testing.trials import Trial

_IDENTITY = {ToolResponse: ("tool_name", "tool_call_id"), ToolCall: ("id", "name")}


class FunctionAdapter(ToolAdapter):
    """A function of a response, and of its call if it takes two arguments, as an adapter."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function = function
        try:
            inspect.signature(function).bind(None, None)
        except TypeError:
            self._takes_call = False
        else:
            self._takes_call = True

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> Any:
        """Return what the function returns."""
        return self._function(response, call) if self._takes_call else self._function(response)


class AdapterCase(NamedTuple):
    """What one tool's signature, call and response were when they passed the adapter."""

    spec: ToolSpec
    published: ToolSpec
    call: ToolCall
    concerned: bool


class AdapterExam:
    """Examines *adapter* with cases of *cases*, and judges it in *trial*."""

    def __init__(
        self, adapter: ToolAdapter, cases: Cases, trial: Trial, *, idempotent: bool
    ) -> None:
        self._adapter, self._cases, self._trial = adapter, cases, trial
        self._idempotent = idempotent
        # Their signatures are looked at once, and not for each case.
        self._adapt_signature = with_context(adapter.adapt_signature)
        self._adapt_parameters = with_context(adapter.adapt_parameters)
        self._adapt_response = with_context(adapter.adapt_response)

    def examine(self, draw: Callable[[Any], Any]) -> None:
        """Send a tool's signature, a call and two responses past the adapter."""
        adapter_case = self._begin(draw, draw(self._cases.specs()))
        if adapter_case is None:
            return
        first = self._respond(
            adapter_case, draw(self._cases.responses(adapter_case.spec, adapter_case.call))
        )
        if draw(self._cases.sometimes):
            second = draw(self._cases.responses(adapter_case.spec, adapter_case.call))
            self._respond(adapter_case, second)
            self._trial.compare(*first, after="after another response")
        if draw(self._cases.sometimes):
            self._parameters(
                adapter_case, draw(self._cases.nonsense(adapter_case.published)), fits=False
            )

    def respond(self, response: ToolResponse) -> None:
        """Send one *response* of some tool past the adapter, if that is one of its own."""
        spec = self._cases.some_spec(output=response.structured)
        if not self._adapter.should_adapt(spec.name):
            return
        call = ToolCall(id="call-1", name=spec.name)
        stamped = replace(response, tool_name=spec.name, tool_call_id=call.id)
        self._respond(AdapterCase(spec, spec, call, concerned=True), stamped)

    def call(self, text: str) -> None:
        """Send a call with *text* as an argument past the adapter, fit or not."""
        spec = self._cases.some_spec()
        if not self._adapter.should_adapt(spec.name):
            return
        call = ToolCall(id="call-1", name=spec.name, arguments=self._cases.saying(spec, text))
        self._parameters(AdapterCase(spec, spec, call, concerned=True), call, fits=False)

    def _begin(self, draw: Callable[[Any], Any], spec: ToolSpec) -> AdapterCase | None:
        adapter, inputs = self._adapter, {"tool": spec}
        invocation = Invocation("should_adapt", lambda: adapter.should_adapt(spec.name), inputs)
        if not self._trial.perform(
            invocation, lambda result: self._judge_answer(invocation, result)
        ):
            return None
        concerned = self._cases.is_named(spec.name)
        published = self._signature(AdapterCase(spec, spec, ToolCall(id="", name=""), concerned))
        call = draw(self._cases.calls(published))
        adapter_case = AdapterCase(spec, published, call, concerned)
        fits = schemas.problem(published.input_schema, call.arguments) is None
        self._parameters(adapter_case, call, fits=fits)
        return adapter_case

    def _signature(self, adapter_case: AdapterCase) -> ToolSpec:
        spec = adapter_case.spec
        method = partial(self._adapt_signature, ctx=AdapterContext(CHECKED, spec))
        invocation = Invocation("adapt_signature", lambda: method(spec), {"tool": spec})

        def judge(result: Any) -> None:
            self._judge(invocation, adapter_case, spec, result, ("name",))
            for schema in (result.input_schema, result.output_schema or EMPTY) if result else ():
                if flaw := schemas.check_schema(schema):
                    case = {**invocation.inputs, "published": result}
                    self._trial.fatal(
                        "sound-schema", f"{invocation.name} made one unsound: {flaw}", case
                    )

        result = self._trial.perform(invocation, judge)
        self._twice(invocation, method, result)
        return spec if result is None else result

    def _parameters(self, adapter_case: AdapterCase, call: ToolCall, *, fits: bool) -> None:
        spec, inputs = adapter_case.spec, {"tool": adapter_case.spec, "call": call}
        method = partial(
            self._adapt_parameters, ctx=AdapterContext(CHECKED, adapter_case.published)
        )
        invocation = Invocation("adapt_parameters", lambda: method(call), inputs)

        def judge(result: Any) -> None:
            self._judge(invocation, adapter_case, call, result, _IDENTITY[ToolCall])
            arguments = (call if result is None else result).arguments
            if fits and (problem := schemas.problem(spec.input_schema, arguments)):
                case = {**inputs, "published": adapter_case.published, "returned": result}
                self._trial.broken("arguments-fit", f"the arguments do not: {problem}", case)

        result = self._trial.perform(invocation, judge)
        self._twice(invocation, method, result)

    def _respond(self, adapter_case: AdapterCase, response: ToolResponse) -> tuple[Invocation, Any]:
        spec, published, call = adapter_case.spec, adapter_case.published, adapter_case.call
        inputs = {"tool": spec, "response": response, "call": call}
        method = partial(self._adapt_response, ctx=AdapterContext(CHECKED, spec))
        invocation = Invocation("adapt_response", lambda: method(response, call), inputs)

        def judge(result: Any) -> None:
            self._judge(invocation, adapter_case, response, result, _IDENTITY[ToolResponse])
            answer = response if result is None else result
            # As the lifecycle has it: what fits the tool's own schema is well, too.
            problem = _breaks(published, answer) and _breaks(spec, answer)
            if problem and _breaks(spec, response) is None:
                case = {**inputs, "published": published, "returned": result}
                self._trial.broken("result-fits", f"`structured` does not: {problem}", case)

        result = self._trial.perform(invocation, judge)
        self._twice(invocation, lambda changed: method(changed, call), result)
        return invocation, result

    def _judge(
        self,
        invocation: Invocation,
        adapter_case: AdapterCase,
        old: Any,
        new: Any,
        fields: tuple[str, ...],
    ) -> None:
        """Judge *new*, which *invocation* made of *old*, by what holds for all three methods."""
        case = {**invocation.inputs, "returned": new}
        if new is not None and type(new) is not type(old):
            kind = type(new).__name__
            problem = f"{invocation.name} returned `{kind}` instead of `{type(old).__name__}`"
            self._trial.fatal("right-type", problem, case)
        for field in fields if new is not None else ():
            before, after = getattr(old, field), getattr(new, field)
            if before != after:
                problem = f"{invocation.name} changed the {field}: {before!r} → {after!r}"
                self._trial.broken("keeps-identity", problem, case)
        if not adapter_case.concerned and new is not None and differ(old, new):
            name = adapter_case.spec.name
            problem = f"{invocation.name} changed {name!r}, which is not among its tools"
            self._trial.broken("leaves-others-alone", problem, case)

    def _judge_answer(self, invocation: Invocation, result: Any) -> None:
        if not isinstance(result, bool):
            problem = f"{invocation.name} returned `{type(result).__name__}` instead of `bool`"
            self._trial.broken("right-type", problem, {**invocation.inputs, "returned": result})

    def _twice(self, invocation: Invocation, method: Callable[[Any], Any], result: Any) -> None:
        """See that *method* leaves alone what it made, if that was claimed."""
        if not self._idempotent or result is None:
            return
        again = Invocation(invocation.name, lambda: method(result), invocation.inputs)
        self._trial.repeat(again, result, invocation.inputs)


def hostile_responses(exam: AdapterExam, texts: Iterable[str]) -> None:
    """Send responses that hypothesis may not hit past the adapter: each text, in each place."""
    responses = [ToolResponse(), ToolResponse(structured=_nested()), _many_parts()]
    for response in [*responses, *map(_saying, texts)]:
        with suppress(Abandoned):
            exam.respond(response)


def hostile_calls(exam: AdapterExam, texts: Iterable[str]) -> None:
    """Send a call with each of *texts* past the adapter."""
    for text in texts:
        with suppress(Abandoned):
            exam.call(text)


def _saying(text: str) -> ToolResponse:
    return ToolResponse(
        content=(TextPart(text=text),), structured={"said": text, text[:1_000]: [text]}
    )


def _nested() -> Any:
    value: Any = "deep"
    for _ in range(MAX_DEPTH // 2 - 1):
        value = {"a": [value]}
    return value


def _many_parts() -> ToolResponse:
    return ToolResponse(content=(TextPart(text="a"),) * 1_000)


def as_adapter(subject: Any) -> ToolAdapter:
    """Return *subject*, an adapter or a function of a response, as an adapter."""
    if isinstance(subject, ToolAdapter):
        return subject
    if callable(subject) and not isinstance(subject, type):
        return FunctionAdapter(subject)
    raise RegistrationError(
        f"adapter {subject!r}", "expected an adapter, a function or a component"
    )


def _breaks(spec: ToolSpec, response: ToolResponse) -> str | None:
    """Return how the structured result of *response* breaks the output schema of *spec*."""
    if spec.output_schema is None or response.is_error or response.structured is None:
        return None
    return schemas.problem(spec.output_schema, response.structured)
