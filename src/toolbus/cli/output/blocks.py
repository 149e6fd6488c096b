"""How the parts of a report are written on a screen: what handlers did, texts, calls and values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.bus.ledger.records import sign_of
from toolbus.cli.output.durations import duration_of
from toolbus.cli.output.screen import excerpt
from toolbus.errors import DecodeError
from toolbus.messages.records import AssistantMessage, decode, encode
from toolbus.settings.differences import differences
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.ledger.records import HandlerEntry
    from toolbus.cli.output.dispatches import HandlerView, ValueView
    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.messages.records import Message, ToolCall

# JSON itself escapes those below the space only; these steer terminals, too.
_CONTROLS = re.compile(r"[\x7f-\x9f]")

_TEXT_LINES = 6
"""How many lines of a text are shown before the rest is only counted."""


def count_things(number: int, thing: str, things: str = "") -> str:
    """Return *number* with *thing*, or with *things*, if those are not only `thing` and an s."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def print_json(output: Output, value: Any) -> None:
    """Write *value* as one line of JSON, every control character escaped."""
    text = encode(value).decode()
    output.write(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")


def write_invocation(
    screen: Screen, entry: HandlerEntry | HandlerView, words: Sequence[Span | str], *, indent: int
) -> None:
    """Write a line on what a handler did, *words*, and below it why."""
    took = [Span(duration_of(entry.duration_ns), "dim")] if entry.duration_ns else []
    screen.line(sign_of(entry.status), " ", *words, right=took, indent=indent)
    if entry.reason:
        screen.prose(entry.reason, indent=indent + 2)
    if entry.detail:
        screen.prose(f"for operators: {entry.detail}", indent=indent + 2)


def json_text(value: Any) -> str:
    """Return a JSON value as text, "" for one that is not there."""
    if value is UNSET:
        return ""
    return value if isinstance(value, str) else encode(value).decode()


def write_value(screen: Screen, view: ValueView, *, indent: int) -> None:
    """Write what is known of a value; of a message that is the text that a model reads."""
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
    """Write the first lines of *text*, or with *full* all of it."""
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
    """Write the calls that *message* asks for, a line each."""
    for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
        words = (Span("→ ", "asked"), *describe_call(call))
        screen.line(*words, right=[Span(call.id, "dim")], indent=indent)


def describe_call(call: ToolCall) -> tuple[Span | str, ...]:
    """Return what *call* asks for: the tool and its arguments."""
    arguments = encode(call.arguments).decode() if call.raw is None else call.raw
    return Span(call.name, "strong"), f" {arguments}"


def write_differences(screen: Screen, before: ValueView, after: ValueView, *, indent: int) -> None:
    """Write the fields in which two values differ, if both were kept, else their digests."""
    if not (before.has_value and after.has_value):
        digests = f"digest {before.digest[:12] or 'none'} → {after.digest[:12] or 'none'}"
        screen.line(Span(digests, "dim"), indent=indent)
        return
    for difference in differences(before.value, after.value):
        screen.line(Span(difference.path, "strong"), indent=indent)
        rows = excerpt(json_text(difference.before), json_text(difference.after))
        screen.compare(rows, indent=indent + 2)
