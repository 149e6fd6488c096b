"""What handlers see of an answer or a notification: its texts as parts, and the rest as JSON.

What the model reads becomes parts of a `ToolResponse`, so that adapters find it where they find
any tool's text. All other strings, of `_meta`, annotations, links and fields that nobody knows
yet, are the *rest*: it is shown as structured JSON. Of a handshake and a list of tools, which
programs live on, a list of the words is shown instead.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from toolbus.mcp.proxy.words import HANDSHAKES, LIST, Place, Slot, find_words
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

Kind = Literal["blocks", "resources", "messages", "text", "words", "whole"]


class Layout(NamedTuple):
    """Where a method's texts are: *at* a member; the members *keep* are no handler's concern."""

    kind: Kind
    at: str = ""
    keep: tuple[str, ...] = ()


CALL, ERROR = "tools/call", "error"

_RESULTS = {
    CALL: Layout("blocks", "content"),
    "resources/read": Layout("resources", "contents"),
    "prompts/get": Layout("messages", "messages"),
    LIST: Layout("words"),
    **dict.fromkeys(HANDSHAKES, Layout("words", "instructions")),
    ERROR: Layout("text", "message", keep=("code",)),
}
_PARAMS = {
    "notifications/message": Layout("text", "data", keep=("level",)),
    "notifications/progress": Layout("text", "message", ("progressToken", "progress", "total")),
}
_WHOLE = Layout("whole")

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of log messages; see RFC 5424, 6.2.1."""

_BARE = frozenset({"text", "image", "audio", "resource"})


class Seen(NamedTuple):
    """A body as handlers see it: the *response*, and *rest* if that is shown by itself.

    Of a body with *words* those are shown, and put back into *kept*, which is the body.
    """

    layout: Layout
    response: ToolResponse
    rest: Any
    kept: dict[str, Any]
    words: tuple[Place, ...] = ()

    @property
    def bare(self) -> bool:
        """Whether the rest holds nothing but the kinds of blocks that have their text elsewhere."""
        rest, items = self.rest, self.rest.get(self.layout.at, [])
        known = rest.keys() <= {"isError", self.layout.at} and isinstance(items, list)
        if not (known and isinstance(rest.get("isError", False), bool)):
            return False
        for one in items:  # noqa: SIM110 - for each call, and `all` takes twice as long
            if not _is_bare(one):
                return False
        return True

    def body(self, response: ToolResponse, rest: Any) -> Any:
        """Return the body that says *response*, with *rest* as handlers left that."""
        kind, at = self.layout.kind, self.layout.at
        if kind == "whole":
            return thaw(response.structured)
        if kind == "words":
            return self._reworded(response)
        body = thaw(rest) if isinstance(rest, dict) else {}
        if kind == "text":
            if response.content:
                body[at] = join_text(response.content)
        elif response.content or isinstance(body.get(at), list):
            bases = body.get(at)
            items = bases if isinstance(bases, list) else []
            body[at] = [
                _lower(kind, items[index] if index < len(items) else None, part)
                for index, part in enumerate(response.content)
            ]
        return {**body, **self.kept}

    def _reworded(self, response: ToolResponse) -> Any:
        """Return the body with the words that handlers left, without them if they left a text."""
        words = thaw(response.structured)
        if words is None:
            for slot in self.words:
                slot.clear()
        elif not isinstance(words, list) or len(words) != len(self.words):
            raise ValueError("a handler left other words than there are places for")
        else:
            for slot, word in zip(self.words, words, strict=True):
                slot.put(word)
        if self.layout.at in self.kept:
            self.kept[self.layout.at] = join_text(response.content)
        return self.kept

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


def see(method: str, body: Any, *, params: bool = False) -> Seen:
    """Return *body*, the result of *method* or its *params*, as handlers see it.

    The body is used up, or part of what comes back. Raises `FreezeError` for what no record can
    hold.
    """
    layout = (_PARAMS if params else _RESULTS).get(method, _WHOLE)
    if layout.kind == "whole" or not isinstance(body, dict):
        response = ToolResponse(structured=body, is_error=method == ERROR)
        return Seen(_WHOLE, response, None, {})
    if layout.kind == "words":
        return _see_words(method, layout, body)
    kept = {name: body.pop(name) for name in layout.keep if _is_plain(name, body.get(name))}
    if layout.kind == "text":
        texts = isinstance(body.get(layout.at), str)
        parts: tuple[Part, ...] = (TextPart(text=body.pop(layout.at)),) if texts else ()
    else:
        items = body.get(layout.at)
        parts = tuple(
            [_lift(layout.kind, one) for one in (items if isinstance(items, list) else ())]
        )
    if method == CALL:
        structured, failed = body.pop("structuredContent", None), body.get("isError") is True
        response = ToolResponse(content=parts, structured=structured, is_error=failed)
        return Seen(layout, response, body, kept)
    response = ToolResponse(content=parts, structured=body or None, is_error=method == ERROR)
    return Seen(layout, response, None, kept)


def _see_words(method: str, layout: Layout, body: dict[str, Any]) -> Seen:
    words = tuple(find_words(method, body))
    text = body.get(layout.at)
    parts = (TextPart(text=text),) if isinstance(text, str) else ()
    if text is not None and not parts:
        words = (*words, Slot(body, layout.at))
    shown = [slot.value for slot in words]
    return Seen(layout, ToolResponse(content=parts, structured=shown or None), None, body, words)


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
    return {"content": [], **Seen(_RESULTS[CALL], response, None, {}).result(response, None)}


def _is_bare(item: Any) -> bool:
    return isinstance(item, dict) and item.keys() <= {"type"} and item.get("type") in _BARE


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
    found = item.get("mimeType")
    return found if isinstance(found, str) else None


def _lower(kind: Kind, base: Any, part: Part) -> Any:
    """Return the item that says *part*; what else it says comes from *base*, if that is alike."""
    if part == _FOREIGN:
        return base
    if kind == "messages":
        message = base if isinstance(base, dict) else {"role": "user"}
        return {**message, "content": _lower("blocks", message.get("content"), part)}
    if kind == "resources":
        if isinstance(part, ResourcePart):
            return _lower_resource(base, part.resource)
        return {"uri": _uri_of(base), "text": join_text((part,))}
    alike = base if isinstance(base, dict) and base.get("type") == part.type else {}
    return {"type": part.type, **alike, **_members(part, alike)}


def _members(part: Part, base: dict[str, Any]) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"text": text}
        case ResourcePart(resource=resource):
            return {"resource": _lower_resource(base.get("resource"), resource)}
        case ImagePart(data=data, mime_type=mime) | AudioPart(data=data, mime_type=mime):
            return {"mimeType": base.get("mimeType", mime), "data": data}


def _lower_resource(base: Any, resource: Resource) -> dict[str, Any]:
    said = {"uri": resource.uri, "mimeType": resource.mime_type}
    texts = {"text": resource.text, "blob": resource.blob}
    known = base if isinstance(base, dict) else {k: v for k, v in said.items() if v is not None}
    return {**known, **{name: text for name, text in texts.items() if text is not None}}


def _uri_of(base: Any) -> str:
    found = base.get("uri") if isinstance(base, dict) else None
    return found if isinstance(found, str) else "toolbus:answer"


_FOREIGN = ResourcePart(resource=Resource(uri="toolbus:foreign-block"))
