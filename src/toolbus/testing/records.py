"""Hypothesis strategies for the records that agents exchange, and for calls that fit a schema."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Scope, ToolSpec
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
from toolbus.testing.fitting import any_json, values_for
from toolbus.tools.definitions import Tool, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

_MIME_TYPES = ("image/png", "audio/wav", "text/plain", "application/pdf")
_SCALARS = ("string", "integer", "number", "boolean", "null")


def json_values(
    *, max_leaves: int = 12, texts: SearchStrategy[str] | None = None
) -> SearchStrategy[Any]:
    """Draw JSON values as callers write them, dicts and lists, that survive a round trip."""
    return any_json(st.text() if texts is None else texts, max_leaves)


def json_objects(*, max_size: int = 4) -> SearchStrategy[dict[str, Any]]:
    """Draw JSON objects of up to *max_size* items."""
    return st.dictionaries(st.text(), json_values(), max_size=max_size)


def parts(texts: SearchStrategy[str] | None = None) -> SearchStrategy[Part]:
    """Draw pieces of content of every type."""
    data, mime_type = st.binary(max_size=12).map(_base64), st.sampled_from(_MIME_TYPES)
    text = st.text() if texts is None else texts
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
    text = st.text() if texts is None else texts
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
    text = st.text() if texts is None else texts
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
        text=st.text() if texts is None else texts,
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
    return st.lists(parts(texts), max_size=3).map(tuple)


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
