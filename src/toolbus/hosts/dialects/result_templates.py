"""The texts in the JSON of a tool's result, and the replacement of each text in its place.

A template describes the parts of the JSON that are the host's own, and not texts of the tool:
`{"stdout": …, "stderr": …, "interrupted": false}`. A host may ignore a result of a different shape,
and then the model reads the original.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from toolbus.errors import DecodeError
from toolbus.messages.immutable import MAX_DEPTH, replace_surrogates
from toolbus.messages.records import AudioPart, ImagePart, Part, Resource, ResourcePart, TextPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.messages.records import ToolResponse

Change: TypeAlias = "Callable[[Part], Part]"

WITHHELD_NAME = (
    "toolbus withheld this result: handlers changed the name of a member in it, "
    "and a name cannot be replaced"
)

_MIME_TYPE = re.compile(r"(?:image|audio|video|text|application|font|model)/[\w.+-]{1,80}")
_MIME_NAMES = ("mimeType", "mediaType", "media_type", "type")
_DATA_NAMES = frozenset({"data", "base64", "blob"})
_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]+={0,2}\s*")
_MEDIA_TYPES = ("image", "audio", "base64")
_SHORTEST = 128
"""The fewest characters of base64 data in a member that may be a text; keys are shorter."""
_COPIES = ("structuredContent", "_meta")
"""Members of an MCP result that repeat or describe its content."""

_FIXED = re.compile(
    r".{0,19}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|toolu_\w{24}|data:[^,]*;base64,.*"
)
"""A type or an id that a host writes; a longer value may be a text of the tool, or a secret."""
_IDENTIFIER = re.compile(r"[a-z][A-Za-z_]{0,39}")


class ResultTemplate(Struct, frozen=True, kw_only=True):
    """The parts of a tool's results that its host wrote, and that are not texts.

    Args:
        names: the names of members in these results; all other names count as texts.
        identifiers: whether each name that is an identifier counts as a member's name.
        words: the values that the host writes, such as types, by the name of the member.
        fixed: the names of members that the host writes, if their values are as short as types
            and ids.
        media: the names of members with base64 data, of any type.
        main: paths of texts that can hold a whole new text; the first existing one is used.
        excerpts: the names of members with excerpts of the other texts, which the model does not
            read: they are not parts, and a changed result loses them. A secret that only the head
            of its column reveals could not be found in them.
    """

    names: frozenset[str] = frozenset()
    identifiers: bool = False
    words: Mapping[str, frozenset[str]] = {}
    fixed: frozenset[str] = frozenset()
    media: frozenset[str] = frozenset()
    main: tuple[tuple[str, ...], ...] = ()
    excerpts: frozenset[str] = frozenset()


BLOCKS = ResultTemplate(
    names=frozenset(
        {
            *("type", "text", "data", "mimeType", "resource", "uri", "blob", "name", "title"),
            *("description", "annotations", "audience", "priority", "lastModified", "size"),
            *("content", "structuredContent", "isError", "_meta"),
            *("source", "media_type"),
        }
    ),
    words={
        "type": frozenset({"text", "image", "audio", "resource", "resource_link", "base64"}),
        "audience": frozenset({"user", "assistant"}),
    },
)
"""The template for results of MCP servers: a list of content blocks, or an object with `content`
(https://modelcontextprotocol.io/specification/2025-11-25/server/tools); images of Anthropic's API
have a `source`."""


class _NameChangedError(Exception):
    """The name of a member was changed."""


def parts_in(value: Any, template: ResultTemplate) -> tuple[Part, ...]:
    """Return a text part for each nonempty text in the JSON *value*, in order.

    Names of members that the *template* does not have are texts, too; base64 data of a stated type
    is a part of its own kind. Raises `DecodeError` for a value that is nested too deeply.
    """
    parts: list[Part] = []

    def note(part: Part) -> Part:
        parts.append(part)
        return part

    _walk(value, template, note)
    return tuple(parts)


def put_back(
    value: Any, template: ResultTemplate, before: ToolResponse, after: ToolResponse
) -> Any:
    """Return *value* with the texts of *after*; *before* has the parts that `parts_in` returned.

    Parts of the same number and kinds are put back in their places; otherwise the whole text of
    *after* goes to the main place of the *template*. None if there is none.
    """
    if before.content == after.content:
        return value
    in_place = put_in_place(value, template, before, after)
    return put_whole(value, template, whole_text(before, after)) if in_place is None else in_place


def put_in_place(
    value: Any, template: ResultTemplate, before: ToolResponse, after: ToolResponse
) -> Any:
    """Return *value* with each part of *after* in its place; None if that is impossible.

    It is impossible if the number or kinds of parts differ from *before*, or a name was changed.
    """
    if not _are_alike(before, after):
        return None
    parts = iter(after.content)
    try:
        return _walk(value, template, lambda _: next(parts))
    except _NameChangedError:
        return None


def whole_text(before: ToolResponse, after: ToolResponse) -> str:
    """Return the single text that replaces a result if the parts of *after* cannot be put back."""
    return WITHHELD_NAME if _are_alike(before, after) else after.text


def put_whole(value: Any, template: ResultTemplate, text: str) -> Any:
    """Return *value* with *text* as its only text; None if it has no place for a text.

    Content blocks become a single one. A main place beside media does not count: the host would
    read the text as media.
    """
    if isinstance(value, str):
        return text
    if are_blocks(value):
        return [{"type": "text", "text": text}]
    if not isinstance(value, dict):
        return None
    if are_blocks(value.get("content")):
        empty = _emptied({**value, "content": None}, template)
        others = {key: item for key, item in empty.items() if key not in _COPIES}
        return {**others, "content": [{"type": "text", "text": text}]}
    path = next((path for path in template.main if isinstance(_item_at(value, path), str)), None)
    if path is None or any(not isinstance(part, TextPart) for part in parts_in(value, template)):
        return None
    return _with_text(_emptied(value, template), path, text)


def are_blocks(value: Any) -> bool:
    """Return whether *value* is a list of content blocks, or an empty list."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("type"), str) for item in value
    )


def _are_alike(before: ToolResponse, after: ToolResponse) -> bool:
    return [*map(type, before.content)] == [*map(type, after.content)]


def _walk(
    value: Any, template: ResultTemplate, change: Change, name: str = "", depth: int = 0
) -> Any:
    """Return *value*, the member *name* or an item of it, with *change* applied to its parts."""
    if depth > MAX_DEPTH:
        raise DecodeError(f"the result is nested deeper than {MAX_DEPTH} levels", "$")
    match value:
        case str() if value and not _is_word(value, name, template):
            return _changed(value, TextPart(text=replace_surrogates(value)), change)
        case list() | tuple():
            return [_walk(item, template, change, name, depth + 1) for item in value]
        case dict():
            return dict(_walk_members(value, template, change, depth + 1))
    return value


def _walk_members(
    value: dict[str, Any], template: ResultTemplate, change: Change, depth: int
) -> Iterator[tuple[str, Any]]:
    mime_name = next((name for name in _MIME_NAMES if _is_mime_type(value.get(name))), "")
    for key, item in value.items():
        if key in template.excerpts:
            yield key, _emptied(item, template, key)
            continue
        _check_name(key, template, change)
        if mime_name and key == mime_name:
            yield key, item
        elif _is_data(key, value, template, typed=bool(mime_name)):
            mime_type = value[mime_name] if mime_name else "application/octet-stream"
            yield key, _changed(item, _media(replace_surrogates(item), mime_type), change)
        else:
            yield key, _walk(item, template, change, key, depth)


def _check_name(key: str, template: ResultTemplate, change: Change) -> None:
    """Raise `_NameChangedError` if *change* changes *key*: a name cannot be replaced."""
    if not _is_name(key, template):
        part = TextPart(text=replace_surrogates(key))
        if change(part) != part:
            raise _NameChangedError


def _changed(text: str, part: Part, change: Change) -> str:
    """Return *text*, which is *part*, with *change* applied."""
    match change(part):
        case same if same == part:
            return text
        case TextPart(text=new):
            return new
        case ImagePart(data=new) | AudioPart(data=new):
            return new
        case ResourcePart(resource=resource):
            return resource.text or resource.blob or ""
    return ""


def _is_name(key: str, template: ResultTemplate) -> bool:
    """Return whether *key* is a name of the host's own."""
    if not key or key in template.names or key in template.media:
        return True
    return template.identifiers and _IDENTIFIER.fullmatch(key) is not None


def _is_word(text: str, name: str, template: ResultTemplate) -> bool:
    """Return whether the host wrote *text* in the member *name*."""
    return text in template.words.get(name, ()) or (
        name in template.fixed and _FIXED.fullmatch(text) is not None
    )


def _is_mime_type(value: Any) -> bool:
    return isinstance(value, str) and _MIME_TYPE.fullmatch(value) is not None


def _is_data(key: str, value: Mapping[str, Any], template: ResultTemplate, *, typed: bool) -> bool:
    """Return whether the member *key* of *value* is base64 data; *typed* if a type is stated."""
    is_known, item = key in template.media, value[key]
    if not is_known and not (typed and key in _DATA_NAMES):
        return False
    if not isinstance(item, str) or _BASE64.fullmatch(item) is None:
        return False
    is_resource = key == "blob" and "uri" in value
    return is_known or is_resource or value.get("type") in _MEDIA_TYPES or len(item) >= _SHORTEST


def _media(data: str, mime_type: str) -> Part:
    if mime_type.startswith("image/"):
        return ImagePart(data=data, mime_type=mime_type)
    if mime_type.startswith("audio/"):
        return AudioPart(data=data, mime_type=mime_type)
    return ResourcePart(resource=Resource(uri="", mime_type=mime_type, blob=data))


def _emptied(value: Any, template: ResultTemplate, name: str = "") -> Any:
    """Return *value* without its texts, and without members whose names may be texts."""
    match value:
        case str():
            return value if _is_word(value, name, template) else ""
        case list() | tuple():
            return (
                []
                if name in template.excerpts
                else [_emptied(item, template, name) for item in value]
            )
        case dict():
            members = [(key, item) for key, item in value.items() if _is_name(key, template)]
            return {key: _emptied(item, template, key) for key, item in members}
    return value


def _item_at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _with_text(value: Any, path: tuple[str, ...], text: str) -> Any:
    if not path:
        return text
    return {**value, path[0]: _with_text(value[path[0]], path[1:], text)}
