"""The texts in a host's messages: prompts, answers, and the results of calls by their ids."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from toolbus.messages.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LATE_FAILURES = {"agent-framework"}
"""The hosts that show the text of a failure only in the next request to the model.

agent-framework 1.23: `post_tool_call` gets the name of the exception's class alone, and a
replacement of it is ignored.
"""
_RAW_PARTS = {"result", "items", "exception"}
"""The parts of a result of agent-framework that may hold the original text."""


def result_text(value: Any) -> str:
    """Return the text of *value*, any JSON value, as a model would read it."""
    return value if isinstance(value, str) else encode(value).decode()


def results_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the results of calls in *value*, messages of a host: the id of the call, the text."""
    match value:
        case list():
            for item in value:
                yield from results_in(item)
        case {"tool_call_id": str(call_id), "content": content}:
            yield call_id, result_text(content)
        case {"type": "function_result", "call_id": str(call_id)}:
            yield call_id, result_text(value.get("result"))
        case {"content": list(content)}:
            yield from results_in(content)


def with_results(value: Any, results: Mapping[str, Sequence[str | None]]) -> Any:
    """Return *value*, messages of a host, with the texts of *results* by the ids of calls.

    An id that a model repeats has several, in order; None leaves a result as it is.
    """
    counts = Counter([call_id for call_id, _ in results_in(value)])
    texts = {
        # Of a shortened history the last results remain.
        call_id: iter([None] * (count - len(results[call_id])) + [*results[call_id][-count:]])
        for call_id, count in counts.items()
        if call_id in results
    }
    return _with_texts(value, texts)


def _with_texts(value: Any, texts: Mapping[str, Iterator[str | None]]) -> Any:
    match value:
        case list():
            return [_with_texts(item, texts) for item in value]
        case {"tool_call_id": str(call_id), "content": _} if call_id in texts:
            text = next(texts[call_id], None)
            return value if text is None else {**value, "content": text}
        case {"type": "function_result", "call_id": str(call_id)} if call_id in texts:
            text = next(texts[call_id], None)
            others = {name: part for name, part in value.items() if name not in _RAW_PARTS}
            return value if text is None else {**others, "result": text}
        case {"content": list(content)}:
            return {**value, "content": _with_texts(content, texts)}
    return value


def text_place(content: Any, role: str) -> tuple[str, str]:
    """Return the path and the text of the last message of *role* in *content*, one or many.

    The path is "" for content in other forms: it can be judged, and not replaced.
    """
    if isinstance(content, str):
        return "$target.content", content
    for place, wire in reversed(list(enumerate(content if isinstance(content, list) else ()))):
        match wire:
            case {"role": str(matched), "content": str(text)} if matched == role:
                return f"$target.content[{place}].content", text
    return "", result_text(content)
