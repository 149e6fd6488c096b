"""The assembly of a streamed response of OpenAI from its events.

The shapes are those of https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.events.values import ModelDelta
from toolbus.formats.answers import TextJoints
from toolbus.formats.json_input import unexpected

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXTS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_ARGUMENTS = "response.function_call_arguments.delta"
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ResponsesStream:
    """An assembler of events; once it *is_whole*, `answer` returns the unstreamed response.

    An error in mid-stream becomes the error of a failed response.
    """

    def __init__(self) -> None:
        self.is_whole = False
        self._response: dict[str, Any] = {}
        self._items: dict[int, Any] = {}
        self._calls: dict[int, ModelDelta] = {}
        self._joints = TextJoints()

    def feed(self, event: Any) -> Iterator[ModelDelta]:
        """Yield the deltas of *event*, none for an unknown event; raises `DecodeError`."""
        match event:
            case {"type": str(kind), "delta": str(text)} if text:
                yield from self._delta(kind, text, event.get("output_index"))
            case {"type": "response.output_item.added", "output_index": int(index), "item": item}:
                self._start(index, item)
            case {"type": "response.output_item.done", "output_index": int(index), "item": item}:
                self._items[index] = item
            case {"type": str(kind), "response": dict(response)} if kind in _ENDS:
                self._response, self.is_whole = response, True
            case {"type": "error"}:
                self._response, self.is_whole = {"status": "failed", "error": event}, True
            case {"type": str()}:
                pass
            case _:
                raise unexpected("an event of a response", event, "$")

    def answer(self) -> dict[str, Any]:
        """Return the response, with the output of its last event or of its item events."""
        if self._response.get("output"):
            return self._response
        return {**self._response, "output": [self._items[index] for index in sorted(self._items)]}

    def _start(self, index: int, item: Any) -> None:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "function_call":
            self._calls[index] = _empty(len(self._calls), item)
        if kind != "message":
            self._joints.interrupt()

    def _delta(self, kind: str, text: str, index: Any) -> Iterator[ModelDelta]:
        if kind in _TEXTS:
            yield ModelDelta(kind="text", text=self._joints.joined(text))
        elif kind in _REASONING:
            yield ModelDelta(kind="reasoning", text=text)
        elif kind == _ARGUMENTS:
            yield replace(self._calls.get(index) or _empty(0, {}), text=text)


def _empty(index: int, item: dict[str, Any]) -> ModelDelta:
    """Return a delta of the call *item* without text."""
    name, call_id = item.get("name"), item.get("call_id")
    return ModelDelta(
        kind="tool_call",
        text="",
        index=index,
        name=name if isinstance(name, str) else "",
        id=call_id if isinstance(call_id, str) else "",
    )
