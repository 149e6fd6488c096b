"""Hypothesis strategies for what handlers meet: records, values of events, calls, hostile texts.

A function that takes *texts* draws from that strategy wherever somebody says something;
`messages(hostile_texts())` draws messages of people who mean ill.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from toolbus import events
from toolbus.errors import RegistrationError
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
    Scope,
    ToolCallFailure,
    ToolCallOutcome,
    ToolCallPersist,
    ToolSpec,
)
from toolbus.messages.immutable import INT_MAX
from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Resource,
    ResourcePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.testing.drawing import strategies as st
from toolbus.testing.fitting import any_json
from toolbus.testing.fitting import values_for as values_for  # noqa: PLC0414 - for importers
from toolbus.testing.texts import HOSTILE_TEXTS as HOSTILE_TEXTS  # noqa: PLC0414 - for importers
from toolbus.testing.texts import hostile_texts as hostile_texts  # noqa: PLC0414 - for importers
from toolbus.testing.texts import texts as texts  # noqa: PLC0414 - for importers
from toolbus.tools.definitions import Tool, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from toolbus.events.catalogue import Event

_MIME_TYPES = ("image/png", "audio/wav", "text/plain", "application/pdf")
_SCALARS = ("string", "integer", "number", "boolean", "null")


def json_values(
    *, max_leaves: int = 12, texts: SearchStrategy[str] | None = None
) -> SearchStrategy[Any]:
    """Draw JSON values as callers write them, dicts and lists, that survive a round trip."""
    return any_json(_texts_or_any(texts), max_leaves)


def json_objects(*, max_size: int = 4) -> SearchStrategy[dict[str, Any]]:
    """Draw JSON objects of up to *max_size* items."""
    return st.dictionaries(st.text(), json_values(), max_size=max_size)


def parts(texts: SearchStrategy[str] | None = None) -> SearchStrategy[Part]:
    """Draw pieces of content of every type."""
    data, mime_type = st.binary(max_size=12).map(_base64), st.sampled_from(_MIME_TYPES)
    text = _texts_or_any(texts)
    resource = st.builds(
        Resource,
        uri=st.from_regex(r"file:///[a-z]{1,8}", fullmatch=True),
        mime_type=st.none() | mime_type,
        text=st.none() | text,
        blob=st.none() | data,
    )
    return st.one_of(
        st.builds(TextPart, text=text),
        st.builds(ImagePart, data=data, mime_type=mime_type),
        st.builds(AudioPart, data=data, mime_type=mime_type),
        st.builds(ResourcePart, resource=resource),
    )


def tool_specs(
    names: SearchStrategy[str] | None = None, schemas: SearchStrategy[Any] | None = None
) -> SearchStrategy[ToolSpec]:
    """Draw tools as a model is told of them, with sound *schemas* of objects."""
    of_objects = _object_schemas() if schemas is None else schemas
    return st.builds(
        ToolSpec,
        name=_names() if names is None else names,
        description=st.text(max_size=20),
        input_schema=of_objects,
        output_schema=st.none() | of_objects,
        annotations=st.just({}) | st.just({"readOnlyHint": True}),
    )


def tool_calls(
    of: Tool | ToolSpec | Mapping[str, Any] | Callable[..., Any] | None = None,
    *,
    texts: SearchStrategy[str] | None = None,
) -> SearchStrategy[ToolCall]:
    """Draw tool calls; with *of*, such as fit its schema, else with any name and arguments.

    *of* is a tool, a plain function, a `ToolSpec`, or the JSON schema of the arguments. *texts*
    are drawn where the schema says no more than string.
    """
    if of is None:
        return st.builds(
            ToolCall,
            id=_ids(),
            name=_names(),
            arguments=json_objects(),
            raw=st.none() | st.text(),
        )
    if isinstance(of, Mapping):
        return st.builds(ToolCall, id=_ids(), name=_names(), arguments=values_for(of, texts))
    spec = spec_of(of)
    arguments = values_for(spec.input_schema, texts)
    return st.builds(ToolCall, id=_ids(), name=st.just(spec.name), arguments=arguments)


def spec_of(subject: Tool | ToolSpec | Callable[..., Any]) -> ToolSpec:
    """Return the spec of a tool, of a plain function, or itself."""
    if isinstance(subject, ToolSpec):
        return subject
    if isinstance(subject, Tool):
        return subject.spec
    if not callable(subject):
        raise RegistrationError(f"tool {subject!r}", "expected a tool, its spec, or a function")
    return tool(subject).spec


def tool_responses(texts: SearchStrategy[str] | None = None) -> SearchStrategy[ToolResponse]:
    """Draw tool responses, bare ones and such as the lifecycle has stamped."""
    return st.builds(
        ToolResponse,
        content=contents(texts),
        structured=json_values(texts=texts),
        is_error=st.booleans(),
        error_type=st.none() | _names(),
        tool_name=st.none() | _names(),
        tool_call_id=st.none() | _ids(),
        parameters=st.none() | json_objects(),
        duration_ns=st.none() | st.integers(0, INT_MAX),
        metadata=json_objects(),
    )


def messages(texts: SearchStrategy[str] | None = None) -> SearchStrategy[Message]:
    """Draw messages of every role."""
    text = _texts_or_any(texts)
    common = {"id": _ids(), "metadata": json_objects()}
    return st.one_of(
        st.builds(SystemMessage, content=text, **common),
        st.builds(UserMessage, content=text | contents(texts), **common),
        assistant_messages(texts),
        st.builds(
            ToolMessage,
            content=text,
            tool_call_id=_ids(),
            tool_name=_names(),
            tool_response=st.none() | tool_responses(texts),
            **common,
        ),
    )


def assistant_messages(texts: SearchStrategy[str] | None = None) -> SearchStrategy[Any]:
    """Draw answers of a model."""
    text = _texts_or_any(texts)
    return st.builds(
        AssistantMessage,
        id=_ids(),
        content=text,
        tool_calls=st.lists(tool_calls(), max_size=3),
        reasoning=st.lists(reasoning_parts(texts), max_size=2).map(tuple),
        usage=usages(),
        stop_reason=st.none() | _names(),
        metadata=json_objects(),
    )


def reasoning_parts(texts: SearchStrategy[str] | None = None) -> SearchStrategy[ReasoningPart]:
    """Draw pieces of reasoning, bare ones and such as a provider has sealed."""
    return st.builds(
        ReasoningPart,
        text=_texts_or_any(texts),
        signature=st.none() | _names(),
        data=st.none() | _names(),
        item_id=st.none() | _ids(),
        format=st.none() | _names(),
        is_summary=st.booleans(),
    )


def scopes() -> SearchStrategy[Scope]:
    """Draw who speaks: agents, sub-agents, and nobody in particular."""
    return st.builds(
        Scope,
        agent_id=_ids() | st.just(""),
        session_id=_ids() | st.just(""),
        run_id=_ids() | st.just(""),
        turn=st.integers(0, 50),
        lineage=st.lists(_ids(), max_size=2).map(tuple),
        context=json_objects(max_size=2),
    )


def contents(texts: SearchStrategy[str] | None = None) -> SearchStrategy[tuple[Part, ...]]:
    """Draw the content of a response or of a user's message."""
    return _several(parts(texts))


def usages() -> SearchStrategy[dict[str, int]]:
    """Draw counts of tokens."""
    return st.dictionaries(_names(), st.integers(0, INT_MAX), max_size=3)


def _object_schemas() -> SearchStrategy[dict[str, Any]]:
    """Draw schemas as those of tools are, which say types and no more of a value."""
    scalar = st.sampled_from(_SCALARS).map(lambda kind: {"type": kind})
    several = scalar.map(lambda items: {"type": "array", "items": items})
    properties = st.dictionaries(_names(), scalar | several, max_size=3)
    return st.builds(
        lambda known, needed, closed: {
            "type": "object",
            "properties": known,
            **({"required": sorted(known)[:needed]} if known and needed else {}),
            **({"additionalProperties": False} if closed else {}),
        },
        properties,
        st.integers(0, 3),
        st.booleans(),
    )


def _ids() -> SearchStrategy[str]:
    return st.text(min_size=1, max_size=12)


def _names() -> SearchStrategy[str]:
    return st.from_regex(r"[a-z_]{1,12}", fullmatch=True)


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


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
