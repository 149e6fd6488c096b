"""The differences of two sessions: steps of both or of one, in order, and the figures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Struct, json

from toolbus.history.alignment import align
from toolbus.history.session_figures import ComparedSession, figures_of
from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.settings.differences import Difference, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.history.timeline import CallEntry, MessageEntry, Timeline

_ASPECTS = {
    **dict.fromkeys(("arguments", "executed"), "arguments"),
    **dict.fromkeys(("status", "reason", "by"), "verdict"),
    **dict.fromkeys(("result", "structured"), "result"),
}
"""By fact of a call the aspect that it belongs to."""


class SessionStep(Struct, frozen=True, kw_only=True):
    """A call, or a message with text; *facts* are the compared values by name.

    *kind* is "call", the role of a message, "refused" or "damaged".
    """

    kind: str
    id: str
    turn: int
    facts: dict[str, Any]
    duration_ns: int = 0


class StepPair(Struct, frozen=True, kw_only=True):
    """A step of both sessions, or of one; *aspects* are the kinds of its differences."""

    outcome: Literal["same", "changed", "first", "second"]
    first: SessionStep | None
    second: SessionStep | None
    aspects: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()


class SessionComparison(Struct, frozen=True, kw_only=True):
    """Two sessions side by side; *counts* are the numbers of pairs by outcome."""

    first: ComparedSession
    second: ComparedSession
    counts: dict[str, int]
    pairs: tuple[StepPair, ...]

    @property
    def is_same(self) -> bool:
        """Whether no step differs; time and tokens may."""
        return self.counts.keys() <= {"same"}


def compare_sessions(
    first: Timeline, second: Timeline, even: Callable[[str], str] = str
) -> SessionComparison:
    """Return the differences of two whole timelines.

    *even* makes texts alike that differ in any two sessions, such as placeholders.
    """
    sides = olds, news = [list(_steps(first)), list(_steps(second))]
    exact = [[_key(step, even) for step in side] for side in sides]
    loose = [[(step.kind, step.facts.get("tool")) for step in side] for side in sides]
    pairs = [
        _pair(None if old is None else olds[old], None if new is None else news[new], even)
        for old, new in align(exact, loose)
    ]
    return SessionComparison(
        first=figures_of(first),
        second=figures_of(second),
        counts=dict(Counter[str]([pair.outcome for pair in pairs])),
        pairs=tuple(pairs),
    )


def _steps(timeline: Timeline) -> Iterator[SessionStep]:
    """Yield the steps of a session in order: each message with text, then its calls."""
    for turn in timeline.turns:
        for entry in turn.messages:
            kind, texts = _message_facts(entry)
            steps = [(kind, entry.id, texts, entry.duration_ns)] if any(texts.values()) else []
            steps += [
                ("call", each.id, _call_facts(each), each.duration_ns) for each in entry.calls
            ]
            for kind, name, facts, took_ns in steps:
                yield SessionStep(
                    kind=kind, id=name, turn=turn.number, facts=facts, duration_ns=took_ns
                )


def _message_facts(entry: MessageEntry) -> tuple[str, dict[str, Any]]:
    """Return the kind of *entry*, and the compared values by name."""
    match entry.message:
        case None if entry.damage:
            return "damaged", {"text": entry.damage}
        case None:
            ends = [each for each in entry.dispatches if each.outcome in {"denied", "rejected"}]
            return "refused", {each.event: each.reason or each.outcome for each in ends}
        case AssistantMessage() as message:
            reasoning = {"reasoning": message.reasoning_text} if message.reasoning_text else {}
            return message.role, {"text": message.text, **reasoning}
        case message:
            return message.role, {"text": message.text}


def _call_facts(call: CallEntry) -> dict[str, Any]:
    """Return the compared values of *call* by name, in the order of a report."""
    requested, executed = call.requested, call.executed
    facts: dict[str, Any] = {"tool": call.tool}
    if requested is not None:
        facts["arguments"] = requested.arguments if requested.raw is None else requested.raw
    if executed is not None and executed.arguments != facts.get("arguments"):
        facts["executed"] = executed.arguments
    facts |= {"status": call.status, "reason": call.reason, "by": call.by}
    answer = call.answer.message if call.answer else None
    return facts | _result_facts(answer, call.reason) if isinstance(answer, ToolMessage) else facts


def _result_facts(answer: ToolMessage, reason: str) -> dict[str, Any]:
    """Return the compared values of the result of a call; its *reason* is compared already."""
    response = answer.tool_response
    if response is None or response.structured is None:
        return {} if answer.text == reason else {"result": answer.text}
    text = {"result": answer.text} if response.content else {}
    return {"structured": response.structured, **text}


def _pair(
    first: SessionStep | None, second: SessionStep | None, even: Callable[[str], str]
) -> StepPair:
    """Return the pair of two aligned steps, or of a step of one session."""
    if first is None or second is None:
        return StepPair(outcome="second" if first is None else "first", first=first, second=second)
    aspects, changes = dict[str, None](), list[Difference]()
    for name in {**first.facts, **second.facts}:
        old, new = first.facts.get(name, UNSET), second.facts.get(name, UNSET)
        if inner := [each for each in differences(old, new, name) if _counts(each, even)]:
            aspects[_ASPECTS.get(name, name)] = None
            changes += inner
    return StepPair(
        outcome="changed" if changes else "same",
        first=first,
        second=second,
        aspects=tuple(aspects),
        differences=tuple(changes),
    )


def _counts(difference: Difference, even: Callable[[str], str]) -> bool:
    """Return whether the values of *difference* differ after *even*."""
    if difference.before is UNSET or difference.after is UNSET:
        return True
    old, new = (json.encode(each).decode() for each in (difference.before, difference.after))
    return even(old) != even(new)


def _key(step: SessionStep, even: Callable[[str], str]) -> tuple[str, str]:
    """Return the key that steps share whose texts, or tools and arguments, are equal."""
    names = ("tool", "arguments") if step.kind == "call" else tuple(step.facts)
    compared = [step.facts.get(name) for name in names]
    return step.kind, even(json.encode(compared, order="sorted").decode())
