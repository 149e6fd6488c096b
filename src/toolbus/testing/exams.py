"""The exams of adapters and handlers: each tries one with cases, and judges it by the laws."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.bus.dispatch.callables import name_of
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.results import IDENTITIES, foreign
from toolbus.components.adapters import AdapterContext, with_context
from toolbus.errors import LawBroken
from toolbus.events.catalogue import (
    TOOL_CALL_BEFORE,
    Ask,
    Deny,
    ObserveEvent,
    Scope,
    ToolSpec,
    TransformEvent,
)
from toolbus.events.subjects import ToolSelector, tool_of
from toolbus.events.verdicts import NO_PROMPT, NO_REASON
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, MAX_DEPTH
from toolbus.messages.records import TextPart, ToolCall, ToolResponse
from toolbus.testing.drawing import HOSTILE_TEXTS
from toolbus.testing.questions import Questions
from toolbus.testing.situations import (
    Situation,
    hostile_situations,
    saying,
    situations,
    situations_with,
)
from toolbus.testing.trials import Abandoned, Invocation, differ, misfit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from hypothesis.strategies import SearchStrategy

    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import Event
    from toolbus.testing.laws import LawName
    from toolbus.testing.situations import Cases
    from toolbus.testing.trials import Trial

    Draw = Callable[[SearchStrategy[Any]], Any]

CHECKED = Scope(agent_id="checked", session_id="checked")
"""Who speaks in a check."""


def _judge_change(
    trial: Trial, invocation: Invocation, change: tuple[Any, Any], fields: tuple[str, ...], of: str
) -> None:
    """Judge *change*, a value before and after: *fields* stay, all stays of a value *of* others."""
    old, new = change
    case = {**invocation.inputs, "returned": new}
    for field in fields:
        before, after = getattr(old, field, None), getattr(new, field, None)
        if before != after:
            problem = f"{invocation.name} changed the {field}: {before!r} → {after!r}"
            trial.broken("keeps-identity", problem, case)
    if of and differ(old, new):
        trial.broken("leaves-others-alone", f"{invocation.name} changed {of}", case)


class AdapterExam:
    """Examines *adapter*, as it runs for the tools of *selector*, and judges it in *trial*."""

    def __init__(
        self,
        adapter: ToolAdapter,
        selector: ToolSelector,
        cases: Cases,
        trial: Trial,
        *,
        idempotent: bool,
    ) -> None:
        self._adapter, self._selector = adapter, selector
        self._cases, self._trial, self._idempotent = cases, trial, idempotent
        # The signature of a method is looked at once, and not for each case.
        self._methods = {
            name: with_context(getattr(adapter, name))
            for name in ("adapt_signature", "adapt_parameters", "adapt_response")
        }

    def examine(self, draw: Draw) -> None:
        """Send a tool's signature, a call and a response past the adapter, sometimes two."""
        cases, spec = self._cases, draw(self._cases.specs)
        if not self._is_for(spec):
            return
        published = self._signature(spec)
        call = draw(cases.calls(published))
        self._parameters(spec, published, call)
        first = self._respond(spec, published, draw(cases.responses(spec, call)), call)
        if draw(cases.sometimes):
            self._respond(spec, published, draw(cases.responses(spec, call)), call)
            self._trial.compare(*first, after="after another response")
        if draw(cases.sometimes):
            self._parameters(spec, published, draw(cases.nonsense(published)))

    def corners(self) -> None:
        """Send what hypothesis may not hit past the adapter: each hostile text, in each place."""
        responses = [ToolResponse(), ToolResponse(structured=_nested()), _many_parts()]
        for response in [*responses, *map(_saying, HOSTILE_TEXTS)]:
            with suppress(Abandoned):
                self._corner(response)

    def _corner(self, response: ToolResponse) -> None:
        spec = self._cases.some_spec(output=response.structured)
        if not self._is_for(spec):
            return
        published = self._signature(spec)
        call = ToolCall(id="call-1", name=spec.name, arguments=saying(published, response.text))
        if self._cases.given_calls is None:
            self._parameters(spec, published, call)
        if self._cases.given_responses is None:
            stamped = replace(response, tool_name=spec.name, tool_call_id=call.id)
            self._respond(spec, published, stamped, call)

    def _is_for(self, spec: ToolSpec) -> bool:
        """Return whether the adapter is called for the tool *spec*."""
        inputs, should_adapt = {"tool": spec}, self._adapter.should_adapt
        invocation = Invocation("should_adapt", lambda: should_adapt(spec.name), inputs)

        def judge(result: object) -> None:
            if not isinstance(result, bool):
                problem = f"should_adapt returned `{type(result).__name__}` instead of `bool`"
                self._trial.broken("right-type", problem, {**inputs, "returned": result})

        if not self._selector.matches(spec.name):
            return False
        return bool(self._trial.perform(invocation, judge))

    def _signature(self, spec: ToolSpec) -> ToolSpec:
        def judge(result: Any) -> None:
            for schema in (result.input_schema, result.output_schema or EMPTY) if result else ():
                if flaw := schemas.check_schema(schema):
                    problem = f"adapt_signature made one unsound: {flaw}"
                    self._trial.fatal("sound-schema", problem, {"tool": spec, "published": result})

        _, result = self._adapt("adapt_signature", spec, {"tool": spec}, ("name",), judge)
        return spec if result is None else result

    def _parameters(self, spec: ToolSpec, published: ToolSpec, call: ToolCall) -> None:
        inputs = {"tool": spec, "call": call}

        def judge(result: Any) -> None:
            problem = misfit(spec, call if result is None else result)
            if problem and misfit(published, call) is None:
                case = {**inputs, "published": published, "returned": result}
                self._trial.broken("arguments-fit", f"the arguments do not: {problem}", case)

        self._adapt("adapt_parameters", published, inputs, ("id", "name"), judge, call)

    def _respond(
        self, spec: ToolSpec, published: ToolSpec, response: ToolResponse, call: ToolCall
    ) -> tuple[Invocation, Any]:
        # As it is rebuilt from a message, where a response may have lost its parameters.
        rebuilt = replace(call, arguments=response.parameters or EMPTY)
        inputs = {"tool": spec, "response": response, "call": rebuilt}

        def judge(result: Any) -> None:
            answer = response if result is None else result
            # As the lifecycle has it: what fits the tool's own schema is well, too.
            problem = misfit(published, answer) and misfit(spec, answer)
            if problem and misfit(spec, response) is None:
                case = {**inputs, "published": published, "returned": result}
                self._trial.broken("result-fits", f"`structured` does not: {problem}", case)

        identity = ("tool_name", "tool_call_id")
        return self._adapt("adapt_response", spec, inputs, identity, judge, response, rebuilt)

    def _adapt(
        self,
        name: str,
        spec: ToolSpec,
        inputs: dict[str, Any],
        identity: tuple[str, ...],
        judge: Callable[[Any], None],
        *values: Any,
    ) -> tuple[Invocation, Any]:
        """Return what the method *name* makes of the first of *values*, for the tool *spec*."""
        method, ctx = self._methods[name], AdapterContext(CHECKED, spec)
        old, *others = values or (spec,)
        invocation = Invocation(name, lambda: method(old, *others, ctx=ctx), inputs)
        is_named = self._cases.is_named(spec.name)
        of = "" if is_named else f"{spec.name!r}, which is not among its tools"

        def judge_all(result: Any) -> None:
            if result is not None and type(result) is not type(old):
                kind, wanted = type(result).__name__, type(old).__name__
                problem = f"{name} returned `{kind}` instead of `{wanted}`"
                self._trial.fatal("right-type", problem, {**inputs, "returned": result})
            if result is not None:
                _judge_change(self._trial, invocation, (old, result), identity, of)
            judge(result)

        result = self._trial.perform(invocation, judge_all)
        if self._idempotent and result is not None:
            again = invocation._replace(run=lambda: method(result, *others, ctx=ctx))
            self._trial.repeat(again, result)
        return invocation, result


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


class Subject(NamedTuple):
    """A handler of *event*; *when* is its predicate, *component* the component of the method.

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
    """Examines the handler that *subject* is with values of its event, and judges it in *trial*.

    *values* replace what is drawn, if given.
    """

    def __init__(
        self,
        subject: Subject,
        claims: Claims,
        cases: Cases,
        trial: Trial,
        values: SearchStrategy[Any] | None = None,
    ) -> None:
        self._subject, self._claims, self._cases, self._trial = subject, claims, cases, trial
        self._is_free = values is None
        self._situations = (
            situations(subject.event, cases) if values is None else situations_with(values)
        )
        # Calls of tools that are made up get the arguments that the handler asks for.
        self._asks = values is None and not cases.tools
        self._questions = Questions()
        self._shown, self._reached, self._has_spoken = 0, 0, False

    def examine(self, draw: Draw) -> None:
        """Show the handler one value, sometimes another one, and the first one again."""
        # First, so that hypothesis keeps them while it makes the rest smaller.
        answers = draw(self._cases.answers) if self._asks else ()
        first = self._show(draw(self._situations), answers)
        if first is not None and draw(self._cases.sometimes):
            self._show(draw(self._situations))
            self._trial.compare(*first, after="after another value")

    def corners(self) -> None:
        """Show the handler what hypothesis may not hit, and see that all it judges was reached."""
        for situation, answers in self._corners() if self._is_free else ():
            with suppress(Abandoned):
                self._show(situation, answers)
        if problem := self._unreached():
            self._trial.broken("is-reached", problem, {})

    def _corners(self) -> Iterator[tuple[Situation, tuple[Any, ...]]]:
        """Give each hostile text, and calls with all that the handler asks for."""
        event, spec = self._subject.event, self._cases.some_spec()
        for text in HOSTILE_TEXTS:
            for situation in hostile_situations(event, spec, text):
                yield situation, (text,) * 6 if self._asks else ()
        if event is TOOL_CALL_BEFORE and self._asks:
            for answers in self._questions.routes():
                arguments = {"text": "a"}  # Some handlers ask none of a call without arguments.
                yield Situation(ToolCall(id="call-1", name=spec.name, arguments=arguments)), answers

    def _unreached(self) -> str | None:
        """Return what no case reached; only the predicate counts unless cases were drawn freely."""
        if not self._reached:
            return f"its predicate let none of {self._shown} cases pass"
        if not self._asks:
            return None
        if unanswered := self._questions.unanswered:
            return f"no case reached `{unanswered[0]}`"
        judges_calls = self._subject.is_guard and self._subject.event is TOOL_CALL_BEFORE
        if judges_calls and not self._questions.missed and not self._has_spoken:
            return f"it let all {self._reached} cases pass and asked for no argument of theirs"
        return None

    def _show(
        self, situation: Situation, answers: tuple[Any, ...] = ()
    ) -> tuple[Invocation, Any] | None:
        """Return what the handler made of *situation*, None if its predicate left that out.

        A call has *answers* where the handler asks for more than it has.
        """
        self._shown += 1
        value = situation.value
        if answers:
            rehearse = partial(self._rehearse, situation)
            value = self._questions.answer(value, answers, rehearse)
        plain = situation._replace(value=value)
        situation = situation._replace(value=self._questions.attach(value))
        if not self._trial.perform(self._predicate(situation), lambda _: None):
            return None
        invocation = self._invocation(situation)

        def judge(result: Any) -> None:
            if self._subject.is_guard:
                self._judge_verdict(invocation, result)
            else:
                self._judge(invocation, plain, result)

        self._reached += 1
        result = self._trial.perform(invocation, judge)
        self._has_spoken |= result is not None
        if self._claims.idempotent and self._is_replacement(result):
            again = self._invocation(situation._replace(value=result))
            self._trial.repeat(again._replace(inputs=invocation.inputs), result)
        return invocation, result

    def _rehearse(self, situation: Situation, value: Any) -> None:
        """Let the handler ask *value* for arguments, without judging it."""
        asking = situation._replace(value=value)
        with suppress(Abandoned, LawBroken):
            if self._trial.once(self._predicate(asking)):
                self._trial.once(self._invocation(asking))

    def _predicate(self, situation: Situation) -> Invocation:
        when, context = self._subject.when, self._context
        return Invocation(
            "its predicate",
            lambda: when is None or bool(when(context(situation))),
            {"value": situation.value},
        )

    def _invocation(self, situation: Situation) -> Invocation:
        handler = self._subject.handler

        def run() -> Any:
            context = self._context(situation)
            returned = handler(context)
            if isawaitable(returned):
                return _awaited(returned, context)
            return _result(returned, context)

        return Invocation(self._subject.name, run, {"value": situation.value})

    def _context(self, situation: Situation) -> EventContext[Any]:
        event, scope = self._subject.event, situation.scope
        return EventContext(event, situation.value, scope=scope, tool=situation.tool)

    def _judge_verdict(self, invocation: Invocation, result: Any) -> None:
        event, name = self._subject.event, invocation.name
        case = {**invocation.inputs, "returned": result}
        match result:
            case None:
                return
            case Ask() if isinstance(event, TransformEvent) and not event.asks:
                problem = f"{name} asked, and {event.name} lets nobody ask: it would deny"
                self._trial.broken("right-type", problem, case)
            case Ask(prompt=text) | Deny(reason=text):
                self._says_why(invocation, text, case)
            case _ if isinstance(event, TransformEvent) and event.accepts(result):
                problem = f"{name} gave another value; a guard's is never used"
                self._trial.fatal("judges-only", problem, case)
            case _:
                kind = type(result).__name__
                problem = f"{name} returned `{kind}` instead of `Deny`, `Ask` or None"
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
            if problem := foreign(event, result):
                self._trial.fatal("right-type", f"{invocation.name} {problem}", case)
            self._judge_replacement(invocation, situation, result)

    def _judge_replacement(self, invocation: Invocation, situation: Situation, new: Any) -> None:
        old, tool = situation.value, situation.tool
        identity = IDENTITIES.get(type(old), ())
        if identity and type(new) is not type(old):
            identity = ("role", *identity)
        _judge_change(self._trial, invocation, (old, new), identity, self._others(old))
        if tool is not None and misfit(tool, old) is None and (problem := misfit(tool, new)):
            law: LawName = "arguments-fit" if isinstance(new, ToolCall) else "result-fits"
            case = {"tool": tool, **invocation.inputs, "returned": new}
            self._trial.broken(law, f"what fitted the tool does no longer: {problem}", case)

    def _others(self, value: Any) -> str:
        """Return what *value* is about if the handler is not for that, else an empty text."""
        role, name = getattr(value, "role", None), tool_of(value)
        if self._claims.roles is not None and role is not None and role not in self._claims.roles:
            return f"a message of the role {role!r}"
        if name is not None and not self._claims.tools.matches(name):
            return f"something of {name!r}, which is not its tool"
        return ""

    def _is_replacement(self, result: Any) -> bool:
        event = self._subject.event
        return isinstance(event, TransformEvent) and event.accepts(result)


def _result(returned: Any, context: EventContext[Any]) -> Any:
    """Return what a handler left: what it assigned counts, unless it returned something."""
    return context.output if returned is None else returned


async def _awaited(returned: Awaitable[Any], context: EventContext[Any]) -> Any:
    return _result(await returned, context)
