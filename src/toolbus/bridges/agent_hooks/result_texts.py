"""The texts in a host's messages: prompts, answers, and the results of calls by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.messages.codec import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def results_in(value: Any) -> dict[str, str]:
    """Return the results of calls in *value*, messages of a host, by the ids of the calls."""
    results: dict[str, str] = {}
    match value:
        case list():
            for item in value:
                results |= results_in(item)
        case {"tool_call_id": str(call_id), "content": content}:
            results[call_id] = result_text(content)
        case {"type": "function_result", "call_id": str(call_id)}:
            results[call_id] = result_text(value.get("result"))
        case {"content": list(content)}:
            results |= results_in(content)
    return results


def with_results(value: Any, results: Mapping[str, str]) -> Any:
    """Return *value*, messages of a host, with the texts of *results*, by the ids of calls."""
    match value:
        case list():
            return [with_results(item, results) for item in value]
        case {"tool_call_id": str(call_id), "content": _} if call_id in results:
            return {**value, "content": results[call_id]}
        case {"type": "function_result", "call_id": str(call_id)} if call_id in results:
            others = {name: part for name, part in value.items() if name not in _RAW_PARTS}
            return {**others, "result": results[call_id]}
        case {"content": list(content)}:
            return {**value, "content": with_results(content, results)}
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
