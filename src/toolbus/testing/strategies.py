"""Hypothesis strategies for the records that handlers meet."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from toolbus.immutable import INT_MAX, INT_MIN
from toolbus.messages import (
    AssistantMessage,
    AudioPart,
    ImagePart,
    Message,
    Part,
    Resource,
    ResourcePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)

try:
    from hypothesis import strategies as st
except ImportError as error:
    msg = "toolbus.testing.strategies needs hypothesis; install `toolbus[testing]`"
    raise ImportError(msg) from error

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_MIME_TYPES = ("image/png", "audio/wav", "text/plain", "application/pdf")


def json_values(*, max_leaves: int = 12) -> SearchStrategy[Any]:
    """Draw JSON values as callers write them, dicts and lists, that survive a round trip."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(INT_MIN, INT_MAX)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=max_leaves,
    )


def json_objects(*, max_size: int = 4) -> SearchStrategy[dict[str, Any]]:
    """Draw JSON objects of up to *max_size* items."""
    return st.dictionaries(st.text(), json_values(), max_size=max_size)


def parts() -> SearchStrategy[Part]:
    """Draw pieces of content of every type."""
    data, mime_type = st.binary(max_size=12).map(_base64), st.sampled_from(_MIME_TYPES)
    resource = st.builds(
        Resource,
        uri=st.from_regex(r"file:///[a-z]{1,8}", fullmatch=True),
        mime_type=st.none() | mime_type,
        text=st.none() | st.text(),
        blob=st.none() | data,
    )
    return st.one_of(
        st.builds(TextPart, text=st.text()),
        st.builds(ImagePart, data=data, mime_type=mime_type),
        st.builds(AudioPart, data=data, mime_type=mime_type),
        st.builds(ResourcePart, resource=resource),
    )


def tool_calls() -> SearchStrategy[ToolCall]:
    """Draw tool calls with any arguments."""
    return st.builds(
        ToolCall,
        id=_ids(),
        name=_names(),
        arguments=json_objects(),
        raw=st.none() | st.text(),
    )


def tool_responses() -> SearchStrategy[ToolResponse]:
    """Draw tool responses, bare ones and such as the lifecycle has stamped."""
    return st.builds(
        ToolResponse,
        content=_contents(),
        structured=json_values(),
        is_error=st.booleans(),
        error_type=st.none() | _names(),
        tool_name=st.none() | _names(),
        tool_call_id=st.none() | _ids(),
        parameters=st.none() | json_objects(),
        duration_ns=st.none() | st.integers(0, INT_MAX),
        metadata=json_objects(),
    )


def messages() -> SearchStrategy[Message]:
    """Draw messages of every role."""
    common = {"id": _ids(), "metadata": json_objects()}
    return st.one_of(
        st.builds(SystemMessage, content=st.text(), **common),
        st.builds(UserMessage, content=st.text() | _contents(), **common),
        st.builds(
            AssistantMessage,
            content=st.text(),
            tool_calls=st.lists(tool_calls(), max_size=3),
            reasoning=st.none() | st.text(),
            usage=st.dictionaries(_names(), st.integers(0, INT_MAX), max_size=3),
            stop_reason=st.none() | _names(),
            **common,
        ),
        st.builds(
            ToolMessage,
            content=st.text(),
            tool_call_id=_ids(),
            tool_name=_names(),
            tool_response=st.none() | tool_responses(),
            **common,
        ),
    )


def _contents() -> SearchStrategy[tuple[Part, ...]]:
    return st.lists(parts(), max_size=3).map(tuple)


def _ids() -> SearchStrategy[str]:
    return st.text(min_size=1, max_size=12)


def _names() -> SearchStrategy[str]:
    return st.from_regex(r"[a-z_]{1,12}", fullmatch=True)


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
