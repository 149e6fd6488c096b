"""Expressions in CEL for a rule's `when`, evaluated by `cel-expr-python`.

Variables: `tool` (a text), `arguments`, `annotations` and `context` (maps), `agent` and `session`
(texts), `lineage` (a list of texts, the outermost agent first), `effects` (a list of all effects of
the call), `unknown` (whether any part is unknown) and `commands` (for each command of the line its
`program`, `words`, `effects` and `source`). CEL itself: https://cel.dev.

A failing expression, such as a look-up of an absent argument without `has(…)`, is an error; so are
a result other than true or false and too many steps (CEL's own limit of 10,000 loop steps). CEL
returns errors as values of type ERROR.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from toolbus.errors import LoadError
from toolbus.messages.immutable import thaw
from toolbus.policy.rules.records import CallCondition, MatchResult
from toolbus.policy.rules.values import ConditionError
from toolbus.settings.extras import needs_extra
from toolbus.toml.values import MisfitError

try:
    from cel_expr_python import cel  # type: ignore[import-untyped]  # it has no types
except ModuleNotFoundError as error:
    reason = needs_extra("rules with `when` need CEL", "policy")
    raise LoadError(reason) from error

if TYPE_CHECKING:
    from toolbus.policy.facts import CallReading

_LONGEST = 10_000


def on_expression(text: str) -> CallCondition:
    """Return the condition that *text* is true; raises `MisfitError` for an invalid expression."""
    if len(text) > _LONGEST:
        raise MisfitError(f"expected an expression in CEL of at most {_LONGEST:,} characters")
    try:
        compiled = _environment().compile(text)
    except Exception as error:  # noqa: BLE001 - from C++, without documented types
        raise MisfitError(f"CEL cannot read it: {_format_error(error)}") from None
    kind = compiled.return_type()
    if kind not in (cel.Type.BOOL, cel.Type.DYN):
        raise MisfitError(f"expected true or false, got {kind.name()} from {text!r}")
    return CallCondition("when", (text,), lambda facts: _holds(text, compiled, facts))


def _holds(text: str, compiled: Any, facts: CallReading) -> MatchResult:
    """Return whether *text*, which CEL *compiled*, is true for a call; raises `ConditionError`."""
    try:
        result = compiled.eval(data=_variables(facts))
        kind, value = result.type(), result.plain_value()
    except Exception as error:  # noqa: BLE001 - from C++, without documented types
        raise ConditionError("when", _format_error(error)) from None
    if kind == cel.Type.ERROR:
        raise ConditionError("when", _format_error(value))
    if value is not True and value is not False:
        raise ConditionError("when", f"expected true or false, got {kind.name()}")
    return MatchResult("yes") if value else MatchResult("no", f"{text} is false")


@cache
def _environment() -> Any:
    """Return the environment of expressions; cached because it is expensive to build."""
    kind = cel.Type
    texts, anything = kind.List(kind.STRING), kind.Map(kind.STRING, kind.DYN)
    return cel.NewEnv(
        variables={
            "tool": kind.STRING,
            "arguments": anything,
            "annotations": anything,
            "context": anything,
            "agent": kind.STRING,
            "session": kind.STRING,
            "lineage": texts,
            "effects": texts,
            "unknown": kind.BOOL,
            "commands": kind.List(anything),
        }
    )


def _variables(facts: CallReading) -> dict[str, Any]:
    scope = facts.scope
    return {
        "tool": facts.call.name,
        "arguments": thaw(facts.call.arguments),
        "annotations": {} if facts.tool is None else thaw(facts.tool.annotations),
        "context": thaw(scope.context),
        "agent": scope.agent_id,
        "session": scope.session_id,
        "lineage": list(scope.lineage),
        "effects": sorted(facts.effects),
        "unknown": bool(facts.unknown),
        "commands": [
            {
                "program": part.action[0] if part.action else part.command.program.text,
                "words": [word.text for word in part.command.words],
                "effects": sorted(part.effects),
                "source": part.source,
            }
            for part in facts.parts
            if part.command is not None
        ],
    }


def _format_error(error: object) -> str:
    """Return CEL's error text on one line, without status codes."""
    text = str(error).partition("\n")[0].removesuffix(" [INVALID_ARGUMENT]")
    for prefix in ("INVALID_ARGUMENT: ", "UNKNOWN: ", "NOT_FOUND: ", "INTERNAL: ", "ERROR: "):
        text = text.removeprefix(prefix)
    return text
