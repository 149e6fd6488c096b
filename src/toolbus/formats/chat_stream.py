"""The assembly of a streamed chat completion from its chunks.

The shapes are those of https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.events.values import ModelDelta
from toolbus.formats.chat_messages import REASONING_FIELDS
from toolbus.formats.json_input import unexpected
from toolbus.messages.records import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ChatStream:
    """An assembler of chunks; once it *is_whole*, `answer` returns the unstreamed completion.

    Calls of servers that give no index, or 0 for all, are distinguished by their ids.
    """

    def __init__(self) -> None:
        self.is_whole = False
        self._facts: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: list[dict[str, Any]] = []
        self._by_index: dict[Any, int] = {}

    def feed(self, chunk: Any) -> Sequence[ModelDelta]:
        """Return the deltas of *chunk*; raises `DecodeError`."""
        match chunk:
            case {"choices": list(choices)}:
                pass
            case _:
                raise unexpected("a chunk with choices", chunk, "$")
        for name in ("id", "usage"):
            if chunk.get(name) is not None:
                self._facts[name] = chunk[name]
        if not choices:
            return ()
        match choices[0]:
            case {"delta": dict(delta)} as choice:
                # Not a generator, for speed: there is a chunk for each token.
                deltas = self._delta(delta)
                if choice.get("finish_reason") is not None:
                    self._facts["finish_reason"], self.is_whole = choice["finish_reason"], True
                return deltas
            case choice:
                raise unexpected("a choice with a delta", choice, "$.choices[0]")

    def answer(self) -> dict[str, Any]:
        """Return the completion."""
        message: dict[str, Any] = {name: "".join(texts) for name, texts in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": "".join(call["texts"])}}
                for call in self._calls
            ]
        finish_reason = self._facts.get("finish_reason")
        choices = [{"message": message, "finish_reason": finish_reason}]
        return {**self._facts, "choices": choices}

    def _delta(self, delta: dict[str, Any]) -> list[ModelDelta]:
        deltas = list[ModelDelta]()
        for name in REASONING_FIELDS:
            if name in delta and (text := self._text(delta, name)):
                deltas.append(ModelDelta(kind="reasoning", text=text))
                break  # Some servers write both fields.
        for name in ("content", "refusal"):
            if name in delta and (text := self._text(delta, name)):
                deltas.append(ModelDelta(kind="text", text=text))
        for call in delta.get("tool_calls") or ():
            deltas += self._call(call)
        return deltas

    def _text(self, delta: dict[str, Any], name: str) -> str | None:
        text = delta.get(name)
        if not (isinstance(text, str) and text):
            return None
        self._texts.setdefault(name, []).append(text)
        return text

    def _call(self, call: Any) -> Iterator[ModelDelta]:
        match call:
            case {"function": dict(function)}:
                pass
            case _:
                raise unexpected("a call with function", call, "$.choices[0].delta.tool_calls")
        position = self._position(call)
        known, name, text = self._calls[position], function.get("name"), function.get("arguments")
        if isinstance(name, str) and not known["function"]["name"]:
            known["function"]["name"] = name
        if text is None or text == "":
            return
        text = text if isinstance(text, str) else encode(text).decode()
        known["texts"].append(text)
        yield ModelDelta(
            kind="tool_call",
            text=text,
            index=position,
            name=known["function"]["name"],
            id=known["id"] if isinstance(known["id"], str) else "",
        )

    def _position(self, call: dict[str, Any]) -> int:
        """Return the position of *call* among the calls, after adding it if it is new."""
        index, call_id = call.get("index"), call.get("id")
        position = self._by_index.get(index, None if index is not None else len(self._calls) - 1)
        is_other = (
            position is None
            or position < 0
            or call_id not in {None, "", self._calls[position]["id"]}
        )
        if position is None or is_other:
            position = len(self._calls)
            function = {"name": ""}
            self._calls.append({"id": call_id or "", "function": function, "texts": []})
            self._by_index[index] = position
        return position
