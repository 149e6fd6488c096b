"""What handlers see of an answer or a notification: its texts as parts, and the rest as JSON.

What the model reads becomes parts of a `ToolResponse`, so that adapters find it where they find
any tool's text. All other strings, of `_meta`, annotations, links and fields that nobody knows
yet, are the *rest*: it is shown as structured JSON. Of a handshake and a list of tools, which
programs live on, a list of the prose is shown instead.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from msgspec import to_builtins

from toolbus.mcp.protocol.revisions import CALL, ERROR, LIST
from toolbus.mcp.session.prose import GONE, HANDSHAKES, rewrite_prose
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

Kind = Literal["blocks", "resources", "messages", "text", "prose", "whole"]


class Layout(NamedTuple):
    """Where a method's texts are: in *member*; those named in *hidden* are no handler's concern."""

    kind: Kind
    member: str = ""
    hidden: tuple[str, ...] = ()


_RESULTS = {
    CALL: Layout("blocks", "content"),
    "resources/read": Layout("resources", "contents"),
    "prompts/get": Layout("messages", "messages"),
    LIST: Layout("prose"),
    **dict.fromkeys(HANDSHAKES, Layout("prose", "instructions")),
    ERROR: Layout("text", "message", hidden=("code",)),
}
_PARAMS = {
    "notifications/message": Layout("text", "data", hidden=("level",)),
    "notifications/progress": Layout("text", "message", ("progressToken", "progress", "total")),
}
_WHOLE = Layout("whole")

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of log messages; see RFC 5424, 6.2.1."""

_BARE = frozenset({"text", "image", "audio", "resource"})


class DecodedBody(NamedTuple):
    """A body as handlers see it: the *response*, and *rest* if that is shown by itself.

    *unshown* are members that are put back as they were. Of the result of *method* with prose that
    alone is shown, and *unshown* is the whole body.
    """

    layout: Layout
    response: ToolResponse
    rest: Any
    unshown: dict[str, Any]
    method: str = ""

    @property
    def bare(self) -> bool:
        """Whether the rest, if there is one, holds nothing but the kinds of blocks."""
        if self.rest is None:
            return True
        rest, items = self.rest, self.rest.get(self.layout.member, [])
        known = rest.keys() <= {"isError", self.layout.member} and isinstance(items, list)
        if not (known and isinstance(rest.get("isError", False), bool)):
            return False
        for item in items:  # noqa: SIM110 - for each call, and `all` takes twice as long
            if not _is_bare(item):
                return False
        return True

    def body(self, response: ToolResponse, rest: Any) -> Any:
        """Return the body that says *response*, with *rest* as handlers left that."""
        kind, member = self.layout.kind, self.layout.member
        if kind == "whole":
            return thaw(response.structured)
        if kind == "prose":
            return self._reworded(response)
        body = thaw(rest) if isinstance(rest, dict) else {}
        if kind == "text":
            if response.content:
                body[member] = join_text(response.content)
        elif response.content or isinstance(body.get(member), list):
            body[member] = _lower_all(kind, body.get(member), response.content)
        return {**body, **self.unshown}

    def _reworded(self, response: ToolResponse) -> Any:
        """Return the body with the prose that handlers left, without any if they left a text."""
        prose = thaw(response.structured)
        if prose is None:
            body = rewrite_prose(self.method, self.unshown, lambda _: GONE)
        elif not isinstance(prose, list) or len(prose) != len(self.response.structured):
            raise ValueError("a handler left other words than there are places for")
        else:
            remaining = iter(prose)
            body = rewrite_prose(self.method, self.unshown, lambda _: next(remaining))
        if isinstance(self.unshown.get(self.layout.member), str):
            body[self.layout.member] = join_text(response.content)
        return body

    def result(self, response: ToolResponse, rest: Any) -> Any:
        """Return the result of a tool call that says *response*."""
        body = self.body(response, rest)
        if not isinstance(body, dict):
            return body
        if response.structured is not None:
            body["structuredContent"] = thaw(response.structured)
        if response.is_error or "isError" in body:
            body["isError"] = response.is_error
        return body


def decode_body(method: str, body: Any, *, params: bool = False) -> DecodedBody:
    """Return *body*, the result of *method* or its *params*, as handlers see it.

    The body is used up, or part of what comes back. Raises `FreezeError` for what no record can
    hold.
    """
    layout = (_PARAMS if params else _RESULTS).get(method, _WHOLE)
    if layout.kind == "whole" or not isinstance(body, dict):
        response = ToolResponse(structured=body, is_error=method == ERROR)
        return DecodedBody(_WHOLE, response, None, {})
    if layout.kind == "prose":
        return _decode_prose(method, layout, body)
    unshown = {name: body.pop(name) for name in layout.hidden if _is_plain(name, body.get(name))}
    parts = _lift_all(layout, body)
    if method == CALL:
        structured, failed = body.pop("structuredContent", None), body.get("isError") is True
        response = ToolResponse(content=parts, structured=structured, is_error=failed)
        return DecodedBody(layout, response, body, unshown)
    response = ToolResponse(content=parts, structured=body or None, is_error=method == ERROR)
    return DecodedBody(layout, response, None, unshown)


def _decode_prose(method: str, layout: Layout, body: dict[str, Any]) -> DecodedBody:
    shown: list[Any] = []

    def show(prose: Any) -> Any:
        shown.append(prose)
        return prose

    rewrite_prose(method, body, show)
    text = body.get(layout.member)
    parts = (TextPart(text=text),) if isinstance(text, str) else ()
    response = ToolResponse(content=parts, structured=shown or None)
    return DecodedBody(layout, response, None, body, method)


def _is_plain(name: str, value: Any) -> bool:
    """Tell whether *value* is of the kind that no handler need see: a number, or a known word."""
    if name == "level":
        return value in _LEVELS
    return isinstance(value, int | float) or (name == "progressToken" and isinstance(value, str))


def refusal(reason: str) -> dict[str, Any]:
    """Return the result of a tool call that was refused."""
    return {"content": [{"type": "text", "text": reason}], "isError": True}


def rendered(response: ToolResponse) -> Any:
    """Return the result of a tool call that no server gave."""
    return {"content": [], **DecodedBody(_RESULTS[CALL], response, None, {}).result(response, None)}


def _is_bare(item: Any) -> bool:
    return isinstance(item, dict) and item.keys() <= {"type"} and item.get("type") in _BARE


def _lift_all(layout: Layout, body: dict[str, Any]) -> tuple[Part, ...]:
    """Return the parts that the member of *layout* holds, and take their texts out of there."""
    items = body.get(layout.member)
    if isinstance(items, list):
        return () if layout.kind == "text" else tuple([_lift(layout.kind, item) for item in items])
    if layout.kind == "text" and isinstance(items, str):
        return (TextPart(text=body.pop(layout.member)),)
    return ()


def _lift(kind: Kind, item: Any) -> Part:
    """Return the text or data of *item* as a part, and take it out of there."""
    match kind, item:
        case "messages", {"content": dict(block)}:
            return _lift("blocks", block)
        case "resources", {"uri": str(uri)}:
            return ResourcePart(resource=_resource(uri, item))
        case "blocks", {"type": "text", "text": str()}:
            return TextPart(text=item.pop("text"))
        case "blocks", {"type": "image", "data": str()}:
            return ImagePart(data=item.pop("data"), mime_type=_mime_type(item) or "")
        case "blocks", {"type": "audio", "data": str()}:
            return AudioPart(data=item.pop("data"), mime_type=_mime_type(item) or "")
        case "blocks", {"type": "resource", "resource": {"uri": str(uri)} as inner}:
            return ResourcePart(resource=_resource(uri, inner))
    return _FOREIGN


def _resource(uri: str, item: dict[str, Any]) -> Resource:
    texts = {name: item.pop(name) for name in ("text", "blob") if isinstance(item.get(name), str)}
    return Resource(uri=uri, mime_type=_mime_type(item), **texts)


def _mime_type(item: dict[str, Any]) -> str | None:
    mime_type = item.get("mimeType")
    return mime_type if isinstance(mime_type, str) else None


def _lower_all(kind: Kind, bases: Any, parts: tuple[Part, ...]) -> list[Any]:
    items = bases if isinstance(bases, list) else []
    padded = [*items, *[None] * (len(parts) - len(items))]
    return [_lower(kind, base, part) for base, part in zip(padded, parts, strict=False)]


def _lower(kind: Kind, base: Any, part: Part) -> Any:
    """Return the item that says *part*; what else it says comes from *base*, if that is alike."""
    if part == _FOREIGN:
        return base
    if kind == "messages":
        message = base if isinstance(base, dict) else {"role": "user"}
        return {**message, "content": _lower("blocks", message.get("content"), part)}
    if kind == "resources":
        return _lower_resource(base, part)
    whole = to_builtins(part)
    if not isinstance(base, dict) or base.get("type") != part.type:
        return whole
    if "resource" in whole:
        whole["resource"] = _laid_over(base.get("resource"), whole["resource"])
    return _laid_over(base, whole)


def _lower_resource(base: Any, part: Part) -> dict[str, Any]:
    """Return the resource that says *part*, which is one, or a text that a handler left of one."""
    if isinstance(part, ResourcePart):
        return _laid_over(base, to_builtins(part.resource))
    uri = base.get("uri") if isinstance(base, dict) else None
    return {"uri": uri if isinstance(uri, str) else "toolbus:answer", "text": join_text((part,))}


def _laid_over(base: Any, whole: dict[str, Any]) -> dict[str, Any]:
    """Return *base* with text or data of *whole*; *whole* itself if *base* is no object."""
    if not isinstance(base, dict):
        return whole
    return {**base, **{name: whole[name] for name in _HOLDING if name in whole}}


_HOLDING = ("text", "blob", "data", "resource")
# Stands for a block that no part can hold, so that the others keep their places.
_FOREIGN = ResourcePart(resource=Resource(uri="toolbus:foreign-block"))
