"""The calls, results and texts of Strands as records, and back."""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolbus.errors import FreezeError
from toolbus.events.catalogue import ToolSpec
from toolbus.messages.immutable import replace_surrogates, thaw
from toolbus.messages.parts import text_of as text_of_part
from toolbus.messages.records import (
    ImagePart,
    Resource,
    ResourcePart,
    TextPart,
    ToolCall,
    ToolResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from toolbus.bridges.session import BridgeSession
    from toolbus.messages.records import Part
    from toolbus.tools.definitions import Tool


def call_of(use: Mapping[str, Any], name: str) -> ToolCall:
    """Return a use of the tool *name* as a call."""
    arguments = use["input"]
    if isinstance(arguments, dict):
        try:
            return ToolCall(id=use["toolUseId"], name=name, arguments=arguments)
        except FreezeError:  # Such as an integer of more than 64 bits.
            pass
    return ToolCall(id=use["toolUseId"], name=name, raw=json.dumps(arguments, default=repr))


def spec_of(spec: Mapping[str, Any], name: str) -> ToolSpec:
    """Return the *spec* of the tool *name*."""
    schema, annotations = spec["inputSchema"], spec.get("annotations") or {}
    description = spec.get("description") or ""
    schema = schema.get("json", schema)
    return ToolSpec(
        name=name, description=description, input_schema=schema, annotations=annotations
    )


async def specs_for_model(
    session: BridgeSession, specs: list[Any] | None, added: Iterable[Tool]
) -> list[Any] | None:
    """Return the *specs* of an agent's tools as handlers show them to the model, and *added*."""
    originals = {spec["name"]: spec for spec in specs or ()}
    known = [spec_of(spec, name) for name, spec in originals.items()]
    extra = [tool.spec for tool in added if tool.spec.name not in originals]
    shown = await session.adapt_tools(known, extra)
    return [
        {
            **originals.get(spec.name, {"name": spec.name}),
            "description": spec.description,
            "inputSchema": {"json": thaw(spec.input_schema)},
        }
        for spec in shown
    ] or None


def check_of(tool: Any) -> Callable[[Mapping[str, Any]], str | None] | None:
    """Return a function for the problem of arguments; None where only the tool itself checks.

    Functions are checked by pydantic, by no public name (strands-agents 1.62), and more
    leniently than by their schema: "1" is an integer.
    """
    validate = getattr(getattr(tool, "_metadata", None), "validate_input", None)
    if validate is None:
        return None

    def problem(arguments: Mapping[str, Any]) -> str | None:
        try:
            validate(dict(arguments))
        except ValueError as error:
            return str(error)
        return None

    return problem


def response_of(end: Any) -> ToolResponse:
    """Return the result in the last event of a tool as a response."""
    result, error = end.tool_result, end.exception
    blocks = result.get("content") or []
    structured = result.get("structuredContent")
    if structured is None and [*map(list, blocks)] == [["json"]]:
        blocks, structured = [], blocks[0]["json"]
    return ToolResponse(
        tuple(part for block in blocks if (part := _part_of(block)) is not None),
        structured=structured,
        is_error=result.get("status") == "error",
        error_type=type(error).__name__ if error is not None else None,
    )


def result_of(response: ToolResponse, end: Any, use_id: str) -> dict[str, Any]:
    """Return *response* as a result of the use *use_id*, for the tool's own in *end*.

    Blocks of data that is no text, such as videos, are left out.
    """
    result = {} if end is None else dict(end.tool_result)
    originals = {_part_of(block): block for block in result.get("content") or []}
    content = [originals.get(part) or _block_of(part) for part in response.content]
    if "structuredContent" in result:
        result["structuredContent"] = thaw(response.structured)
    elif response.structured is not None and not content:
        content = [{"json": thaw(response.structured)}]
    status = "error" if response.is_error else "success"
    return {**result, "toolUseId": use_id, "status": status, "content": content}


def _part_of(block: Mapping[str, Any]) -> Part | None:
    match block if len(block) == 1 else {}:  # Of several keys each model reads another.
        case {"text": str(text)}:
            return TextPart(text)
        case {"json": value}:
            return TextPart(json.dumps(value, default=str))
        case {"image": {"format": kind, "source": {"bytes": bytes(data)}}}:
            return ImagePart.from_bytes(data, f"image/{kind}")
        case {
            "document": {"format": kind, "name": name, "source": {"bytes": bytes(data)}, **others}
        } if not others:
            # A text type, because only such data is read, and binary data is found out.
            return ResourcePart(resource=Resource.from_bytes(data, f"text/{kind}", uri=name))
    try:
        return TextPart(json.dumps(block, default=_decoded))
    except (TypeError, ValueError):
        return None


def _decoded(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _block_of(part: Part) -> dict[str, Any]:
    match part:
        case ImagePart():
            return {"image": _file_of(part.mime_type, part.data)}
        case ResourcePart(resource=Resource(uri=name, blob=str(data), mime_type=str(mime_type))):
            return {"document": {"name": name, **_file_of(mime_type, data)}}
    return {"text": text_of_part(part) or ""}


def _file_of(mime_type: str, data: str) -> dict[str, Any]:
    return {"format": mime_type.rpartition("/")[2], "source": {"bytes": b64decode(data)}}


async def judged_output(session: BridgeSession, use: dict[str, Any]) -> dict[str, Any]:
    """Return *use*, a structured answer of the model, as handlers of answers leave it."""
    text = replace_surrogates(json.dumps(use["input"], ensure_ascii=False, default=str))
    read: Any = await session.answer(text)
    if read == text:
        return use
    with suppress(ValueError):  # A reason of a denial is no JSON, and no answer.
        read = json.loads(read)
    return {**use, "input": read}


def text_of(messages: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of *messages*, one block per line."""
    blocks = [block for message in messages for block in message["content"]]
    return "\n".join([block["text"] for block in blocks if "text" in block])


def with_text(messages: list[Any], text: str) -> list[Any]:
    """Return *messages* with *text* for all of their text, in the first block."""
    if text == text_of(messages):
        return messages
    rest = [
        {**message, "content": [block for block in message["content"] if "text" not in block]}
        for message in messages
    ]
    rest[0]["content"].insert(0, {"text": text})
    return [message for message in rest if message["content"]]


def with_answer(chunks: list[Any], text: str, answer: str) -> Iterator[Any]:
    """Yield *chunks* with *answer* for their *text*, in the first delta of it."""
    for chunk in chunks:
        delta = chunk.get("contentBlockDelta", {}).get("delta", {})
        if text == answer or not delta.get("text"):
            yield chunk
        elif answer:
            yield {"contentBlockDelta": {**chunk["contentBlockDelta"], "delta": {"text": answer}}}
            answer = ""
