"""Whether what a rule found is a secret: its value, the name beside it, and what stands between."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from toolbus.redaction.secrets.heuristics import (
    is_assigned_secret,
    is_of_manual,
    is_plausible,
    looks_made,
)
from toolbus.redaction.secrets.names import NameKind, name_at, name_kind, name_start

if TYPE_CHECKING:
    from toolbus.redaction.secrets.engine import Hit
    from toolbus.redaction.secrets.rules import Rule

_QUOTES = b"\"'`"
_OPENING = 8
_MOST_JUDGED = 10_000


Judged: TypeAlias = dict[tuple[str, int, "NameKind | None"], bool]
"""What was told of a value, by the number of its rule and the kind of its name."""


def is_likely(value: str, data: bytes, hit: Hit, judged: Judged) -> bool:
    """Tell whether *value*, which *hit* found in *data*, can be a secret beside its name.

    What stands in a text many times is *judged* once.
    """
    is_named = hit.name is not None and hit.rule.loose
    kind = _named_kind(data, hit) if is_named else None
    if is_named and kind is None:
        return False
    key = (value, hit.number, kind)
    if key not in judged:
        if len(judged) >= _MOST_JUDGED:
            judged.clear()
        judged[key] = _is_possible(value, hit, kind)
    return judged[key]


def _named_kind(data: bytes, hit: Hit) -> NameKind | None:
    """Return what the name of *hit*, if it has one, says of its value."""
    if hit.name is None:
        return None
    start, end = hit.name
    kind = name_kind(name_at(data, start, end))
    if kind is not None and b"," in data[end : hit.start]:
        return _kind_in_list(data, hit, kind)
    return kind


def _is_possible(value: str, hit: Hit, kind: NameKind | None) -> bool:
    if kind is None and hit.name is None:
        kind = hit.rule.kind
    return _is_plausible(value, hit.rule) if kind is None else is_assigned_secret(value, kind)


def _is_plausible(value: str, rule: Rule) -> bool:
    if rule.keyed and not looks_made(value):
        return False
    return is_plausible(value, loose=rule.loose) and (rule.foreign or not is_of_manual(value))


def _kind_in_list(data: bytes, hit: Hit, kind: NameKind) -> NameKind | None:
    """Return what the name of *hit* says of what stands behind a comma.

    `define('DB_PASSWORD', 'x')` is a name and its value; `['USERPWD', 'HTTP200ALIASES']` is a list.
    """
    if hit.name is None or data[hit.start - 1] not in _QUOTES:
        return None
    first = name_start(data, hit.name[0])
    before = data[max(0, first - _OPENING) : first].rstrip()
    is_first_argument = before[-1:] in _QUOTES and before[:-1].rstrip().endswith(b"(")
    return kind if is_first_argument else NameKind.KEY
