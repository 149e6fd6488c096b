"""The walker that rewrites the texts in parts and JSON values.

A visitor decides the new texts. A value is rebuilt only where a text changed; an unchanged value is
returned as the same object. See `record_walker` for whole records.
"""

from __future__ import annotations

import re
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolbus.messages.blobs import text_in
from toolbus.messages.immutable import FrozenDict, freeze
from toolbus.messages.parts import ResourcePart, TextPart, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.messages.parts import Part, Resource

S = TypeVar("S", bound=Struct)
Rewrite: TypeAlias = "Callable[[tuple[str, ...], str], tuple[str, ...]]"
"""Takes adjacent texts and the key of their JSON member; returns as many texts."""

_TEXT_TYPE = (
    r"(?i)text/|(?:application|image)/(?:[\w.-]+\+)?"
    r"(?:json|xml|svg|toml|sql|(?:x-)?(?:yaml|javascript|ndjson|sh))\b"
)


class TextVisitor:
    """The decisions about texts; a subclass overrides the methods that it needs."""

    def texts(self, texts: tuple[str, ...], key: str = "", /) -> tuple[str, ...]:  # noqa: ARG002
        """Return as many texts in place of the adjacent *texts*.

        They are all texts of a record's parts, or all strings of an array; else a single text.
        *key* is the name of their JSON member.
        """
        return texts

    def json(self, value: Any) -> Any:
        """Return the replacement of the frozen JSON *value* of a field (not of a member)."""
        return rewrite_json(value, self.texts)

    def part(self, part: Part) -> Part:
        """Return the final replacement of *part*, not a text part, or *part* to go on with it."""
        return part

    def address(self, uri: str) -> str:
        """Return the replacement of a resource's URI."""
        return self.texts((uri,))[0]

    def reads(self, mime_type: str | None) -> bool:
        """Return whether to decode base64 data of *mime_type*; it may turn out to be binary."""
        return is_text_type(mime_type)

    def covers(self, tool_name: str) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether to visit a model's call of *tool_name*."""
        return True


class TextMapper(TextVisitor):
    """Changes every text that a model could read, each separately."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change

    def texts(self, texts: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Return each of the *texts* changed."""
        return tuple(map(self._change, texts))

    def address(self, uri: str) -> str:
        """Return *uri* unchanged: programs read it, models do not."""
        return uri


def rewrite_parts(parts: tuple[Part, ...], visitor: TextVisitor) -> tuple[Part, ...]:
    """Return *parts* rewritten."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):  # As most are.
        (new,) = visitor.texts((parts[0].text,))
        return parts if new == parts[0].text else (TextPart(text=new),)
    texts = tuple([text for part in parts if (text := text_of(part)) is not None])
    rewritten = iter(visitor.texts(texts) if texts else ())
    return unless_same([_rewrite_part(part, visitor, rewritten) for part in parts], parts)


def rewrite_json(
    value: Any, texts: Rewrite, number: Callable[[int, str], Any] | None = None, key: str = ""
) -> Any:
    """Return the frozen JSON *value* with its strings and member names rewritten by *texts*.

    Integers are rewritten by *number*. Names that become equal are numbered: `[a]`, `[a] (2)`.
    """
    kind = type(value)
    if kind is str:
        return _unless_equal(texts((value,), key)[0], value)
    if kind is FrozenDict:
        return _rewrite_object(value, texts, number)
    if kind is tuple:
        if len(value) > 1 and {*map(type, value)} == {str}:
            return _unless_equal(texts(value, key), value)
        return unless_same([rewrite_json(item, texts, number, key) for item in value], value)
    if kind is int and number is not None:
        return number(value, key)
    return value


def updated(record: S, **fields: object) -> S:
    """Return *record* with *fields*; the same object if it has these very objects already."""
    new = {name: value for name, value in fields.items() if value is not getattr(record, name)}
    return replace(record, **new) if new else record


def is_text_type(mime_type: str | None) -> bool:
    """Return whether data of *mime_type* is text, such as SVG and JSON."""
    return mime_type is not None and re.match(_TEXT_TYPE, mime_type) is not None


def _rewrite_object(value: FrozenDict, texts: Rewrite, number: Any) -> FrozenDict:
    members: dict[str, Any] = {}
    counts: dict[str, int] = {}
    same = True
    for key, item in value.items():
        name, new = texts((key,), "")[0], rewrite_json(item, texts, number, key)
        same = same and name == key and new is item
        unique = name
        while unique in members:
            counts[name] = counts.get(name, 1) + 1
            unique = f"{name} ({counts[name]})"
        members[unique] = new
    return value if same else freeze(members)


def _rewrite_part(part: Part, visitor: TextVisitor, texts: Iterator[str]) -> Part:
    """Return *part* rewritten; the next item of *texts* replaces its text, if it has one."""
    if isinstance(part, TextPart):
        return updated(part, text=_unless_equal(next(texts), part.text))
    text = None if text_of(part) is None else next(texts)
    if (other := visitor.part(part)) is not part:
        return other
    if isinstance(part, ResourcePart):
        return updated(part, resource=_rewrite_resource(part.resource, text, visitor))
    return updated(part, data=_rewrite_data(part.data, part.mime_type, visitor))


def _rewrite_resource(resource: Resource, text: str | None, visitor: TextVisitor) -> Resource:
    return updated(
        resource,
        text=_unless_equal(text, resource.text),
        blob=_rewrite_data(resource.blob, resource.mime_type, visitor),
        uri=_unless_equal(visitor.address(resource.uri), resource.uri),
    )


def _rewrite_data(data: str | None, mime_type: str | None, visitor: TextVisitor) -> str | None:
    if not data or not visitor.reads(mime_type) or (blob := text_in(data)) is None:
        return data
    new = rewrite_text(blob.text, visitor)
    return data if new is blob.text else blob.encoded(new)


def rewrite_text(text: str | None, visitor: TextVisitor) -> Any:
    """Return *text* rewritten; an empty one as it is."""
    return _unless_equal(visitor.texts((text,))[0], text) if text else text


def _unless_equal(new: Any, before: Any) -> Any:
    """Return *before* if *new* equals it, so that an unchanged value is the same object."""
    return before if new == before else new


def unless_same(items: list[Any], before: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *before* if *items* are its very objects, else *items*."""
    same = len(items) == len(before) and all(map(is_, items, before))
    return before if same else tuple(items)
