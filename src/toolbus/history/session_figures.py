"""The figures of a session beside those of another one."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.history.durations import duration_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.history.timeline import Timeline


class ComparedSession(Struct, frozen=True, kw_only=True):
    """The figures of one session; *statuses* counts its calls, the times are nanoseconds."""

    id: str
    messages: int
    calls: int
    statuses: dict[str, int]
    tokens_in: int
    tokens_out: int
    cost: float | None
    model_ns: int
    tools_ns: int


def figures_of(timeline: Timeline) -> ComparedSession:
    """Return the figures of a whole *timeline*."""
    entries = list(chain.from_iterable([turn.messages for turn in timeline.turns]))
    calls = list(chain.from_iterable([entry.calls for entry in entries]))
    costs = [entry.cost for entry in entries if entry.cost is not None]
    return ComparedSession(
        id=timeline.session.id,
        messages=timeline.session.messages,
        calls=len(calls),
        statuses=dict(Counter(map(attrgetter("status"), calls)).most_common()),
        tokens_in=sum(map(attrgetter("tokens_in"), entries)),
        tokens_out=sum(map(attrgetter("tokens_out"), entries)),
        cost=sum(costs) if costs else None,
        model_ns=sum(map(attrgetter("duration_ns"), entries)),
        tools_ns=sum(map(attrgetter("duration_ns"), calls)),
    )


def compare_figures(
    first: ComparedSession, second: ComparedSession
) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a table of two sessions: a name, and the figure of each."""
    yield "messages", f"{first.messages:,}", f"{second.messages:,}"
    yield "calls", f"{first.calls:,}", f"{second.calls:,}"
    for status in {**first.statuses, **second.statuses}:
        counts = first.statuses.get(status, 0), second.statuses.get(status, 0)
        yield f"calls {status}", f"{counts[0]:,}", f"{counts[1]:,}"
    yield "tokens in", f"{first.tokens_in:,}", f"{second.tokens_in:,}"
    yield "tokens out", f"{first.tokens_out:,}", f"{second.tokens_out:,}"
    yield "time of the model", duration_of(first.model_ns), duration_of(second.model_ns)
    yield "time of tools", duration_of(first.tools_ns), duration_of(second.tools_ns)
