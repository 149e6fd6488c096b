"""Texts about messages, calls, handlers and values in a timeline."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from toolbus.bus.ledger.records import is_notable, sign_of
from toolbus.errors import DecodeError
from toolbus.history.descriptions import describe, describe_change, utc_time
from toolbus.history.durations import duration_of
from toolbus.history.message_history import NEVER_RAN, is_same_call
from toolbus.history.value_texts import arguments_of, common_length, json_text
from toolbus.messages.records import decode, encode
from toolbus.settings.differences import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolbus.history.message_history import DispatchView, HandlerView, ValueView
    from toolbus.history.timeline import CallEntry, MessageEntry, Timeline, Turn
    from toolbus.messages.records import ToolCall
    from toolbus.settings.differences import Difference

_LONG, _LONGEST_NAME = 200_000, 200
"""The most characters of a text on a page of its own, and of a name."""

_MOST_LINES, _MOST_CHARS, _LEAD = 6, 2_000, 100
"""The shown lines of a text that is too long to compare, and the shown characters of each line of a
difference: those before the first one are left out, but for a few."""

_MOST_COMPARED = 500
"""The most lines of a text that are compared with each other."""

_FIRST_STEPS, _LAST_STEPS, _MOST_NAMES = 8, 4, 3
"""The shown steps of a long strip, and the most names of a step without an effect."""

MOST_CALLS = 40
"""The most calls of one message in the timeline; further ones are counted."""


_STATUS_WORDS = {
    "asked": "asked, no answer yet",
    "open": "no answer yet",
    "refused": "ran, its result was denied",
    "ran": "ran, its result is not stored",
}

_IDLE = {"skipped", "not_run"}
_KINDS = {"system": "Prompt", "user": "Prompt", "assistant": "Answer"}


class Excerpt(NamedTuple):
    """The beginning of a text, and a note on the *rest*, or ""."""

    text: str
    rest: str


class Step(NamedTuple):
    """A handler in a strip: its *status*, and the words about it."""

    status: str
    words: str


class Bar(NamedTuple):
    """The start and the width of a bar, in percent of its turn."""

    x: float
    width: float


def excerpt(text: str, lines: int = 6, chars: int = 600) -> Excerpt:
    """Return the first lines of *text*, at most so many."""
    start = "\n".join(text[:chars].splitlines()[:lines])
    hidden = len(text) - len(start)
    return Excerpt(start, f"… {hidden:,} more characters" if hidden > 1 else "")


def beginning(text: str) -> Excerpt:
    """Return nearly all texts whole; of a very long *text* the beginning."""
    return Excerpt(text, "") if len(text) <= _LONG else excerpt(text, _LONG, _LONG)


def short(text: str, length: int = _LONGEST_NAME) -> str:
    """Return *text* as a name in a line; a model may have chosen a long one."""
    return text if len(text) <= length else f"{text[:length]}…"


def call_line(call: ToolCall) -> str:
    """Return the tool of *call* with the beginning of its arguments."""
    return " ".join(excerpt(f"{call.name} {arguments_of(call)}")).rstrip()


def indented(call: ToolCall | None) -> str:
    """Return the arguments of *call* as JSON in lines, or the model's own text; "" for None."""
    if call is None or call.raw is not None:
        return "" if call is None else call.raw or ""
    return msgspec.json.format(encode(call.arguments), indent=2).decode()


def request_note(asked: ToolCall | None) -> str:
    """Return the tool that a model asked for, or a note on a call without a request."""
    return asked.name if asked else "In no message: a call inside another call, or of a program."


def execution_note(ran: ToolCall | None, status: str) -> str:
    """Return the tool that ran, or a note on a call that did not run."""
    if ran is not None:
        return ran.name
    if status in NEVER_RAN:
        return "It did not run."
    return "Not known." if status else "No answer yet."


def is_rewritten(call: CallEntry) -> bool:
    """Return whether *call* ran with another tool or other arguments than requested."""
    asked, ran = call.requested, call.executed
    return asked is not None and ran is not None and not is_same_call(asked, ran)


def turn_title(turn: Turn) -> str:
    """Return the number of *turn* and its time, else the kind of its first message."""
    number = f"Turn {turn.number}" if turn.number else "Prompt" if turn.run_id else ""
    started_ns = next((each.started_ns for each in turn.messages if each.started_ns), 0)
    time = utc_time(started_ns) if started_ns else ""
    kinds = [_KINDS.get(each.message.role, "") for each in turn.messages if each.message]
    kind = "Turn" if any(each.calls for each in turn.messages) else "".join(kinds[:1])
    return ", ".join(filter(None, [number, time])) or kind or "Messages"


def is_together(turn: Turn) -> bool:
    """Return whether several messages of *turn* made calls at the same time, as clients do."""
    return not turn.run_id and len([entry for entry in turn.messages if entry.calls]) > 1


def entry_title(entry: MessageEntry) -> str:
    """Return the number and role of *entry*."""
    if entry.message is not None:
        return f"{entry.seq} {entry.message.role}"
    return f"{entry.seq} damaged" if entry.damage else "Not stored"


def entry_facts(entry: MessageEntry) -> str:
    """Return duration, tokens and cost of *entry*, as far as they are known."""
    took = duration_of(entry.duration_ns) if entry.duration_ns else ""
    tokens = f"{entry.tokens_in:,} tokens in, {entry.tokens_out:,} out"
    has_tokens = entry.tokens_in or entry.tokens_out
    cost = "" if entry.cost is None else f"cost {entry.cost:.4g}"
    return ", ".join(filter(None, [took, tokens if has_tokens else "", cost]))


def problems(timeline: Timeline) -> tuple[str, ...]:
    """Return the damage of *timeline*, and a note if it is cut."""
    note = "Some records between messages are left out; `toolbus show` prints all."
    return (*timeline.damage, *([note] if timeline.is_cut else []))


def status_words(status: str) -> str:
    """Return the status of a call in words."""
    return _STATUS_WORDS.get(status, status.replace("_", " "))


def value_text(view: ValueView | None) -> str:
    """Return a kept value: the text of a message, or JSON; "" for another."""
    if view is None or not view.has_value:
        return ""
    data = encode(view.value)
    try:
        return decode(data).text
    except DecodeError:
        return view.value if isinstance(view.value, str) else msgspec.json.format(data).decode()


def value_note(view: ValueView | None) -> str:
    """Return a note in place of a value that is not kept, or is that of the store."""
    if view is None:
        return "As it is stored."
    return "" if view.has_value else f"{view.size:,} bytes; the session keeps no originals"


def strip(dispatches: Iterable[DispatchView]) -> list[Step]:
    """Return the handlers that ran in *dispatches*, in order, with words on their effects.

    Handlers without an effect are one step, as far as they follow each other.
    """
    ran = [
        (dispatch, handler)
        for dispatch in dispatches
        for handler in dispatch.handlers
        if handler.status not in _IDLE
    ]
    steps: list[Step] = []
    for has_effect, group in groupby(ran, lambda pair: is_notable(pair[1].status)):
        if has_effect:
            steps += [Step(each.status, _effect_words(of.event, each)) for of, each in group]
        else:
            steps.append(Step("ran", _idle_words([each.name for _, each in group])))
    if len(steps) == 1 and steps[0].status == "ran":
        return [Step("ran", f"{_counted(len(ran))} without an effect")]
    rest = len(steps) - _FIRST_STEPS - _LAST_STEPS
    if rest > 0:
        # Guards, which deny and ask, are the last of a chain.
        steps[_FIRST_STEPS:-_LAST_STEPS] = [Step("ran", f"{rest} more")]
    return steps


def _effect_words(event: str, handler: HandlerView) -> str:
    return f"{sign_of(handler.status).text} {handler.name} {describe(handler.status, event)}"


def _idle_words(names: Sequence[str]) -> str:
    return _counted(len(names)) if len(names) > _MOST_NAMES else " → ".join(names)


def _counted(handlers: int) -> str:
    return "1 handler" if handlers == 1 else f"{handlers} handlers"


def outcome_words(dispatch: DispatchView) -> str:
    """Return the outcome of *dispatch* in words, with the handlers that caused it."""
    causes = [each.name for each in dispatch.handlers if each.status == dispatch.outcome]
    by = f" by {', '.join(dict.fromkeys(causes))}" if causes else ""
    return f"{dispatch.event} {dispatch.outcome}{by}"


def effect_of(handler: HandlerView) -> str:
    """Return the status of *handler*, with the size of its change."""
    status = handler.status.replace("_", " ")
    if not (handler.before and handler.after):
        return status
    change = describe_change(handler.fields, handler.before.size, handler.after.size)
    is_kept = handler.before.has_value and handler.after.has_value
    return f"{status} {change}" + ("" if is_kept else "; values not stored")


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


class DiffRow(NamedTuple):
    """A line of a difference; its *sign* is "-" or "+"."""

    sign: str
    text: str


def diff_rows(
    before: ValueView | None, after: ValueView | None
) -> Iterator[tuple[str, list[DiffRow]]]:
    """Yield each field that differs between two kept values, with its changed lines."""
    if not (before and after and before.has_value and after.has_value):
        return
    for difference in differences(before.value, after.value):
        yield field_rows(difference)


def field_rows(difference: Difference) -> tuple[str, list[DiffRow]]:
    """Return the title and the changed lines of a field, of a long text its first lines."""
    old = json_text(difference.before).splitlines()
    new = json_text(difference.after).splitlines()
    if max(len(old), len(new)) <= _MOST_COMPARED:
        return difference.path, list(_compared(old, new))
    title = f"{difference.path}: {len(old):,} lines became {len(new):,}"
    return title, list(_rows(old[:_MOST_LINES], new[:_MOST_LINES]))


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffRow]:
    """Yield the changed lines of a text."""
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _rows(old[i1:i2], new[j1:j2])


def _rows(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffRow]:
    """Yield lines before and after; a long line begins shortly before its first difference."""
    start = common_length(old[0], new[0]) - _LEAD if len(old) == len(new) == 1 else 0
    for sign, lines in (("-", old), ("+", new)):
        for line in lines:
            shown = line if start <= 0 else f"…{line[start:]}"
            yield DiffRow(sign, shown if len(shown) <= _MOST_CHARS else f"{shown[:_MOST_CHARS]}…")
