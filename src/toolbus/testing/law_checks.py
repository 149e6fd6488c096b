"""The checks of adapters and handlers: each applies one to cases, and verifies the laws."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.bus.dispatch.callables import name_of
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.results import IDENTITIES, value_problem
from toolbus.components.adapters import AdapterContext, asks_for_context
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
from toolbus.testing.argument_lookups import ANSWERS, ArgumentLookups
from toolbus.testing.cases import (
    CALLS,
    HandlerCase,
    cases_with,
    handler_cases,
    hostile_cases,
    saying,
)
from toolbus.testing.law_verifier import Invocation, NoResult, differ, schema_problem
from toolbus.testing.text_strategies import HOSTILE_TEXTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from hypothesis.strategies import SearchStrategy

    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import Event
    from toolbus.testing.argument_lookups import Path
    from toolbus.testing.case_search import Draw
    from toolbus.testing.cases import Cases
    from toolbus.testing.law_verifier import Breaches, LawVerifier
    from toolbus.testing.laws import LawName

CHECKED = Scope(agent_id="checked", session_id="checked")
"""The scope of events in a check."""
# The limit for a handler that looks up ever deeper or ever new arguments.
_MOST_ROUTES = 2_000
_NO_REASONS = frozenset({"", NO_REASON, NO_PROMPT})


class AdapterCheck:
    """The check of *adapter*, for the tools of *selector*, by *verifier*."""

    def __init__(
        self,
        adapter: ToolAdapter,
        selector: ToolSelector,
        cases: Cases,
        verifier: LawVerifier,
        *,
        idempotent: bool,
    ) -> None:
        self._adapter, self._selector = adapter, selector
        self._cases, self._verifier, self._idempotent = cases, verifier, idempotent
        # The signature of each method is inspected once, and not for each case.
        self._methods = {
            name: _with_context(getattr(adapter, name))
            for name in ("adapt_signature", "adapt_parameters", "adapt_response")
        }

    def examine(self, draw: Draw) -> None:
        """Apply the adapter to a tool's signature, a call and a response, sometimes to two."""
        cases, spec = self._cases, draw(self._cases.specs)
        if not self._is_for(spec):
            return
        published = self._signature(spec)
        call = draw(cases.calls(published))
        self._parameters(spec, published, call)
        first = self._respond(spec, published, draw(cases.responses(spec, call)), call)
        if draw(cases.sometimes):
            self._respond(spec, published, draw(cases.responses(spec, call)), call)
            self._verifier.compare(*first, after="after another response")
        if draw(cases.sometimes):
            self._parameters(spec, published, draw(cases.nonsense(published)))

    def check_edge_cases(self) -> None:
        """Apply the adapter to cases that hypothesis may miss: each hostile text, in each place."""
        nested: Any = "deep"
        for _ in range(MAX_DEPTH // 2 - 1):
            nested = {"a": [nested]}
        many = ToolResponse(content=(TextPart(text="a"),) * 1_000)
        responses = [ToolResponse(), ToolResponse(structured=nested), many]
        for text in HOSTILE_TEXTS:
            structured = {"said": text, text[:1_000]: [text]}
            responses.append(ToolResponse(content=(TextPart(text=text),), structured=structured))
        for response in responses:
            with suppress(NoResult):
                self._check_edge_case(response)

    def _check_edge_case(self, response: ToolResponse) -> None:
        """Apply the adapter to *response*, and to a call with the same text."""
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
        """Return whether the adapter applies to the tool *spec*."""
        should_adapt = self._adapter.should_adapt

        def judge(result: object) -> Breaches:
            if not isinstance(result, bool):
                yield "right-type", f"returned `{type(result).__name__}` instead of `bool`"

        asked = Invocation("should_adapt", lambda: should_adapt(spec.name), {"tool": spec})
        is_chosen = self._selector.matches(spec.name)
        return is_chosen and bool(self._verifier.perform(asked, judge))

    def _signature(self, spec: ToolSpec) -> ToolSpec:
        def judge(result: ToolSpec | None) -> Breaches:
            for schema in (result.input_schema, result.output_schema or EMPTY) if result else ():
                if flaw := schemas.check_schema(schema):
                    yield "valid-schema", f"returned an invalid schema: {flaw}"

        _, result = self._adapt("adapt_signature", spec, {"tool": spec}, judge, spec)
        return spec if result is None else result

    def _parameters(self, spec: ToolSpec, published: ToolSpec, call: ToolCall) -> None:
        def judge(result: ToolCall | None) -> Breaches:
            problem = schema_problem(spec, call if result is None else result)
            if problem and schema_problem(published, call) is None:
                yield "arguments-fit", f"returned invalid arguments: {problem}"

        inputs = {"tool": spec, "call": call}
        if published is not spec:
            inputs["published"] = published
        self._adapt("adapt_parameters", published, inputs, judge, call)

    def _respond(
        self, spec: ToolSpec, published: ToolSpec, response: ToolResponse, call: ToolCall
    ) -> tuple[Invocation, Any]:
        def judge(result: ToolResponse | None) -> Breaches:
            answer = response if result is None else result
            # As in the lifecycle of a call: a result for the tool's own schema is valid, too.
            problem = schema_problem(published, answer) and schema_problem(spec, answer)
            if problem and schema_problem(spec, response) is None:
                yield "result-fits", f"returned an invalid `structured`: {problem}"

        # As rebuilt from a message, whose response may have lost its parameters.
        rebuilt = replace(call, arguments=response.parameters or EMPTY)
        inputs = {"tool": spec, "response": response, "call": rebuilt}
        return self._adapt("adapt_response", spec, inputs, judge, response, rebuilt)

    def _adapt(
        self,
        name: str,
        spec: ToolSpec,
        inputs: dict[str, Any],
        judge: Callable[[Any], Breaches],
        *values: Any,
    ) -> tuple[Invocation, Any]:
        """Return the invocation of the method *name* on *values*, and its result."""
        method, ctx = self._methods[name], AdapterContext(CHECKED, spec)
        old, *others = values
        is_response = isinstance(old, ToolResponse)
        identity = ("tool_name", "tool_call_id") if is_response else ("id", "name")
        is_named = self._cases.is_named(spec.name)
        of = "" if is_named else f"{spec.name!r}, which is not among its tools"

        def judge_all(result: Any) -> Breaches:
            if result is not None and type(result) is not type(old):
                kind, wanted = type(result).__name__, type(old).__name__
                yield "right-type", f"returned `{kind}` instead of `{wanted}`"
            if result is not None:
                yield from _changes(old, result, identity, of)
            yield from judge(result)

        invocation = Invocation(name, lambda: method(old, *others, ctx=ctx), inputs)
        result = self._verifier.perform(invocation, judge_all)
        if self._idempotent and result is not None:
            again = invocation._replace(run=lambda: method(result, *others, ctx=ctx))
            self._verifier.repeat(again, result)
        return invocation, result


class Subject(NamedTuple):
    """A handler of *event*; *when* is its predicate, *component* the component of the method.

    *patterns* are the glob patterns of the tools that it applies to. Its author claims that it
    changes only values about *tools* and of *roles*, and that it is *idempotent*.
    """

    event: Event
    handler: Callable[[EventContext[Any]], Any]
    is_guard: bool
    when: Callable[[EventContext[Any]], bool] = lambda _: True
    component: AgentComponent | None = None
    patterns: tuple[str, ...] = ("*",)
    tools: ToolSelector = ToolSelector("*")
    roles: frozenset[str] | None = None
    idempotent: bool = False

    @property
    def name(self) -> str:
        """The name of the handler for people."""
        return name_of(self.handler)


class HandlerCheck:
    """The check of the handler *subject* with values of its event, by *verifier*.

    *values* replace the default strategy, if given.
    """

    def __init__(
        self,
        subject: Subject,
        cases: Cases,
        verifier: LawVerifier,
        values: SearchStrategy[Any] | None = None,
    ) -> None:
        self._subject, self._cases, self._verifier = subject, cases, verifier
        drawn = handler_cases(subject.event, cases) if values is None else cases_with(values)
        self._handler_cases, self._is_free = drawn, values is None
        # Calls of made-up tools get the arguments that the handler looks up.
        self._asks = values is None and not cases.tools and subject.event in CALLS
        self._lookups = ArgumentLookups()
        self._shown, self._reached, self._has_spoken = 0, 0, False

    def examine(self, draw: Draw) -> None:
        """Apply the handler to a value, sometimes to another one, and to the first one again."""
        # Drawn first, so that hypothesis keeps them while it shrinks the rest.
        answers = draw(self._cases.answers) if self._asks else ()
        first = self._show(draw(self._handler_cases), answers)
        if first is not None and draw(self._cases.sometimes):
            self._show(draw(self._handler_cases))
            self._verifier.compare(*first, after="after another value")

    def check_edge_cases(self) -> None:
        """Apply the handler to cases that hypothesis may miss, and check that it was reached."""
        event, spec = self._subject.event, self._cases.some_spec()
        for text in HOSTILE_TEXTS if self._is_free else ():
            for case in hostile_cases(event, spec, text):
                with suppress(NoResult):
                    self._show(case, (text,) * 6 if self._asks else ())
        if event is TOOL_CALL_BEFORE and self._asks:
            # Some handlers look up nothing in a call without arguments.
            call = ToolCall(id="call-1", name=spec.name, arguments={"text": "a"})
            self._answer_all(HandlerCase(call))
        if problem := self._unreached():
            examined = Invocation(self._subject.name, lambda: None, {})
            self._verifier.broken("is-reached", examined, problem)

    def _answer_all(self, case: HandlerCase) -> None:
        """Apply the handler to calls with values of each type for each argument it looks up."""
        routes: list[tuple[Any, ...]] = [()]
        followed: set[Path] = set()
        for route in routes:
            value, asked = self._answered(case, route)
            with suppress(NoResult):
                self._show(case._replace(value=value))
            # The next lookup after these answers.
            path = next(iter(asked[len(route) :]), None)
            if path is not None and path not in followed and len(routes) < _MOST_ROUTES:
                followed.add(path)
                routes += [(*route, answer) for answer in ANSWERS]

    def _unreached(self) -> str | None:
        """Return the problem if code was not reached; given values can miss only the predicate."""
        if not self._reached:
            return f"has a predicate that accepted none of {self._shown} cases"
        if not self._asks:
            return None
        if unanswered := self._lookups.unanswered:
            return f"looked up `{unanswered[0]}`, which no case has"
        judges_calls = self._subject.is_guard and self._subject.event is TOOL_CALL_BEFORE
        if judges_calls and not self._lookups.missed and not self._has_spoken:
            return f"let all {self._reached} cases pass and looked up no argument"
        return None

    def _show(
        self, case: HandlerCase, answers: tuple[Any, ...] = ()
    ) -> tuple[Invocation, Any] | None:
        """Return the invocation on *case* and its result, None if the predicate rejects it.

        Missing arguments that the handler looks up get *answers*.
        """
        self._shown += 1
        value = self._answered(case, answers)[0] if answers else case.value
        noted = case._replace(value=self._lookups.attach(value))
        if not self._verifier.perform(self._predicate(noted)):
            return None
        self._reached += 1
        invocation = self._invocation(noted)
        is_guard, outcome = self._subject.is_guard, partial(self._outcome, case.tool, value)
        result = self._verifier.perform(invocation, self._verdict if is_guard else outcome)
        self._has_spoken |= result is not None
        if self._subject.idempotent and self._is_replacement(result):
            again = self._invocation(case._replace(value=result))
            self._verifier.repeat(again._replace(inputs=invocation.inputs), result)
        return invocation, result

    def _answered(self, case: HandlerCase, answers: Iterable[Any]) -> tuple[Any, list[Path]]:
        """Return the value with *answers* to the handler's lookups, and the missed lookups."""
        lookups = ArgumentLookups(answers)
        asking = case._replace(value=lookups.attach(case.value))
        with suppress(NoResult, LawBroken):
            if self._verifier.once(self._predicate(asking)):
                self._verifier.once(self._invocation(asking))
        self._lookups.missed.update(lookups.missed)
        return lookups.chosen(asking.value), list(lookups.missed)

    def _predicate(self, case: HandlerCase) -> Invocation:
        when, inputs = self._subject.when, {"value": case.value}
        return Invocation("its predicate", lambda: bool(when(self._context(case))), inputs)

    def _invocation(self, case: HandlerCase) -> Invocation:
        def run() -> Any:
            context = self._context(case)
            returned = self._subject.handler(context)
            waits = isawaitable(returned)
            return _awaited(returned, context) if waits else _result(returned, context)

        return Invocation(self._subject.name, run, {"value": case.value})

    def _context(self, case: HandlerCase) -> EventContext[Any]:
        event, scope = self._subject.event, case.scope
        return EventContext(event, case.value, scope=scope, tool=case.tool)

    def _verdict(self, result: Any) -> Breaches:
        """Yield the breaches in the *result* of a guard."""
        event = self._subject.event
        match result:
            case None:
                return
            case Ask() if isinstance(event, TransformEvent) and not event.asks:
                yield "right-type", f"returned `Ask`, which {event.name} treats as a denial"
            case Ask(prompt=text) | Deny(reason=text):
                if text.strip() in _NO_REASONS:
                    yield "says-why", "returned a verdict without a text"
            case _ if self._is_replacement(result):
                yield "judges-only", "returned a new value, which is ignored for a guard"
            case _:
                kind = type(result).__name__
                yield "right-type", f"returned `{kind}` instead of `Deny`, `Ask` or None"

    def _outcome(self, tool: ToolSpec | None, old: Any, result: Any) -> Breaches:
        """Yield the breaches in the *result* of any other handler of *old*, a value of *tool*."""
        event = self._subject.event
        if isinstance(event, ObserveEvent):
            if result is not None:
                yield "right-type", f"returned `{type(result).__name__}`, which is ignored"
        elif isinstance(result, Deny):
            yield from self._verdict(result)
        elif result is not None and not isinstance(result, event.answer):
            if problem := value_problem(event, result):
                yield "right-type", problem
            yield from self._replacement(tool, old, result)

    def _replacement(self, tool: ToolSpec | None, old: Any, new: Any) -> Breaches:
        identity = IDENTITIES.get(type(old), ())
        if identity and type(new) is not type(old):
            identity = ("role", *identity)
        yield from _changes(old, new, identity, self._others(old))
        if (
            tool is not None
            and schema_problem(tool, old) is None
            and (flaw := schema_problem(tool, new))
        ):
            law: LawName = "arguments-fit" if isinstance(new, ToolCall) else "result-fits"
            yield law, f"made a valid value invalid for the tool: {flaw}"

    def _others(self, value: Any) -> str:
        """Return a description of *value* if the handler must not change it, else ""."""
        role, name, claimed = getattr(value, "role", None), tool_of(value), self._subject
        if claimed.roles is not None and role is not None and role not in claimed.roles:
            return f"a message of the role {role!r}"
        if name is not None and not claimed.tools.matches(name):
            return f"a value of {name!r}, which is not its tool"
        return ""

    def _is_replacement(self, result: Any) -> bool:
        event = self._subject.event
        return isinstance(event, TransformEvent) and event.accepts(result)


def _with_context(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return *method* of an adapter, wrapped to accept `ctx` if it has no such parameter."""
    if asks_for_context(method):
        return method

    def without(*arguments: object, ctx: AdapterContext) -> Any:  # noqa: ARG001 - it did not ask
        return method(*arguments)

    return without


def _changes(old: Any, new: Any, identity: tuple[str, ...], of: str) -> Breaches:
    """Yield the changed fields of *identity*, and a change of a value *of* other tools or roles."""
    for field in identity:
        before, after = getattr(old, field, None), getattr(new, field, None)
        if before != after:
            yield "keeps-identity", f"changed the {field}: {before!r} → {after!r}"
    if of and differ(old, new):
        yield "leaves-others-alone", f"changed {of}"


def _result(returned: Any, context: EventContext[Any]) -> Any:
    """Return the *returned* value of a handler, else the output that it assigned."""
    return context.output if returned is None else returned


async def _awaited(returned: Awaitable[Any], context: EventContext[Any]) -> Any:
    return _result(await returned, context)
