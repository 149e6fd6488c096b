"""Check guards and other handlers: hunt for a case in which one breaks a law."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.results import mismatch
from toolbus.events.catalogue import Ask, Deny, ObserveEvent, ToolSpec, TransformEvent
from toolbus.events.subjects import tool_of
from toolbus.events.verdicts import NO_PROMPT, NO_REASON
from toolbus.messages import schemas
from toolbus.messages.records import ToolCall, ToolMessage
from toolbus.testing.trials import Abandoned, Invocation, differ

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.testing.laws import LawName
    from toolbus.testing.situations import Situation, Situations
    from toolbus.testing.subjects import Subject
    from toolbus.testing.trials import Trial


class Claims(NamedTuple):
    """What is claimed of a handler: what it is for, and whether it leaves alone what it made."""

    tools: Callable[[str], bool] = lambda _: True
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
            if problem := mismatch(event, situation.value, result):
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
            if name is not None and not claims.tools(name):
                problem = f"{invocation.name} changed something of {name!r}, which is not its tool"
                self._trial.broken("leaves-others-alone", problem, case)
        if situation.tool is not None:
            self._judge_fit(situation.tool, value, result, case)

    def _judge_fit(self, tool: ToolSpec, old: Any, new: Any, case: dict[str, Any]) -> None:
        if _misfit(tool, old) is None and (problem := _misfit(tool, new)):
            law: LawName = "arguments-fit" if isinstance(new, ToolCall) else "result-fits"
            shown = {"tool": tool, **case}
            self._trial.broken(law, f"what fitted the tool does no longer: {problem}", shown)

    def _is_replacement(self, result: Any) -> bool:
        event = self._subject.event
        return isinstance(event, TransformEvent) and event.accepts(result)


def _misfit(tool: ToolSpec, value: Any) -> str | None:
    """Return how *value*, a call or an answer of *tool*, breaks the schema that is for it."""
    match value:
        case ToolCall():
            return schemas.problem(tool.input_schema, value.arguments)
        case ToolMessage(tool_response=response) if response and tool.output_schema is not None:
            if not response.is_error and response.structured is not None:
                return schemas.problem(tool.output_schema, response.structured)
    return None
