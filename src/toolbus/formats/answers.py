"""A model's answer as a list of items and as one message, converted both ways.

Anthropic and OpenAI's responses API answer with a list in any order: reasoning, text, calls, and
blocks without a counterpart here. A message holds the items by kind. For any other order than
reasoning, one text, calls, `metadata["wire"]` records the order, so that the provider gets back its
own answer. Texts are recorded by length only, so the record never contradicts changes of handlers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolbus.messages.immutable import EMPTY, JsonObject
from toolbus.messages.records import AssistantMessage, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from toolbus.messages.reasoning import ReasoningPart

    MakeCall = Callable[[str, str, Any], ToolCall]

Wire = Literal["anthropic", "openai-responses"]

_PLAIN = re.compile(r"r*t?c*")


class AnswerItem(NamedTuple):
    """An item: `text` (with *facts*), `reasoning` (a part), `call`, or foreign `block` (JSON)."""

    kind: Literal["text", "reasoning", "call", "block"]
    value: Any
    facts: JsonObject = EMPTY


def message_of(
    items: Sequence[AnswerItem],
    wire: Wire,
    message_id: str,
    *,
    usage: JsonObject = EMPTY,
    stop_reason: str | None = None,
) -> AssistantMessage:
    """Return *items* as a message."""
    layout = _layout(items)
    return AssistantMessage(
        id=message_id,
        content="".join(_texts(items)),
        reasoning=tuple([item.value for item in items if item.kind == "reasoning"]),
        tool_calls=tuple([item.value for item in items if item.kind == "call"]),
        usage=usage,
        stop_reason=stop_reason,
        metadata={"wire": {"format": wire, "layout": layout}} if layout else EMPTY,
    )


def items_of(message: AssistantMessage, wire: Wire) -> list[AnswerItem]:
    """Return the items of *message*, in the recorded order if the message is from *wire*.

    Reasoning is included only if *wire* accepts it back. Order and facts that no longer fit after
    changes of handlers are left out.
    """
    items = _restored_order(message, wire) or _default_order(message)
    return [item for item in items if item.kind != "reasoning" or _is_returnable(item.value, wire)]


class TextJoints:
    """A joiner of texts, with a line end between texts that are not adjacent."""

    def __init__(self) -> None:
        self._has_text = self._is_apart = False

    def interrupt(self) -> None:
        """Note an item that is not a text."""
        self._is_apart = self._has_text

    def joined(self, text: str) -> str:
        """Return *text* with the separator from the previous text."""
        joint = "\n" if self._is_apart else ""
        self._has_text, self._is_apart = True, False
        return joint + text


def _is_returnable(part: ReasoningPart, wire: Wire) -> bool:
    return part.format == wire and part.is_sealed


def _texts(items: Iterable[AnswerItem]) -> Iterator[str]:
    """Yield the texts with their separators."""
    joints = TextJoints()
    for item in items:
        if item.kind == "text":
            yield joints.joined(item.value)
        else:
            joints.interrupt()


def _layout(items: Sequence[AnswerItem]) -> list[JsonObject]:
    """Return the order of *items* as JSON, empty for the default order without facts."""
    kinds = "".join([item.kind[0] for item in items])
    if _PLAIN.fullmatch(kinds) and not any(item.facts for item in items):
        return []
    layout: list[JsonObject] = []
    for item in items:
        match item.kind:
            case "text":
                layout.append({"kind": "text", "length": len(item.value), **item.facts})
            case "block":
                layout.append({"kind": "block", "block": item.value})
            case kind:
                layout.append({"kind": kind})
    return layout


def _default_order(message: AssistantMessage) -> list[AnswerItem]:
    text = [AnswerItem("text", message.content)] if message.content else []
    return [
        *[AnswerItem("reasoning", part) for part in message.reasoning],
        *text,
        *[AnswerItem("call", call) for call in message.tool_calls],
    ]


def _restored_order(message: AssistantMessage, wire: Wire) -> list[AnswerItem]:
    """Return the items in the order recorded in the metadata, empty if that does not fit."""
    # The layout may be of another format, or from before an edit, so each part must fit.
    match message.metadata.get("wire"):
        case {"format": str(known), "layout": tuple(layout)} if known == wire:
            pass
        case _:
            return []
    entries = [entry for entry in layout if isinstance(entry, dict)]
    kinds = [entry.get("kind") for entry in entries]
    if kinds.count("reasoning") != len(message.reasoning):
        return []
    if kinds.count("call") != len(message.tool_calls):
        return []
    reasoning, calls = iter(message.reasoning), iter(message.tool_calls)
    texts = iter(_cut(message.content, entries))
    items: list[AnswerItem] = []
    for entry in entries:
        match entry:
            case {"kind": "reasoning"}:
                items.append(AnswerItem("reasoning", next(reasoning)))
            case {"kind": "call"}:
                items.append(AnswerItem("call", next(calls)))
            case {"kind": "block", "block": dict(block)}:
                items.append(AnswerItem("block", block))
            case {"kind": "text"}:
                items += next(texts)
    return [*items, *next(texts)]


def _cut(content: str, entries: Sequence[dict[str, Any]]) -> list[list[AnswerItem]]:
    """Return the texts of *content* for each text entry, and the texts for no entry.

    If the recorded lengths no longer fit, the first list has the whole content, without facts.
    """
    # Only a walk over all entries shows whether the lengths still fit an edited answer.
    items: list[list[AnswerItem]] = []
    position, before, fits = 0, None, True
    for entry in entries:
        if entry.get("kind") == "text":
            if items and before != "text":
                fits = fits and content[position : position + 1] == "\n"
                position += 1
            length = entry.get("length")
            length = length if isinstance(length, int) and length >= 0 else len(content) + 1
            facts = {name: entry[name] for name in entry if name not in {"kind", "length"}}
            items.append([AnswerItem("text", content[position : position + length], facts)])
            position += length
        before = entry.get("kind")
    if items and fits and position == len(content):
        return [*items, []]
    whole = [AnswerItem("text", content)] if content else []
    return [whole, *[[] for _ in items]]
