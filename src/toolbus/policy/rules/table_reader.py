"""The reader of TOML tables into structs, which collects mistakes instead of stopping.

The description in a field's `msgspec.Meta` names the expected value in errors, the title names a
choice or a table of keys. `msgspec.json.schema` derives the schema for editors from the same data.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET

from toolbus.settings.hints import hint, unknown_key
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterator

_STAND_INS: Mapping[str, Any] = {"name": "?", "verdict": "ask"}
"""Stand-ins for absent or wrong required keys, so that the rest of a table is read."""


class TableReader:
    """Reads values by their types, and collects *mistakes* with their paths."""

    def __init__(self) -> None:
        self.mistakes: list[MisfitError] = []

    @contextmanager
    def collecting(self, *path: str | int) -> Iterator[None]:
        """Collect a `MisfitError` or `ValueError` raised inside as a mistake at *path*."""
        try:
            yield
        except MisfitError as error:
            self.mistakes.append(MisfitError(error.reason, *path, *error.path))
        except ValueError as error:
            self.mistakes.append(MisfitError(str(error), *path))

    def read(self, value: Any, kind: Any, *path: str | int, owner: Any = None) -> Any:
        """Return *value*, at *path* of a document, as a *kind*; UNSET after a mistake.

        *owner* is the struct whose field is read.
        """
        try:
            return msgspec.convert(value, kind) if owner is None else _field(value, owner, path[-1])
        except msgspec.ValidationError as error:
            text = str(error)
        count = len(self.mistakes)
        pieces = self._in_pieces(value, kind, path)
        if len(self.mistakes) == count:
            key = next((step for step in reversed(path) if isinstance(step, str)), "value")
            self.mistakes.append(MisfitError(_reason(text, value, kind, key), *path))
        return pieces

    def _in_pieces(self, value: Any, kind: Any, path: tuple[Any, ...]) -> Any:
        """Return *value* without its invalid items; UNSET if it has no items."""
        for member in _members(kind):
            item = _item(member)
            match value:
                case Mapping() if _is_struct(member):
                    return self._struct(value, member, _note(kind, "title"), path)
                case Mapping() if get_origin(member) is dict:
                    for key in value:
                        self.read(key, get_args(member)[0], *path)
                    read = {key: self.read(each, item, *path, key) for key, each in value.items()}
                    return {key: each for key, each in read.items() if each is not UNSET}
                case list() | tuple() if get_origin(member) is tuple and _is_of_structs(item):
                    # An invalid row keeps its index.
                    return tuple([self.read(row, item, *path, n) for n, row in enumerate(value)])
        return UNSET

    def _struct(
        self, table: Mapping[str, Any], kind: Any, title: str, path: tuple[Any, ...]
    ) -> Any:
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, Any] = {}
        for key, value in table.items():
            if key in fields:
                values[fields[key].name] = self.read(
                    value, fields[key].type, *path, key, owner=kind
                )
            else:
                reason = unknown_key(key, fields, title or "key")
                self.mistakes.append(MisfitError(reason, *path, key))
        required = [key for key, field in fields.items() if field.required]
        for key in required:
            if key not in table:
                reason = f"it has no `{key}`, which is required"
                self.mistakes.append(MisfitError(reason, *path))
        known = {key: value for key, value in values.items() if value is not UNSET}
        return kind(**{key: _STAND_INS[key] for key in required} | known)


def _field(value: Any, owner: Any, key: Any) -> Any:
    """Return *value* as the field *key* of the struct *owner*."""
    # Converting a union with a patterned text on its own makes msgspec 0.22 read freed memory.
    fields = {each.encode_name: each for each in msgspec.structs.fields(owner)}
    table = {
        name: each for name, each in _STAND_INS.items() if name in fields and fields[name].required
    }
    return getattr(msgspec.convert({**table, key: value}, owner), fields[key].name)


def _reason(text: str, value: Any, kind: Any, key: str) -> str:
    """Return why *value* at *key* is not a *kind*; *text* is msgspec's message."""
    if expected := _note(kind, "description"):
        return f"expected {expected}, got {value!r}"
    if choices := _choices(kind):
        values = value if isinstance(value, list) else [value]
        wrong = next((each for each in values if each not in choices), value)
        return f"unknown {_note(kind, 'title') or key} {wrong!r}{hint(str(wrong), {*choices})}"
    return f"{text[:1].lower()}{text[1:].partition(' - at `')[0]}"


def _members(kind: Any) -> list[Any]:
    """Return the member types of *kind*, without unions and descriptions."""
    if get_origin(kind) is Annotated:
        return _members(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        return [member for each in get_args(kind) for member in _members(each)]
    return [kind]


def _item(kind: Any) -> Any:
    """Return the item type of *kind* if it is a table or an array, else None."""
    inner = get_args(kind)
    return inner[-1 if get_origin(kind) is dict else 0] if inner else None


def _is_of_structs(kind: Any) -> bool:
    return any(map(_is_struct, _members(kind)))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _choices(kind: Any) -> list[str]:
    """Return the permitted words of *kind* or its items; empty if unrestricted."""
    choices: list[str] = []
    for member in _members(kind):
        if get_origin(member) is Literal:
            choices += get_args(member)
        elif get_origin(member) is tuple:
            choices += _choices(get_args(member)[0])
    return choices


def _note(kind: Any, name: str) -> str:
    """Return the annotation *name* ("title", "description") of *kind* or its members."""
    for note in getattr(kind, "__metadata__", ()):
        if text := getattr(note, name, None):
            return str(text)
    return next(filter(None, [_note(each, name) for each in get_args(kind)]), "")
