"""The exams of adapters and handlers: each tries one with cases, and judges it by the laws."""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.bus.dispatch.callables import name_of
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.results import foreign, mismatch
from toolbus.components.adapters import AdapterContext, ToolAdapter, with_context
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Ask, Deny, ObserveEvent, Scope, ToolSpec, TransformEvent
from toolbus.events.subjects import ToolSelector, tool_of
from toolbus.events.verdicts import NO_PROMPT, NO_REASON
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, MAX_DEPTH
from toolbus.messages.records import TextPart, ToolCall, ToolResponse
from toolbus.testing.trials import Abandoned, Invocation, differ, misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import Event
    from toolbus.testing.laws import LawName
    from toolbus.testing.situations import Cases, Situation, Situations
    from toolbus.testing.trials import Trial

CHECKED = Scope(agent_id="checked", session_id="checked")
"""Who speaks in a check."""
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


class InstalledAdapter(ToolAdapter):
    """The *adapter* of a *component* as it runs there: for the component's tools alone."""

    def __init__(self, component: AgentComponent, adapter: ToolAdapter) -> None:
        self.name, self.tools = adapter.name, adapter.tools
        self._component, self._adapter = component, adapter

    def should_adapt(self, tool_name: str) -> bool:
        """Tell whether both are for the tool *tool_name*."""
        return self._component.selector.matches(tool_name) and self._adapter.should_adapt(tool_name)

    def adapt_signature(self, spec: ToolSpec, ctx: AdapterContext) -> Any:
        """Return what the adapter makes of *spec*."""
        if self.should_adapt(spec.name):
            return with_context(self._adapter.adapt_signature)(spec, ctx=ctx)
        return None

    def adapt_parameters(self, call: ToolCall, ctx: AdapterContext) -> Any:
        """Return what the adapter makes of *call*."""
        if self.should_adapt(call.name):
            return with_context(self._adapter.adapt_parameters)(call, ctx=ctx)
        return None

    def adapt_response(self, response: ToolResponse, call: ToolCall, ctx: AdapterContext) -> Any:
        """Return what the adapter makes of *response*."""
        if not self.should_adapt(call.name):
            return None
        # A call is rebuilt from its message, where a response may have lost its parameters.
        rebuilt = replace(call, arguments=response.parameters or EMPTY)
        return with_context(self._adapter.adapt_response)(response, rebuilt, ctx=ctx)


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
        fits = misfit(published, call) is None
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
            problem = misfit(published, answer) and misfit(spec, answer)
            if problem and misfit(spec, response) is None:
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


class Subject(NamedTuple):
    """A handler of *event*; *when* is its predicate, *component* what it is a method of.

    *patterns* are the glob patterns of the tools that it is for.
    """

    event: Event
    handler: Callable[[EventContext[Any]], Any]
    is_guard: bool
    when: Callable[[EventContext[Any]], bool] | None = None
    component: AgentComponent | None = None
    patterns: tuple[str, ...] = ("*",)

    @property
    def name(self) -> str:
        """What people call it."""
        return name_of(self.handler)


class Claims(NamedTuple):
    """What is claimed of a handler: what it is for, and whether it leaves alone what it made."""

    tools: ToolSelector = ToolSelector("*")
    roles: frozenset[str] | None = None
    idempotent: bool = False


class HandlerExam:
    """Examines the handler that *subject* is with values of its event, and judges it in *trial*."""

    def __init__(self, subject: Subject, trial: Trial, claims: Claims) -> None:
        self._subject, self._trial, self._claims = subject, trial, claims
        self.cases, self.reached, self.has_spoken = 0, 0, False

    def examine(self, situations: Situations, draw: Callable[[Any], Any]) -> None:
        """Show the handler one value, sometimes another one, and the first one again."""
        first = self.show(draw(situations.drawn))
        if first is not None and draw(situations.sometimes):
            self.show(draw(situations.drawn))
            self._trial.compare(*first, after="after another value")

    def corners(self, situations: Iterable[Situation]) -> None:
        """Show the handler each of *situations*."""
        for situation in situations:
            try:
                self.show(situation)
            except Abandoned:
                continue

    def show(self, situation: Situation) -> tuple[Invocation, Any] | None:
        """Return what the handler made of *situation*, None if its predicate left that out."""
        self.cases += 1
        value, inputs = situation.value, {"value": situation.value}
        if (when := self._subject.when) is not None:
            asked = Invocation(
                "its predicate", lambda: bool(when(self._context(situation))), inputs
            )
            if not self._trial.perform(asked, lambda _: None):
                return None
        invocation = self._invocation(situation, value)

        def judge(result: Any) -> None:
            if self._subject.is_guard:
                self._judge_verdict(invocation, result)
            else:
                self._judge(invocation, situation, result)

        self.reached += 1
        result = self._trial.perform(invocation, judge)
        self.has_spoken |= result is not None
        if self._claims.idempotent and self._is_replacement(result):
            self._trial.repeat(self._invocation(situation, result), result, invocation.inputs)
        return invocation, result

    def _invocation(self, situation: Situation, value: Any) -> Invocation:
        name, handler = self._subject.name, self._subject.handler
        context = self._context(situation._replace(value=value))

        def run() -> Any:
            nonlocal context
            context = self._context(situation._replace(value=value))
            return handler(context)

        def finished(returned: Any) -> Any:
            # What a handler assigned counts, unless it returned something.
            return context.output if returned is None else returned

        return Invocation(name, run, {"value": value}, finished)

    def _context(self, situation: Situation) -> EventContext[Any]:
        event, scope = self._subject.event, situation.scope
        return EventContext(event, situation.value, scope=scope, tool=situation.tool)

    def _judge_verdict(self, invocation: Invocation, result: Any) -> None:
        event = self._subject.event
        case = {**invocation.inputs, "returned": result}
        match result:
            case None:
                return
            case Ask() if isinstance(event, TransformEvent) and not event.asks:
                problem = (
                    f"{invocation.name} asked, and {event.name} lets nobody ask: it would deny"
                )
                self._trial.broken("right-type", problem, case)
            case Ask(prompt=text) | Deny(reason=text):
                self._says_why(invocation, text, case)
            case _ if isinstance(event, TransformEvent) and event.accepts(result):
                problem = f"{invocation.name} gave another value; a guard's is never used"
                self._trial.fatal("judges-only", problem, case)
            case _:
                kind = type(result).__name__
                problem = f"{invocation.name} returned `{kind}` instead of `Deny`, `Ask` or None"
                self._trial.fatal("right-type", problem, case)

    def _says_why(self, invocation: Invocation, text: str, case: dict[str, Any]) -> None:
        if not text.strip() or text in {NO_REASON, NO_PROMPT}:
            self._trial.broken("says-why", f"{invocation.name} gave an empty text", case)

    def _judge(self, invocation: Invocation, situation: Situation, result: Any) -> None:
        event, case = self._subject.event, {**invocation.inputs, "returned": result}
        if isinstance(event, ObserveEvent):
            if result is not None:
                useless = f"{invocation.name} returned `{type(result).__name__}`, which nobody gets"
                self._trial.broken("right-type", useless, case)
        elif isinstance(result, Deny):
            self._says_why(invocation, result.reason, case)
        elif result is not None and not isinstance(result, event.answer):
            if problem := foreign(event, result) or mismatch(situation.value, result):
                is_identity = problem.startswith("changed")
                law: LawName = "keeps-identity" if is_identity else "right-type"
                self._trial.fatal(law, f"{invocation.name} {problem}", case)
            self._judge_change(invocation, situation, result, case)

    def _judge_change(
        self, invocation: Invocation, situation: Situation, result: Any, case: dict[str, Any]
    ) -> None:
        value, claims = situation.value, self._claims
        role, name = getattr(value, "role", None), tool_of(value)
        if differ(value, result):
            if claims.roles is not None and role is not None and role not in claims.roles:
                problem = f"{invocation.name} changed a message of the role {role!r}"
                self._trial.broken("leaves-others-alone", problem, case)
            if name is not None and not claims.tools.matches(name):
                problem = f"{invocation.name} changed something of {name!r}, which is not its tool"
                self._trial.broken("leaves-others-alone", problem, case)
        if situation.tool is not None:
            self._judge_fit(situation.tool, value, result, case)

    def _judge_fit(self, tool: ToolSpec, old: Any, new: Any, case: dict[str, Any]) -> None:
        if misfit(tool, old) is None and (problem := misfit(tool, new)):
            law: LawName = "arguments-fit" if isinstance(new, ToolCall) else "result-fits"
            shown = {"tool": tool, **case}
            self._trial.broken(law, f"what fitted the tool does no longer: {problem}", shown)

    def _is_replacement(self, result: Any) -> bool:
        event = self._subject.event
        return isinstance(event, TransformEvent) and event.accepts(result)
