"""Figures over all sessions, counted as messages and records arrive, in bounded memory."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from math import ceil
from typing import TYPE_CHECKING

from msgspec import Struct, field

from toolbus.bus.ledger.records import FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toolbus.bus.ledger.records import HandlerEntry

OTHERS = "(other names)"
"""The name in place of all names beyond `_NAMES`."""

_NAMES, _LENGTH = 200, 80
"""The most names in one table, and the most characters of a name."""

_VALUES = 100_000
"""The most placeholders that are remembered, to count each once."""

_BITS = 5
"""The leading bits of a duration that choose its bucket."""

_IDLE = frozenset({"skipped", "not_run", "queued"})
_EFFECTS = {
    **{status: status for status in ("changed", "answered", "denied", "asked")},
    **dict.fromkeys([*FAILURES, "rejected"], "failed"),
}


class Durations:
    """Nanoseconds in buckets: count and total are exact, quantiles within 4 %."""

    __slots__ = ("_buckets", "count", "total_ns")

    def __init__(self) -> None:
        self.count, self.total_ns = 0, 0
        self._buckets = Counter[tuple[int, int]]()

    def add(self, duration_ns: int) -> None:
        """Count one duration."""
        duration_ns = max(0, duration_ns)
        exponent = max(0, duration_ns.bit_length() - _BITS)
        self._buckets[exponent, duration_ns >> exponent] += 1
        self.count, self.total_ns = self.count + 1, self.total_ns + duration_ns

    def merge(self, other: Durations) -> None:
        """Count all durations of *other*."""
        self._buckets.update(other._buckets)
        self.count, self.total_ns = self.count + other.count, self.total_ns + other.total_ns

    def count_below(self, limit_ns: int) -> int:
        """Return the number of durations below *limit_ns*, within a bucket."""
        return sum([count for place, count in self._buckets.items() if _middle(*place) < limit_ns])

    def quantile(self, share: float) -> int:
        """Return the duration that *share* of all durations do not exceed; 0 without any."""
        rank = ceil(share * self.count)
        for place, count in sorted(self._buckets.items()):
            rank -= count
            if rank <= 0:
                return _middle(*place)
        return 0


def _middle(exponent: int, step: int) -> int:
    """Return the middle of a bucket."""
    return ((2 * step + 1) << exponent) >> 1


class HandlerFigures(Struct):
    """The runs of one handler: their durations, and by effect their number."""

    durations: Durations = field(default_factory=Durations)
    effects: Counter[str] = field(default_factory=Counter)


class Figures:
    """The figures over all sessions; each table has a bounded number of names.

    *calls* counts by tool and status, *agents* counts sessions. *values* and *messages* count
    placeholders by kind: different ones, and messages that hold any. *damaged* counts rows.
    """

    def __init__(self) -> None:
        self.agents = Counter[str]()
        self.calls: dict[str, Counter[str]] = {}
        self.handlers: dict[str, HandlerFigures] = {}
        self.values, self.messages = Counter[str](), Counter[str]()
        self.damaged = 0
        self._placeholders = set[int]()

    def snapshot(self) -> Figures:
        """Return a copy that does not change while this one counts on."""
        return deepcopy(self, {id(self._placeholders): self._placeholders})

    def add_calls(self, calls: Mapping[tuple[str, str], int]) -> None:
        """Count calls by tool and status."""
        for (tool, status), count in calls.items():
            name = bounded_name(tool, self.calls)
            self.calls.setdefault(name, Counter())[status] += count

    def add_agents(self, agents: Iterable[str]) -> None:
        """Count a session of each of *agents*."""
        self.agents.update([bounded_name(agent, self.agents) for agent in agents])

    def add_entry(self, entry: HandlerEntry) -> None:
        """Count the run of one handler, if it ran."""
        if entry.status in _IDLE or entry.composite:
            return
        name = bounded_name(entry.name, self.handlers)
        handler = self.handlers.setdefault(name, HandlerFigures())
        handler.durations.add(entry.duration_ns)
        if effect := _EFFECTS.get(entry.status):
            handler.effects[effect] += 1

    def add_placeholders(self, placeholders: Iterable[tuple[str, str]]) -> None:
        """Count the kinds and placeholders of one message."""
        kinds = set[str]()
        for kind, placeholder in placeholders:
            name, value = bounded_name(kind, self.messages), hash(placeholder)
            kinds.add(name)
            if value not in self._placeholders and len(self._placeholders) < _VALUES:
                self._placeholders.add(value)
                self.values[name] += 1
        self.messages.update(kinds)


def bounded_name(name: str, known: Mapping[str, object], limit: int = _NAMES) -> str:
    """Return *name*, cut, as a key of *known*, or `OTHERS` if *known* has *limit* names."""
    name = name[:_LENGTH]
    return name if name in known or len(known) < limit else OTHERS
