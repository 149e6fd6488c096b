"""Hypothesis strategies for the values of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from toolbus import events
from toolbus.events.call_values import ToolStatus
from toolbus.events.catalogue import (
    McpRequest,
    ModelDelta,
    ModelFailure,
    ModelReply,
    ModelRequest,
    RunFailure,
    RunResult,
    RunStart,
    RunStatus,
    ToolCallFailure,
    ToolCallOutcome,
    ToolCallPersist,
)
from toolbus.testing.drawing import strategies as st
from toolbus.testing.records import (
    assistant_messages,
    json_objects,
    messages,
    parts,
    tool_calls,
    tool_responses,
    tool_specs,
    usages,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from toolbus.events.catalogue import Event


def run_starts(texts: SearchStrategy[str] | None = None) -> SearchStrategy[RunStart]:
    """Draw beginnings of runs, on text or on parts."""
    prompts = _texts_or_any(texts) | _several(parts(texts))
    return st.builds(RunStart, prompt=prompts, messages=_several(messages(texts)))


def run_results(texts: SearchStrategy[str] | None = None) -> SearchStrategy[RunResult]:
    """Draw ends of runs."""
    return st.builds(
        RunResult,
        status=st.sampled_from(get_args(RunStatus)),
        message=st.none() | assistant_messages(texts),
        turns=st.integers(0, 50),
        usage=usages(),
        messages=_several(messages(texts)),
        reason=st.none() | _texts_or_any(texts),
        output_json=st.none() | st.sampled_from(("1", '{"a": ["b"]}')),
    )


def run_failures(texts: SearchStrategy[str] | None = None) -> SearchStrategy[RunFailure]:
    """Draw exceptions that are about to leave a run."""
    return st.builds(RunFailure, start=run_starts(texts), **_failure(texts))


def model_requests(texts: SearchStrategy[str] | None = None) -> SearchStrategy[ModelRequest]:
    """Draw what is sent to a model."""
    return st.builds(
        ModelRequest,
        model=st.sampled_from(("model", "")),
        messages=_several(messages(texts)),
        tools=_several(tool_specs()),
        settings=json_objects(max_size=2),
        output_schema=st.none() | st.just({"type": "object", "properties": {}}),
    )


def model_replies(texts: SearchStrategy[str] | None = None) -> SearchStrategy[ModelReply]:
    """Draw answers of a model with what they answer."""
    return st.builds(
        ModelReply,
        request=model_requests(texts),
        message=assistant_messages(texts),
        duration_ns=_durations(),
    )


def model_deltas(texts: SearchStrategy[str] | None = None) -> SearchStrategy[ModelDelta]:
    """Draw pieces of streamed answers."""
    kind = st.sampled_from(("text", "reasoning", "tool_call"))
    return st.builds(
        ModelDelta,
        kind=kind,
        text=_texts_or_any(texts),
        index=st.integers(0, 3),
        name=_texts_or_any(texts),
        id=_texts_or_any(texts),
    )


def model_failures(texts: SearchStrategy[str] | None = None) -> SearchStrategy[ModelFailure]:
    """Draw model calls that raised."""
    return st.builds(ModelFailure, request=model_requests(texts), **_failure(texts))


def tool_call_failures(
    texts: SearchStrategy[str] | None = None, calls: SearchStrategy[Any] | None = None
) -> SearchStrategy[ToolCallFailure]:
    """Draw tools that failed; *calls* are those that were made."""
    made = tool_calls() if calls is None else calls
    response = tool_responses(texts)
    return st.builds(ToolCallFailure, call=made, response=response, **_failure(texts))


def tool_call_outcomes(
    texts: SearchStrategy[str] | None = None,
) -> SearchStrategy[ToolCallOutcome]:
    """Draw what became of calls."""
    return st.builds(
        ToolCallOutcome,
        requested=tool_calls(),
        executed=st.none() | tool_calls(),
        response=tool_responses(texts),
        status=st.sampled_from(get_args(ToolStatus)),
        attempts=st.integers(0, 3),
        duration_ns=_durations(),
    )


def tool_call_persists(
    texts: SearchStrategy[str] | None = None,
) -> SearchStrategy[ToolCallPersist]:
    """Draw results on their way into a store."""
    names = st.text(min_size=1, max_size=8)
    return st.builds(
        ToolCallPersist,
        session_key=names,
        agent_id=names,
        tool_name=names,
        tool_call_id=names,
        tool_input=json_objects(),
        tool_result=st.none() | tool_responses(texts),
        message_id=names,
        tool_message_id=names,
    )


def mcp_requests(texts: SearchStrategy[str] | None = None) -> SearchStrategy[McpRequest]:
    """Draw what a client asks of an MCP server."""
    word = _texts_or_any(texts)
    about = {
        "resources/read": st.fixed_dictionaries({"uri": word}),
        "resources/subscribe": st.fixed_dictionaries({"uri": word}),
        "prompts/get": st.fixed_dictionaries({"name": word, "arguments": json_objects()}),
        "completion/complete": st.fixed_dictionaries(
            {
                "ref": st.fixed_dictionaries({"type": st.just("ref/prompt"), "name": word}),
                "argument": st.fixed_dictionaries({"name": word, "value": word}),
            }
        ),
    }
    kinds = [
        st.builds(McpRequest, method=st.just(method), params=params)
        for method, params in about.items()
    ]
    return st.one_of(kinds)


def values_of(event: Event, texts: SearchStrategy[str] | None = None) -> SearchStrategy[Any]:
    """Draw values of *event*; those of an event of your own as hypothesis draws its type.

    *texts* are drawn where something is said; without them, any text.
    """
    if draw := _VALUES.get(event):
        return draw(texts)
    kind: Any = event.value
    return st.from_type(kind)


def _texts_or_any(texts: SearchStrategy[str] | None) -> SearchStrategy[str]:
    return st.text() if texts is None else texts


def _several(items: SearchStrategy[Any]) -> SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


def _durations() -> SearchStrategy[int]:
    return st.integers(0, 10**12)


def _failure(texts: SearchStrategy[str] | None) -> dict[str, SearchStrategy[Any]]:
    names = st.sampled_from(("ValueError", "FileNotFoundError", "DeadlineError", "KeyError"))
    return {"error_type": names, "error_text": _texts_or_any(texts), "attempts": st.integers(1, 3)}


_VALUES: dict[Event, Callable[[SearchStrategy[str] | None], SearchStrategy[Any]]] = {
    events.RUN_BEFORE: run_starts,
    events.RUN_ERROR: run_failures,
    events.RUN_AFTER: run_results,
    events.TOOLS_PROVIDE: lambda _: _several(tool_specs()),
    events.MODEL_CALL_BEFORE: model_requests,
    events.MODEL_CALL_ERROR: model_failures,
    events.MODEL_CALL_DELTA: model_deltas,
    events.MODEL_CALL_AFTER: model_replies,
    events.TOOL_CALL_BEFORE: lambda _: tool_calls(),
    events.TOOL_CALL_ERROR: tool_call_failures,
    events.TOOL_CALL_AFTER: tool_call_outcomes,
    events.MESSAGE_APPEND_BEFORE: messages,
    events.MESSAGE_PERSIST_BEFORE: messages,
    events.TOOL_CALL_PERSIST_BEFORE: tool_call_persists,
    events.TOOL_CALL_PERSIST_AFTER: tool_call_persists,
    events.MESSAGE_APPEND_AFTER: messages,
    events.MCP_REQUEST_BEFORE: mcp_requests,
}
