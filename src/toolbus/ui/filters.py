"""The filters and functions of the templates for timelines and questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from toolbus.approvals.display import state_words
from toolbus.history import entry_texts
from toolbus.history.durations import rough_duration
from toolbus.history.message_history import NEVER_RAN
from toolbus.settings.visible_text import shorten_visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.history.timeline import CallEntry, Turn

MOST_CALLS = 40
"""The most calls of one message in the timeline; further ones are counted."""


class Bar(NamedTuple):
    """The start and the width of a bar, in percent of its turn."""

    x: float
    width: float


def address(kind: str, session_id: str, name: str = "", **query: object) -> str:
    """Return the address of the page of *kind* for a session, or for its message or call *name*."""
    path = "/".join([quote(text, safe="") for text in (session_id, name) if text])
    return f"/{kind}/{path}" + (f"?{urlencode(query)}" if query else "")


def bars(turn: Turn) -> dict[tuple[int, int], Bar]:
    """Return the bars of the calls of *turn*, by the message's number and the call's place."""
    calls = {
        (entry.seq, place): call
        for entry in turn.messages
        for place, call in enumerate(entry.calls)
        if call.started_ns and call.duration_ns
    }
    start = min([call.started_ns for call in calls.values()], default=0)
    end = max([call.started_ns + call.duration_ns for call in calls.values()], default=0)
    share = 100 / max(1, end - start)
    return {place: _bar(call, start, share) for place, call in calls.items()}


def _bar(call: CallEntry, start: int, share: float) -> Bar:
    width = max(0.5, call.duration_ns * share)
    return Bar(round(min((call.started_ns - start) * share, 100 - width), 2), round(width, 2))


FILTERS: dict[str, Callable[..., Any]] = {
    "arguments": entry_texts.arguments_of,
    "bars": bars,
    "beginning": entry_texts.beginning,
    "brief": shorten_visible,
    "effect": entry_texts.effect_of,
    "entry_facts": entry_texts.entry_facts,
    "entry_title": entry_texts.entry_title,
    "excerpt": entry_texts.excerpt,
    "indented": entry_texts.indented,
    "is_rewritten": entry_texts.is_rewritten,
    "is_together": entry_texts.is_together,
    "outcome_words": entry_texts.outcome_words,
    "problems": entry_texts.problems,
    "rough": rough_duration,
    "short": entry_texts.short,
    "state_words": state_words,
    "status_words": entry_texts.status_words,
    "strip": entry_texts.strip,
    "turn_title": entry_texts.turn_title,
    "value_note": entry_texts.value_note,
    "value_text": entry_texts.value_text,
}
GLOBALS: dict[str, Any] = {
    "address": address,
    "diff_rows": entry_texts.diff_rows,
    "most_calls": MOST_CALLS,
    "never_ran": NEVER_RAN,
}
