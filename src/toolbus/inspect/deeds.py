"""What a handler did, in one line, and how sizes and values are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.errors import DecodeError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_BEFORE,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
)
from toolbus.inspect.differences import NOTHING, differences
from toolbus.messages.records import AssistantMessage, decode, encode
from toolbus.terminal.durations import duration_of
from toolbus.terminal.excerpts import excerpt
from toolbus.terminal.spans import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.ledger.records import HandlerEntry, HandlerStatus
    from toolbus.inspect.passages import Seen, Step
    from toolbus.messages.records import Message, ToolCall
    from toolbus.terminal.screen import Screen
    from toolbus.terminal.spans import Style

THINGS = {
    TOOL_CALL_BEFORE.name: "the call",
    TOOL_CALL_ERROR.name: "the failure",
    MESSAGE_APPEND_BEFORE.name: "the message",
    MESSAGE_PERSIST_BEFORE.name: "the stored copy",
    MODEL_CALL_BEFORE.name: "the request",
    TOOLS_PROVIDE.name: "the tools",
}
_MOST = 6
"""How many lines of a text are shown before the rest is only counted."""
_SIGNS: dict[HandlerStatus, tuple[str, Style]] = {
    "changed": ("~", "changed"),
    "answered": ("~", "changed"),
    "denied": ("✗", "bad"),
    "asked": ("?", "asked"),
    "failed": ("!", "bad"),
    "timeout": ("!", "bad"),
    "contract": ("!", "bad"),
    "rejected": ("!", "bad"),
}


def is_notable(entry: HandlerEntry) -> bool:
    """Tell whether a handler changed, refused or broke something."""
    return entry.status in _SIGNS


def sign_of(status: HandlerStatus) -> Span:
    """Return the mark of what a handler did."""
    return Span(*_SIGNS.get(status, ("·", "dim")))


def tell(
    screen: Screen, one: HandlerEntry | Step, words: Sequence[Span | str], *, indent: int
) -> None:
    """Write a line on what a handler did, *words*, and below it why."""
    took = [Span(duration_of(one.duration_ns), "dim")] if one.duration_ns else []
    screen.line(sign_of(one.status), " ", *words, right=took, indent=indent)
    if one.reason:
        screen.prose(one.reason, indent=indent + 2)
    if one.detail:
        screen.prose(f"for operators: {one.detail}", indent=indent + 2)


def change_of(fields: Sequence[str], before: int, after: int) -> str:
    """Return what a change was, by the names of fields and by bytes."""
    named = f" {', '.join(fields)}" if fields else ""
    return f"{named}: {before:,} → {after:,} bytes"


def written(value: Any) -> str:
    """Return a JSON value as text."""
    if value is NOTHING:
        return ""
    return value if isinstance(value, str) else encode(value).decode()


def tell_value(screen: Screen, seen: Seen, *, indent: int) -> None:
    """Write what is known of a value; of a message that is the text that a model reads."""
    if not seen.kept:
        known = f"{seen.size:,} bytes, digest {seen.digest[:12] or 'none'}"
        screen.line(f"{known}; the session keeps no originals", indent=indent)
        return
    try:
        text = decode(encode(seen.value)).text
    except DecodeError:
        text = written(seen.value)
    tell_text(screen, text, indent=indent)


def tell_text(screen: Screen, text: str, *, indent: int, full: bool = False) -> None:
    """Write the first lines of *text*, or with *full* all of it."""
    lines = text.splitlines()
    if full:
        for line in lines:
            screen.whole(line, indent=indent)
        return
    for line in lines[:_MOST]:
        screen.line(line, indent=indent)
    if len(lines) > _MOST:
        screen.line(Span(f"… {len(lines) - _MOST:,} more lines", "dim"), indent=indent)


def tell_calls(screen: Screen, message: Message, *, indent: int) -> None:
    """Write the calls that *message* asks for, a line each."""
    for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
        words = (Span("→ ", "asked"), *wish(call))
        screen.line(*words, right=[Span(call.id, "dim")], indent=indent)


def wish(call: ToolCall) -> tuple[Span | str, ...]:
    """Return what *call* asks for: the tool and its arguments."""
    arguments = encode(call.arguments).decode() if call.raw is None else call.raw
    return Span(call.name, "strong"), f" {arguments}"


def compare(screen: Screen, before: Seen, after: Seen, *, indent: int) -> None:
    """Write the fields in which two values differ, if both were kept, else their digests."""
    if not (before.kept and after.kept):
        digests = f"digest {before.digest[:12] or 'none'} → {after.digest[:12] or 'none'}"
        screen.line(Span(digests, "dim"), indent=indent)
        return
    for one in differences(before.value, after.value):
        screen.line(Span(one.path, "strong"), indent=indent)
        screen.compare(excerpt(written(one.before), written(one.after)), indent=indent + 2)
