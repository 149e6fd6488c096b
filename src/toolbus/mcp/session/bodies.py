"""Results and notifications as handlers see them: texts as parts, and the rest as JSON.

The texts for a model become parts of a `ToolResponse`, where adapters find any tool's text. All
other strings, of `_meta`, annotations, links and unknown fields, form the *rest*, which handlers
see as structured JSON. Of handshakes and tool lists, which programs depend on, handlers see a list
of the prose instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from msgspec import to_builtins

from toolbus.mcp.protocol.revisions import CALL, ERROR, LIST
from toolbus.mcp.session.prose import HANDSHAKES, OMITTED, rewrite_prose
from toolbus.messages.immutable import thaw
from toolbus.messages.parts import join_text
from toolbus.messages.records import (
    AudioPart,
    ImagePart,
    Part,
    Resource,
    ResourcePart,
    TextPart,
    ToolResponse,
)

Lift: TypeAlias = Callable[[Any], Part]
Lower: TypeAlias = Callable[[Any, Part], Any]

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of log messages: RFC 5424, 6.2.1."""

_BLOCK_TYPES = frozenset({"text", "image", "audio", "resource"})

_HOLDING = ("text", "blob", "data", "resource")
# A placeholder for a block of an unknown type, so that all blocks keep their positions.
_FOREIGN = ResourcePart(resource=Resource(uri="toolbus:foreign-block"))


class Body:
    """A body of an unknown kind; handlers see it as structured JSON in *response*.

    The given JSON is mutated, or becomes part of the lowered body.
    """

    response: ToolResponse
    needs_structure = True
    """Whether a text alone cannot represent the body."""

    def __init__(self, body: Any, *, is_error: bool = False) -> None:
        self.response = ToolResponse(structured=body, is_error=is_error)

    def lower(self, response: ToolResponse) -> Any:
        """Return the body for *response*, the handlers' output."""
        return thaw(response.structured)

    def has_lost_structure(self, response: ToolResponse) -> bool:
        """Return whether handlers removed the structured content from *response*."""
        return self.response.structured is not None and response.structured is None


class TextBody(Body):
    """A body with one text, in *member*; the *hidden* members are not shown to handlers."""

    needs_structure = False

    def __init__(
        self, body: dict[str, Any], member: str, hidden: tuple[str, ...], *, is_error: bool = False
    ) -> None:
        self._member = member
        self._hidden = {n: body.pop(n) for n in hidden if _is_plain(n, body.get(n))}
        is_text = isinstance(body.get(member), str)
        parts = (TextPart(text=body.pop(member)),) if is_text else ()
        self.response = ToolResponse(content=parts, structured=body or None, is_error=is_error)

    def lower(self, response: ToolResponse) -> Any:
        """Return the body with the text and the members of *response*."""
        body = _object(response.structured)
        if response.content:
            body[self._member] = join_text(response.content)
        return {**body, **self._hidden}


class ItemsBody(Body):
    """A body with items in *member*; *lift* extracts the part of an item, *lower* restores it."""

    needs_structure = False

    def __init__(self, body: dict[str, Any], member: str, lift: Lift, lower: Lower) -> None:
        self._member, self._lower = member, lower
        parts = _lift_all(body.get(member), lift)
        self.response = ToolResponse(content=parts, structured=body or None)

    def lower(self, response: ToolResponse) -> Any:
        """Return the body with the parts and the members of *response*."""
        return _with_items(_object(response.structured), self._member, response, self._lower)


class CallResult(Body):
    """The result of a tool call; its blocks are parts, and its *rest* is shown separately."""

    def __init__(self, body: dict[str, Any]) -> None:
        parts = _lift_all(body.get("content"), _lift_block)
        structured, failed = body.pop("structuredContent", None), body.get("isError") is True
        self.response = ToolResponse(content=parts, structured=structured, is_error=failed)
        self.rest = body

    @property
    def has_only_types(self) -> bool:
        """Whether the rest holds nothing but the types of blocks."""
        rest, items = self.rest, self.rest.get("content", [])
        known = rest.keys() <= {"isError", "content"} and isinstance(items, list)
        if not (known and isinstance(rest.get("isError", False), bool)):
            return False
        for item in items:  # noqa: SIM110 - a hot path, and `all` takes twice as long
            if not _has_only_type(item):
                return False
        return True

    def lower_result(self, response: ToolResponse, rest: Any) -> dict[str, Any]:
        """Return the result for *response* and *rest*, both after the handlers."""
        body = _with_items(_object(rest), "content", response, _lower_block)
        if response.structured is not None:
            body["structuredContent"] = thaw(response.structured)
        if response.is_error or "isError" in body:
            body["isError"] = response.is_error
        return body


class ProseBody(Body):
    """The result of *method*, a handshake or a tool list; handlers see a list of its prose.

    The text in *member* is for the model, and is shown as text.
    """

    needs_structure = False

    def __init__(self, body: dict[str, Any], method: str, member: str = "") -> None:
        self._body, self._method, self._member = body, method, member
        shown: list[Any] = []

        def show(prose: Any) -> Any:
            shown.append(prose)
            return prose

        rewrite_prose(method, body, show)
        text = body.get(member)
        parts = (TextPart(text=text),) if isinstance(text, str) else ()
        self.response = ToolResponse(content=parts, structured=shown or None)

    def lower(self, response: ToolResponse) -> Any:
        """Return the body with the handlers' prose, without prose if they replaced it by a text.

        Raises `ValueError` if handlers changed the number of items.
        """
        prose = thaw(response.structured)
        if prose is None:
            body = rewrite_prose(self._method, self._body, lambda _: OMITTED)
        elif not isinstance(prose, list) or len(prose) != len(self.response.structured):
            raise ValueError("a handler changed the number of texts; expected one for each")
        else:
            remaining = iter(prose)
            body = rewrite_prose(self._method, self._body, lambda _: next(remaining))
        if isinstance(self._body.get(self._member), str):
            body[self._member] = join_text(response.content)
        return body


def decode_body(method: str, body: Any, *, params: bool = False) -> Body:
    """Return *body*, the result of *method* or its *params*, as handlers see it.

    Raises `FreezeError` for values that a record cannot hold.
    """
    if not isinstance(body, dict):
        return Body(body, is_error=method == ERROR)
    return (_PARAMS if params else _RESULTS).get(method, Body)(body)


def refusal(reason: str) -> dict[str, Any]:
    """Return the result of a refused tool call."""
    return {"content": [{"type": "text", "text": reason}], "isError": True}


def rendered(response: ToolResponse) -> dict[str, Any]:
    """Return the result of a tool call for a response that is not the server's."""
    return {"content": [], **CallResult({}).lower_result(response, None)}


def _object(value: Any) -> dict[str, Any]:
    """Return a mutable copy of the object *value*, an empty object for any other JSON."""
    return thaw(value) if isinstance(value, dict) else {}


def _is_plain(name: str, value: Any) -> bool:
    """Return whether *value* can be hidden from handlers: a number, a level or a token."""
    if name == "level":
        return value in _LEVELS
    return isinstance(value, int | float) or (name == "progressToken" and isinstance(value, str))


def _has_only_type(item: Any) -> bool:
    return isinstance(item, dict) and item.keys() <= {"type"} and item.get("type") in _BLOCK_TYPES


# --- items and parts -----------------------------------------------------------------------------


def _lift_all(items: Any, lift: Lift) -> tuple[Part, ...]:
    return tuple([lift(item) for item in items]) if isinstance(items, list) else ()


def _with_items(
    body: dict[str, Any], member: str, response: ToolResponse, lower: Lower
) -> dict[str, Any]:
    """Return *body* with the parts of *response* put back into the items of *member*."""
    items, parts = body.get(member), response.content
    if parts or isinstance(items, list):
        bases = items if isinstance(items, list) else []
        bases = [*bases, *[None] * (len(parts) - len(bases))]
        lowered = [
            base if part == _FOREIGN else lower(base, part)
            for base, part in zip(bases, parts, strict=False)
        ]
        body[member] = lowered
    return body


def _lift_block(block: Any) -> Part:
    """Move the text or data of the content block *block* into a part, and return the part."""
    match block:
        case {"type": "text", "text": str()}:
            return TextPart(text=block.pop("text"))
        case {"type": "image", "data": str()}:
            return ImagePart(data=block.pop("data"), mime_type=_mime_type(block) or "")
        case {"type": "audio", "data": str()}:
            return AudioPart(data=block.pop("data"), mime_type=_mime_type(block) or "")
        case {"type": "resource", "resource": resource}:
            return _lift_resource(resource)
    return _FOREIGN


def _lower_block(base: Any, part: Part) -> Any:
    """Return the block of *part*, with the other members of *base* if that has the same type."""
    whole = to_builtins(part)
    if not isinstance(base, dict) or base.get("type") != part.type:
        return whole
    if "resource" in whole:
        whole["resource"] = _overlay(base.get("resource"), whole["resource"])
    return _overlay(base, whole)


def _lift_resource(resource: Any) -> Part:
    if not (isinstance(resource, dict) and isinstance(uri := resource.get("uri"), str)):
        return _FOREIGN
    texts = {n: resource.pop(n) for n in ("text", "blob") if isinstance(resource.get(n), str)}
    return ResourcePart(resource=Resource(uri=uri, mime_type=_mime_type(resource), **texts))


def _lower_resource(base: Any, part: Part) -> dict[str, Any]:
    """Return the resource of *part*, which may be a text by which a handler replaced it."""
    if isinstance(part, ResourcePart):
        return _overlay(base, to_builtins(part.resource))
    uri = base.get("uri") if isinstance(base, dict) else None
    return {"uri": uri if isinstance(uri, str) else "toolbus:answer", "text": join_text((part,))}


def _lift_message(message: Any) -> Part:
    return _lift_block(message.get("content")) if isinstance(message, dict) else _FOREIGN


def _lower_message(base: Any, part: Part) -> dict[str, Any]:
    message = base if isinstance(base, dict) else {"role": "user"}
    return {**message, "content": _lower_block(message.get("content"), part)}


def _mime_type(item: dict[str, Any]) -> str | None:
    mime_type = item.get("mimeType")
    return mime_type if isinstance(mime_type, str) else None


def _overlay(base: Any, whole: dict[str, Any]) -> dict[str, Any]:
    """Return *base* with the text or data of *whole*; *whole* if *base* is not an object."""
    if not isinstance(base, dict):
        return whole
    return {**base, **{name: whole[name] for name in _HOLDING if name in whole}}


_RESULTS: dict[str, Callable[[dict[str, Any]], Body]] = {
    CALL: CallResult,
    ERROR: partial(TextBody, member="message", hidden=("code",), is_error=True),
    LIST: partial(ProseBody, method=LIST),
    **{name: partial(ProseBody, method=name, member="instructions") for name in HANDSHAKES},
    "resources/read": partial(
        ItemsBody, member="contents", lift=_lift_resource, lower=_lower_resource
    ),
    "prompts/get": partial(ItemsBody, member="messages", lift=_lift_message, lower=_lower_message),
}
_PARAMS: dict[str, Callable[[dict[str, Any]], Body]] = {
    "notifications/message": partial(TextBody, member="data", hidden=("level",)),
    "notifications/progress": partial(
        TextBody, member="message", hidden=("progressToken", "progress", "total")
    ),
}
