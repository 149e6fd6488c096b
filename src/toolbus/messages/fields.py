"""The checks of a record's fields when it is created, and their freezing.

msgspec checks types when it decodes a record, but never when Python calls the class; so every
record checks its own fields, and `FreezeError` names the field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from toolbus.errors import FreezeError, RegistrationError
from toolbus.messages.immutable import EMPTY, FrozenDict, check_text, freeze, freeze_object, plain

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S", bound="Struct")


class Record(Struct, frozen=True, kw_only=True):
    """A value that is sent and stored; a record class cannot be subclassed.

    A subclass could be mutable, or have fields that no codec knows and a store loses. A class with
    *is_open* is not a record itself: it only has fields for its subclasses.
    """

    is_open: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kinds = [kind for kind in cls.__bases__ if kind is not Generic]
        if len(kinds) > 1 or not vars(kinds[0]).get("is_open"):
            kind = kinds[0].__name__
            reason = f"no codec knows the fields of a subclass of {kind}; wrap the record instead"
            raise RegistrationError(f"class {cls.__name__!r}", reason)


# The stubs of msgspec lack the method behind `copy.copy`.
_struct: Any = Struct
copied: Callable[[Any], Any] = _struct.__copy__
"""Copies a record, without the checks of `replace`."""


def all_ascii(*values: object) -> bool:
    """Return whether all *values* are ASCII text, which needs no further check."""
    for value in values:  # noqa: SIM110 - `all` takes twice as long
        if type(value) is not str or not value.isascii():
            return False
    return True


def replace_unchecked(record: S, **fields: object) -> S:
    """Return *record* with other fields, which must be frozen and checked already."""
    new: S = copied(record)
    for name, value in fields.items():
        force_setattr(new, name, value)
    return new


def check_texts(record: Struct, *fields: str, optional: bool = False) -> None:
    """Raise `FreezeError` unless *fields* hold text, or None if they are *optional*.

    Text of a subclass becomes plain text, because no codec knows the subclass.
    """
    for field in fields:
        value = getattr(record, field)
        if not (optional and value is None) and not all_ascii(value):
            check_text(value, f"$.{field}")
            if type(value) is not str:
                force_setattr(record, field, plain(value))


def check_kind(record: Struct, field: str, kind: type) -> None:
    """Raise `FreezeError` unless *field* holds exactly a *kind*."""
    value = getattr(record, field)
    if type(value) is not kind:
        reason = f"expected `{kind.__name__}`, got `{type(value).__name__}`"
        raise FreezeError(reason, f"$.{field}")


def freeze_json(record: Struct, field: str) -> None:
    """Freeze the JSON value in *field*."""
    force_setattr(record, field, freeze(getattr(record, field), f"$.{field}"))


def freeze_objects(record: Struct, *fields: str, optional: bool = False) -> None:
    """Freeze the JSON objects in *fields*, which may hold None if they are *optional*."""
    for field in fields:
        value = getattr(record, field)
        if type(value) is dict and not value:  # As most metadata is.
            force_setattr(record, field, EMPTY)
        elif type(value) is not FrozenDict and not (optional and value is None):
            force_setattr(record, field, freeze_object(value, f"$.{field}"))


def freeze_items(record: Struct, field: str, kinds: type | tuple[type, ...]) -> None:
    """Make a tuple of the sequence in *field*, whose items must be of *kinds*."""
    items = getattr(record, field)
    among = kinds if isinstance(kinds, tuple) else (kinds,)
    if type(items) is tuple and {*map(type, items)}.issubset(among):
        return
    if not isinstance(items, tuple | list):
        raise FreezeError(f"expected array, got `{type(items).__name__}`", f"$.{field}")
    for index, item in enumerate(items):
        if not isinstance(item, kinds):
            reason = f"`{type(item).__name__}` does not belong here"
            raise FreezeError(reason, f"$.{field}[{index}]")
    if type(items) is not tuple:
        force_setattr(record, field, tuple(items))
