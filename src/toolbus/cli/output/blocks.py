"""The blocks of a report on a screen: invocations of handlers, texts, calls and values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import to_builtins

from toolbus.bus.ledger.records import sign_of
from toolbus.cli.output.screen import excerpt
from toolbus.errors import DecodeError
from toolbus.history.durations import duration_of
from toolbus.history.value_texts import arguments_of, common_length, json_text
from toolbus.messages.immutable import replace_surrogates_in
from toolbus.messages.records import AssistantMessage, decode, encode
from toolbus.settings.differences import differences
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.ledger.records import HandlerEntry
    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.history.message_history import HandlerView, ValueView
    from toolbus.messages.records import Message, ToolCall
    from toolbus.settings.differences import Difference

Invocation = TypeVar("Invocation", "HandlerEntry", "HandlerView")

# JSON escapes only control characters below the space; these control terminals, too.
_CONTROLS = re.compile(r"[\x7f-\x9f]")

_TEXT_LINES = 6
"""The lines of a text that are shown; the rest is counted."""


_MAX_COMPARED, _MAX_ROWS = 500, 24
"""The most lines of a text that are compared with each other, and of the result that are shown."""

_LEAD = 20
"""The characters of a long line that are shown before its first difference."""


def count_things(number: int, thing: str, things: str = "") -> str:
    """Return *number* with *thing* or its plural: *things*, by default *thing* with an s."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def json_of(value: Any) -> str:
    """Return *value* as JSON in one line, every control character escaped."""
    try:
        text = encode(value).decode()
    except UnicodeEncodeError:  # The name of a file may contain any byte.
        text = encode(replace_surrogates_in(to_builtins(value))).decode()
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_json(output: Output, value: Any) -> None:
    """Write *value* as one line of JSON."""
    output.write(f"{json_of(value)}\n")


def write_invocation(
    screen: Screen, entry: HandlerEntry | HandlerView, words: Sequence[Span | str], *, indent: int
) -> None:
    """Write the line *words* on what a handler did, and below it the reason."""
    took = [Span(duration_of(entry.duration_ns), "dim")] if entry.duration_ns else []
    screen.line(sign_of(entry.status), " ", *words, right=took, indent=indent)
    if entry.reason:
        screen.write_reason(entry.reason, indent=indent + 2)
    if entry.detail:
        screen.prose(f"for operators: {entry.detail}", indent=indent + 2)


def without_quoted(entries: Sequence[Invocation]) -> list[Invocation]:
    """Return *entries* without the parts of a handler, such as rules, that its reason names.

    The parts precede their handler, and took no time of their own.
    """
    shown: list[Invocation] = []
    for index, entry in enumerate(entries):
        later = [each for each in entries[index + 1 :] if each.duration_ns]
        reason = later[0].reason if later and later[0].status == entry.status else None
        if entry.duration_ns or not reason or entry.name not in reason:
            shown.append(entry)
    return shown


def write_value(screen: Screen, view: ValueView, *, indent: int) -> None:
    """Write a value: a message's text, other JSON, or if it was not kept its size and digest."""
    if not view.has_value:
        known = f"{view.size:,} bytes, digest {view.digest[:12] or 'none'}"
        screen.line(f"{known}; the session keeps no originals", indent=indent)
        return
    try:
        text = decode(encode(view.value)).text
    except DecodeError:
        text = json_text(view.value)
    write_text(screen, text, indent=indent)


def write_text(screen: Screen, text: str, *, indent: int, full: bool = False) -> None:
    """Write the first lines of *text*, with *full* all of them."""
    lines = text.splitlines()
    if full:
        for line in lines:
            screen.whole(line, indent=indent)
        return
    for line in lines[:_TEXT_LINES]:
        screen.line(line, indent=indent)
    if len(lines) > _TEXT_LINES:
        screen.line(Span(f"… {len(lines) - _TEXT_LINES:,} more lines", "dim"), indent=indent)


def write_calls(screen: Screen, message: Message, *, indent: int) -> None:
    """Write a line for each call that *message* requests."""
    for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
        words = (Span("→ ", "asked"), *describe_call(call))
        screen.line(*words, right=[Span(call.id, "dim")], indent=indent)


def describe_call(call: ToolCall) -> tuple[Span | str, ...]:
    """Return the tool and the arguments of *call*."""
    return Span(call.name, "strong"), f" {arguments_of(call)}"


def write_differences(screen: Screen, before: ValueView, after: ValueView, *, indent: int) -> None:
    """Write the differing fields of two kept values, or the digests of others."""
    if not (before.has_value and after.has_value):
        digests = f"digest {before.digest[:12] or 'none'} → {after.digest[:12] or 'none'}"
        screen.line(Span(digests, "dim"), indent=indent)
        return
    for difference in differences(before.value, after.value):
        write_difference(screen, difference, indent=indent)


def write_difference(screen: Screen, difference: Difference, *, indent: int) -> None:
    """Write the path of a field, and its differing lines before and after."""
    screen.line(Span(difference.path, "strong"), indent=indent)
    before = json_text(difference.before).splitlines()
    after = json_text(difference.after).splitlines()
    if before == after:
        screen.line(Span("(only the line ends differ)", "dim"), indent=indent + 2)
        return
    # Equal lines at both ends are left out first: the comparison takes the square of the lines.
    start = common_length(before, after)
    end = common_length(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(old), len(new)) > _MAX_COMPARED:
        counts = f"lines {start + 1:,} to {len(before) - end:,} became {len(new):,} lines"
        screen.line(Span(counts, "dim"), indent=indent + 2)
        old, new = old[:_TEXT_LINES], new[:_TEXT_LINES]
    rows = excerpt("\n".join(old), "\n".join(new))
    if len(rows) == 1 and (skipped := common_length(*rows[0]) - _LEAD) > 0:
        rows = ((f"…{rows[0][0][skipped:]}", f"…{rows[0][1][skipped:]}"),)
    screen.compare(rows[:_MAX_ROWS], indent=indent + 2)
    if (rest := len(rows) - _MAX_ROWS) > 0:
        screen.line(Span(f"… and {rest} more lines", "dim"), indent=indent + 2)
