"""The laws for handlers and adapters, each with advice for a breach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from toolbus.errors import LawBroken
from toolbus.testing.value_text import describe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LawName = Literal[
    "raises-nothing",
    "ends",
    "right-type",
    "keeps-identity",
    "leaves-others-alone",
    "changes-nothing-given",
    "repeatable",
    "idempotent",
    "valid-schema",
    "arguments-fit",
    "result-fits",
    "judges-only",
    "says-why",
    "touches-no-globals",
    "is-reached",
]


class Law(NamedTuple):
    """A law's promise, and the advice for a breach."""

    promise: str
    advice: str


LAWS: dict[LawName, Law] = {
    "raises-nothing": Law(
        "it never raises",
        "handle the case; a failing adapter or guard denies calls that it should pass",
    ),
    "ends": Law(
        "it ends in time",
        "bound its work: no pattern with nested repeats, no loop or wait without a limit; if this "
        "is acceptable, give the check a higher `limit`",
    ),
    "right-type": Law(
        "it returns a value of the event's or method's type, or None for no change",
        "return None, or a value of the type in its signature",
    ),
    "keeps-identity": Law(
        "ids, role and tool name stay",
        "derive the result from the input: `response.map_text`, `response.with_text`, "
        "`call.merge_arguments` and `msgspec.structs.replace` keep the rest",
    ),
    "leaves-others-alone": Law(
        "it changes only its own tools and roles",
        "make `should_adapt` agree with `tools`, and return None for other tools and roles",
    ),
    "changes-nothing-given": Law(
        "it returns a new record and never changes its input",
        "build a new record; `thaw()` gives a mutable copy of a JSON value",
    ),
    "repeatable": Law(
        "the same value gives the same result",
        "decide by the value only: no clock, no random numbers, no count of earlier calls; if it "
        "needs state, exclude this law from the check: `without=['repeatable']`",
    ),
    "idempotent": Law(
        "a second application changes nothing",
        "return None for its own results, or do not claim `idempotent=True`",
    ),
    "valid-schema": Law(
        "the schemas that it publishes are valid",
        "publish schemas that `toolbus.messages.schemas.check_schema` accepts",
    ),
    "arguments-fit": Law(
        "valid arguments stay valid for the tool's own schema",
        "use only parameters of the tool, with their types; an adapter must undo in "
        "`adapt_parameters` the changes of `adapt_signature`",
    ),
    "result-fits": Law(
        "a valid structured result stays valid for the output schema",
        "change the output schema in `adapt_signature` as well, or drop `structured` with "
        "`response.with_text`",
    ),
    "judges-only": Law(
        "a guard judges and changes nothing",
        "return `Deny`, `Ask` or None; subscribe a handler that rewrites with `on`",
    ),
    "says-why": Law(
        "a verdict has a reason",
        "give `Deny` and `Ask` a text, for the model or the approver",
    ),
    "touches-no-globals": Law(
        "it changes no global state",
        "use its own `random.Random()`, and pass settings instead of changing the environment",
    ),
    "is-reached": Law(
        "some case reaches its code",
        "give `tools=[…]`, the tools that it applies to, or `values=…`; if this is intended, "
        "exclude this law from the check: `without=['is-reached']`",
    ),
}


def breach(
    law: LawName, subject: str, problem: str, case: Mapping[str, object], note: str = ""
) -> LawBroken:
    """Return the error for a breach of *law* by *subject*, with a readable report."""
    promise, advice = LAWS[law]
    width = max((len(name) for name in case), default=0)
    shown = [f"    {name:{width}}  {describe(value)}" for name, value in case.items()]
    lines = [
        f"{subject} breaks the law {law!r}: {promise}",
        f"  {problem}",
        *["  the smallest case found:"] * bool(case),
        *shown,
        f"  what to do: {advice}",
    ]
    return LawBroken(law, subject, problem, dict(case), "\n".join([*lines, *([note] * bool(note))]))


def check_names(names: Collection[str]) -> frozenset[str]:
    """Return *names* as a set; raises `ValueError` for the name of an unknown law."""
    if unknown := sorted(set(names) - LAWS.keys()):
        msg = f"unknown law {unknown[0]!r}; known: {', '.join(LAWS)}"
        raise ValueError(msg)
    return frozenset(names)
