"""Tables of files as the structs that describe them: the schema words the errors, too.

A `msgspec.Meta` with a description says what a value is, and an error says that it was expected;
a title says what a choice or a table of keys is called. `msgspec.json.schema` gives the same
schema to editors.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from toolbus.settings.hints import hint, unknown_key
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PLACE = re.compile(r"(?P<reason>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|(\[\.\.\.\])")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")


def fit_schema(value: object, schema: Any) -> Any:
    """Return *value* as what *schema*, a type that msgspec knows, says; raises `MisfitError`."""
    try:
        return msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        raise _misfit(str(error), value, schema) from None


@contextmanager
def located(*path: str | int) -> Iterator[None]:
    """Put *path* before that of a `MisfitError` that is raised inside."""
    try:
        yield
    except MisfitError as error:
        raise MisfitError(error.reason, *path, *error.path) from None


def _misfit(text: str, value: Any, schema: Any) -> MisfitError:
    place = _PLACE.fullmatch(text)
    assert place is not None  # noqa: S101 - for mypy: everything matches
    path = tuple(_steps(place["path"] or "", text, value, schema))
    types = reduce(_below, path, [inspect.type_info(schema)])
    current = reduce(getitem, path, value)
    if unknown := _UNKNOWN.fullmatch(place["reason"]):
        reason = unknown_key(unknown[1], _keys(types), _annotation(types, "title") or "key")
        return MisfitError(reason, *path, unknown[1])
    if missing := _MISSING.fullmatch(place["reason"]):
        return MisfitError(f"it has no `{missing[1]}`, which it needs", *path)
    if expected := _annotation(types, "description"):
        return MisfitError(f"expected {expected}, got {current!r}", *path)
    if choices := _choices(types):
        names = [step for step in path if isinstance(step, str)]
        called = _annotation(types, "title") or names[-1]
        return MisfitError(f"unknown {called} {current!r}{hint(str(current), choices)}", *path)
    return MisfitError(place["reason"][:1].lower() + place["reason"][1:], *path)


def _keys(types: list[inspect.Type]) -> list[str]:
    """Return the keys of the tables that a value of *types* may be."""
    tables = [each for kind in types for each in _members(kind)]
    return [
        field.encode_name
        for table in tables
        if isinstance(table, inspect.StructType)
        for field in table.fields
    ]


def _choices(types: list[inspect.Type]) -> list[str]:
    """Return the words that a value of *types* may be, none if it may be any."""
    members = [each for kind in types for each in _members(kind)]
    literals = [each for each in members if isinstance(each, inspect.LiteralType)]
    return [str(choice) for each in literals for choice in each.values]


def _steps(path: str, text: str, value: Any, schema: Any) -> Iterator[str | int]:
    """Yield the keys and indices of msgspec's *path* of the error *text*."""
    before: list[str | int] = []
    current = value
    for key, index, _ in _STEP.findall(path):
        # Which member of a table it is, msgspec does not say.
        step = key or (int(index) if index else _wrong_member(value, before, current, text, schema))
        before.append(step)
        yield step
        current = current[step]


def _wrong_member(
    value: Any, path: list[str | int], members: Mapping[str, Any], text: str, schema: Any
) -> str:
    """Return the key of *members*, at *path* in *value*, that is wrong as *text* says."""
    for key, member in members.items():
        try:
            msgspec.convert(_replaced(value, path, {key: member}), schema)
        except msgspec.ValidationError as error:
            if str(error) == text:
                return key
    return next(iter(members))


def _replaced(value: Any, path: list[str | int], new: Any) -> Any:
    """Return *value* with *new* at *path*."""
    if not path:
        return new
    step, *rest = path
    inner = _replaced(value[step], rest, new)
    if isinstance(step, str):
        return {**value, step: inner}
    return [*value[:step], inner, *value[step + 1 :]]


def _members(kind: inspect.Type) -> Iterator[inspect.Type]:
    """Yield what *kind* may be, without unions and descriptions."""
    match kind:
        case inspect.Metadata():
            yield from _members(kind.type)
        case inspect.UnionType():
            for each in kind.types:
                yield from _members(each)
        case _:
            yield kind


def _below(kinds: list[inspect.Type], step: str | int) -> list[inspect.Type]:
    """Return the types of what a value of *kinds* may have at *step*."""
    types: list[inspect.Type] = []
    for member in [each for kind in kinds for each in _members(kind)]:
        match member:
            case inspect.StructType():
                types += [each.type for each in member.fields if each.encode_name == step]
            case inspect.DictType():
                types.append(member.value_type)
            case inspect.VarTupleType() | inspect.ListType():
                types.append(member.item_type)
    return types


def _annotation(types: list[inspect.Type], key: str) -> str:
    """Return the title or description, as *key* says, of one of *types*, "" without one."""
    for kind in types:
        inner: list[inspect.Type] = []
        match kind:
            case inspect.Metadata():
                text = (kind.extra_json_schema or {}).get(key)
                if text is not None:
                    return str(text)
                inner = [kind.type]
            case inspect.UnionType():
                inner = list(kind.types)
        if text := _annotation(inner, key):
            return text
    return ""
