"""The tables `[[call]]` of a file, made ready to be looked for; see `limit_tables`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.policy.history.named_calls import NamedCall, read_outcome
from toolbus.settings.hints import unknown_key
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.policy.projects import Project

_OUTCOME = "outcome"


def read_calls(tables: Sequence[Mapping[str, Any]], project: Project) -> tuple[NamedCall, ...]:
    """Return the calls that *tables* name; raises `MisfitError`."""
    calls: dict[str, NamedCall] = {}
    for index, table in enumerate(tables):
        try:
            call = _call(table, index, project)
        except MisfitError as error:
            name = table.get("name")
            which = f"call {name!r}" if isinstance(name, str) else f"call {index + 1}"
            raise MisfitError(f"{which}: {error.reason}", "call", index, *error.path) from None
        if call.name in calls:
            raise MisfitError(f"two calls are called {call.name!r}; rename one", "call", index)
        calls[call.name] = call
    return tuple(calls.values())


def _call(table: Mapping[str, Any], index: int, project: Project) -> NamedCall:
    # Rules are made of calls' tables, and know what rules ask of the calls before.
    from toolbus.policy.rules.rule_tables import CALL_KEYS, PART_KEYS, read_rule  # noqa: PLC0415

    known = ("name", _OUTCOME, *CALL_KEYS, *PART_KEYS)
    for key in table:
        if key not in known:
            raise MisfitError(unknown_key(key, known), key)
    conditions = {key: value for key, value in table.items() if key != _OUTCOME}
    # As a rule that denies it speaks of what may fit, and tells whether it surely does.
    rule = read_rule({**conditions, "verdict": "deny"}, index, project)
    if _OUTCOME not in table:
        return NamedCall(rule)
    try:
        return NamedCall(rule, read_outcome(table[_OUTCOME]))
    except MisfitError as error:
        raise MisfitError(f"key 'outcome': {error.reason}", _OUTCOME, *error.path) from None
