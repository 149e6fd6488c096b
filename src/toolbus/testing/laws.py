"""The laws that handlers and adapters keep, each with what to do about a breach."""

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
    "sound-schema",
    "arguments-fit",
    "result-fits",
    "judges-only",
    "says-why",
    "touches-no-globals",
    "is-reached",
]


class Law(NamedTuple):
    """What a law asks for, and what helps who breaks it."""

    promise: str
    advice: str


LAWS: dict[LawName, Law] = {
    "raises-nothing": Law(
        "it raises for no value",
        "handle the case; a failing adapter or guard refuses what it should have passed",
    ),
    "ends": Law(
        "it ends in time",
        "bound its work: no pattern with nested repeats, no loop or wait without a limit; if it "
        "may take this long, give the check a higher `limit`",
    ),
    "right-type": Law(
        "it returns what its event or method takes, or None for no opinion",
        "return None, or a value of the type that its signature names",
    ),
    "keeps-identity": Law(
        "ids, role and tool name stay",
        "start from what you were given: `response.map_text`, `response.with_text`, "
        "`call.merge_arguments`, or `msgspec.structs.replace` keep the rest",
    ),
    "leaves-others-alone": Law(
        "it changes only what it is for",
        "let `should_adapt` agree with `tools`, and return None for other tools and roles",
    ),
    "changes-nothing-given": Law(
        "it returns another record and never changes the one that it was given",
        "build a new record; `thaw()` gives a private copy of a JSON value",
    ),
    "repeatable": Law(
        "the same value gives the same result",
        "decide by the value alone: no clock, no chance, no count of earlier calls; if it must "
        "remember, let the check leave this law out: `without=['repeatable']`",
    ),
    "idempotent": Law(
        "a second time changes nothing more",
        "leave alone what it made itself, or do not claim `idempotent=True`",
    ),
    "sound-schema": Law(
        "the schemas that it publishes are sound",
        "publish schemas that `toolbus.messages.schemas.check_schema` accepts",
    ),
    "arguments-fit": Law(
        "arguments that fitted still fit the schema that holds behind it",
        "name only parameters that the tool has, in their types; an adapter undoes in "
        "`adapt_parameters` what it changed in `adapt_signature`",
    ),
    "result-fits": Law(
        "a structured result that fitted still fits the output schema",
        "change the output schema in `adapt_signature` as well, or drop `structured` with "
        "`response.with_text`",
    ),
    "judges-only": Law(
        "a guard judges and changes nothing",
        "return `Deny`, `Ask` or None; subscribe what rewrites with `on`",
    ),
    "says-why": Law(
        "a verdict says why",
        "give `Deny` and `Ask` a text: the model, or the person who is asked, reads it",
    ),
    "touches-no-globals": Law(
        "it leaves what all share as it was",
        "use `random.Random()` of its own, and pass settings instead of changing the environment",
    ),
    "is-reached": Law(
        "some case reaches what it judges",
        "give `tools=[…]`, the tools that it is for, or `values=…`; if it is right as it is, let "
        "the check leave this law out: `without=['is-reached']`",
    ),
}


def breach(
    law: LawName, subject: str, problem: str, case: Mapping[str, object], note: str = ""
) -> LawBroken:
    """Return the error for a breach of *law* by *subject*, with a report for people."""
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
    """Return *names* as a set; raises `ValueError` for one that no law has."""
    if unknown := sorted(set(names) - LAWS.keys()):
        msg = f"no law is called {unknown[0]!r}; known: {', '.join(LAWS)}"
        raise ValueError(msg)
    return frozenset(names)
