"""Texts about messages, calls, handlers and values in a timeline."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from toolbus.bus.ledger.records import is_notable, sign_of
from toolbus.errors import DecodeError
from toolbus.history.descriptions import describe, describe_change
from toolbus.messages.records import decode, encode
from toolbus.settings.differences import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolbus.history.message_history import DispatchView, HandlerView, ValueView
    from toolbus.messages.records import ToolCall

_MOST_LINES, _MOST_CHARS = 6, 600
"""The beginning of a text in the timeline."""

_MOST_COMPARED = 500
"""The most lines of a text that are compared with each other."""

_MOST_STEPS = 12
"""The most handlers of one strip; further ones are counted."""

_STATUS_WORDS = {
    "asked": "asked, no answer yet",
    "open": "no answer yet",
    "refused": "ran, its result was denied",
    "ran": "ran, its result is not stored",
}

_IDLE = {"skipped", "not_run"}


class Excerpt(NamedTuple):
    """The beginning of a text, and a note on the *rest*, or ""."""

    text: str
    rest: str


class Step(NamedTuple):
    """A handler in a strip: its *status*, and the words about it."""

    status: str
    words: str


def excerpt(text: str) -> Excerpt:
    """Return the first lines of *text*."""
    lines = text.splitlines()
    start = "\n".join(lines[:_MOST_LINES])[:_MOST_CHARS]
    hidden = len(text) - len(start)
    return Excerpt(start, f"… {hidden:,} more characters" if hidden > 1 else "")


def arguments_of(call: ToolCall) -> str:
    """Return the arguments of *call* as JSON, or the model's own text."""
    return encode(call.arguments).decode() if call.raw is None else call.raw


def indented(call: ToolCall) -> str:
    """Return the arguments of *call* as JSON in lines, or the model's own text."""
    if call.raw is not None:
        return call.raw
    return msgspec.json.format(encode(call.arguments), indent=2).decode()


def are_same(asked: ToolCall | None, ran: ToolCall | None) -> bool:
    """Return whether two calls have the same tool and arguments."""
    return (asked and (asked.name, asked.arguments)) == (ran and (ran.name, ran.arguments))


def status_words(status: str) -> str:
    """Return the status of a call in words."""
    return _STATUS_WORDS.get(status, status.replace("_", " "))


def value_text(view: ValueView) -> str:
    """Return a kept value: the text of a message, or JSON."""
    data = encode(view.value)
    try:
        return decode(data).text
    except DecodeError:
        return view.value if isinstance(view.value, str) else msgspec.json.format(data).decode()


def strip(dispatches: Iterable[DispatchView]) -> list[Step]:
    """Return the handlers that ran in *dispatches*, in order, with words on their effects.

    Without any effect the list is one step, which counts them.
    """
    ran = [
        (dispatch, handler)
        for dispatch in dispatches
        for handler in dispatch.handlers
        if handler.status not in _IDLE
    ]
    if not any(is_notable(handler.status) for _, handler in ran):
        words = f"{len(ran)} handlers ran" if len(ran) > 1 else "1 handler ran"
        return [Step("ran", f"{words}, without an effect")] if ran else []
    # Of a long chain the strip shows the effects.
    shown = [pair for pair in ran if is_notable(pair[1].status) or len(ran) <= _MOST_STEPS]
    steps = [Step(each.status, _step_words(of.event, each)) for of, each in shown[:_MOST_STEPS]]
    rest = len(ran) - len(steps)
    return [*steps, *([Step("ran", f"… and {rest} more")] if rest else [])]


def _step_words(event: str, handler: HandlerView) -> str:
    effect = describe(handler.status, event) if is_notable(handler.status) else "ran"
    return f"{sign_of(handler.status).text} {handler.name} {effect}"


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
    return f"{status} {describe_change(handler.fields, handler.before.size, handler.after.size)}"


class DiffRow(NamedTuple):
    """A line of a difference; its *sign* is "-", "+" or " "."""

    sign: str
    text: str


def diff_rows(before: ValueView, after: ValueView) -> Iterator[tuple[str, list[DiffRow]]]:
    """Yield each field that differs between two kept values, with its lines before and after."""
    for difference in differences(before.value, after.value):
        old, new = _json_text(difference.before), _json_text(difference.after)
        yield difference.path, list(_compared(old.splitlines(), new.splitlines()))


def _json_text(value: Any) -> str:
    if value is UNSET:
        return ""
    return value if isinstance(value, str) else encode(value).decode()


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffRow]:
    """Yield the changed lines of a text; a large text only has its first lines."""
    if max(len(old), len(new)) > _MOST_COMPARED:
        yield from [DiffRow("-", line) for line in old[:_MOST_LINES]]
        yield from [DiffRow("+", line) for line in new[:_MOST_LINES]]
        yield DiffRow(" ", f"… {len(old):,} lines became {len(new):,}")
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from [DiffRow("-", line) for line in old[i1:i2]]
            yield from [DiffRow("+", line) for line in new[j1:j2]]
