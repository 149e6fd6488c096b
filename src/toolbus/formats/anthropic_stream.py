"""The assembly of a streamed message of Anthropic from its events.

The shapes are those of https://docs.anthropic.com/en/docs/build-with-claude/streaming.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.events.values import ModelDelta
from toolbus.formats.answers import TextJoints
from toolbus.formats.json_input import parse, unexpected
from toolbus.messages.immutable import replace_surrogates_in

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class AnthropicStream:
    """An assembler of events; once it *is_whole*, `answer` returns the unstreamed message."""

    def __init__(self) -> None:
        self.is_whole = False
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}
        self._calls: dict[int, int] = {}
        self._joints = TextJoints()

    def feed(self, event: Any) -> Sequence[ModelDelta]:
        """Return the deltas of *event*, none for an unknown event; raises `DecodeError`."""
        match event:
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                # Not a generator, for speed: there is an event for each token.
                return self._delta(index, delta)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                self._start(index, block)
            case {"type": "message_start", "message": dict(message)}:
                self._message = dict(message)
            case {"type": "message_delta", "delta": dict(delta)}:
                usage = {**(self._message.get("usage") or {}), **_counted(event.get("usage"))}
                self._message |= {**delta, "usage": usage}
            case {"type": "message_stop"}:
                self.is_whole = True
            case {"type": str(kind)} if not kind.startswith(("content_block_", "message_")):
                pass
            case {"type": "content_block_stop"}:
                pass
            case _:
                raise unexpected("an event of a message", event, "$")
        return ()

    def answer(self) -> dict[str, Any]:
        """Return the message."""
        content = [self._block(index) for index in sorted(self._blocks)]
        return {**self._message, "content": content}

    def _start(self, index: int, block: dict[str, Any]) -> None:
        self._blocks[index] = block
        if block.get("type") == "tool_use":
            self._calls[index] = len(self._calls)
        if block.get("type") != "text":
            self._joints.interrupt()

    def _delta(self, index: int, delta: dict[str, Any]) -> Sequence[ModelDelta]:
        if index not in self._blocks:
            raise unexpected("the start of the block", delta, f"$.content[{index}]")
        match delta:
            case {"type": str(kind)} if kind in _TEXTS and isinstance(delta.get(_TEXTS[kind]), str):
                return self._text(index, kind, delta[_TEXTS[kind]])
            case {"type": "input_json_delta", "partial_json": str(text)}:
                self._texts.setdefault((index, "input"), []).append(text)
                if text and index in self._calls:
                    return (self._call(index, text),)
            case {"type": "citations_delta", "citation": citation}:
                block = self._blocks[index]
                self._blocks[index] = {
                    **block,
                    "citations": [*(block.get("citations") or ()), citation],
                }
        return ()

    def _text(self, index: int, kind: str, text: str) -> Sequence[ModelDelta]:
        self._texts.setdefault((index, _TEXTS[kind]), []).append(text)
        if kind == "text_delta" and text:
            return (ModelDelta(kind="text", text=self._joints.joined(text)),)
        if kind == "thinking_delta" and text:
            return (ModelDelta(kind="reasoning", text=text),)
        return ()

    def _call(self, index: int, text: str) -> ModelDelta:
        name, call_id = (self._blocks[index].get(field) for field in ("name", "id"))
        return ModelDelta(
            kind="tool_call",
            text=text,
            index=self._calls[index],
            name=name if isinstance(name, str) else "",
            id=call_id if isinstance(call_id, str) else "",
        )

    def _block(self, index: int) -> dict[str, Any]:
        block = dict(self._blocks[index])
        for name in ("text", "thinking", "signature", "input"):
            if texts := self._texts.get((index, name)):
                start = block.get(name)
                block[name] = (start if isinstance(start, str) else "") + "".join(texts)
        if block.get("type") != "tool_use" and isinstance(block.get("input"), str):
            # The input of a tool that runs at the provider, which requires an object.
            block["input"] = parse(block["input"] or "{}", replace_surrogates_in)
        return block


def _counted(usage: Any) -> dict[str, Any]:
    """Return the counts in *usage* that are not null; they are totals of the message."""
    items = usage.items() if isinstance(usage, dict) else ()
    return {name: value for name, value in items if value is not None}
