"""The texts in arguments where a tool takes a number or a boolean.

Frameworks convert such texts after the handlers, so a rule about 5 would not judge "5" or " 5 ".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolbus.messages import schemas
from toolbus.messages.immutable import thaw
from toolbus.tools.lenient import converted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall

_CONVERTED = frozenset({"integer", "number", "boolean", "null"})
"""The types of JSON schema to which frameworks convert texts."""


def converted_call(
    call: ToolCall, spec: ToolSpec, check: Callable[[Mapping[str, Any]], str | None] | None
) -> ToolCall:
    """Return *call* with texts as the values that *spec* has, if *check* accepts the texts.

    The framework converts them later. Guards judge what the tool gets: 5, not "5".
    """
    if call.raw is not None or schemas.problem(spec.input_schema, call.arguments) is None:
        return call
    arguments = converted(call.arguments, spec.input_schema)
    is_strict = check is not None and check(thaw(call.arguments)) is not None
    return call if is_strict or arguments is call.arguments else call.with_arguments(arguments)


def text_for_number(value: Any, schema: Any, place: str = "$") -> str | None:
    """Return the place of a text in *value* where *schema* has a number or a boolean, or None.

    Frameworks convert such texts, " 5 " too, after guards have judged them.
    """
    if not isinstance(schema, Mapping):
        return None
    if isinstance(value, str):
        return place if _kinds(schema) and not _kinds(schema) - _CONVERTED else None
    members = _members(value, schema, place)
    return next((inner for each in members if (inner := text_for_number(*each))), None)


def _members(value: Any, schema: Mapping[str, Any], place: str) -> Iterator[tuple[Any, Any, str]]:
    """Yield each member of *value*, with its schema and its place."""
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        for name in value:
            yield value[name], properties.get(name), f"{place}.{name}"
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield each, schema.get("items"), f"{place}[{number}]"


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that *schema* names, in itself or in its alternatives."""
    kinds = schema.get("type") or ()
    named = {kinds} if isinstance(kinds, str) else set(kinds)
    alternatives = schema.get("anyOf") or schema.get("oneOf") or ()
    return named.union(*[_kinds(each) for each in alternatives if isinstance(each, Mapping)])
