"""Fresh ids for messages, calls and runs, and the demand that what is decoded has its own."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from msgspec.structs import force_setattr

from toolbus.errors import FreezeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Struct


class MissingId(str):
    """Stands in a record whose maker gave no id, until the record's first check."""

    __slots__ = ()


MISSING_ID = MissingId()
_demanded: ContextVar[bool] = ContextVar("toolbus_ids_demanded", default=False)


class Filled:
    """The *latest* id that a record was given; whether it moved is all that anybody asks."""

    latest: str | None = None


def new_id() -> str:
    """Return an id that nothing else has: 64 random bits as text."""
    return os.urandom(8).hex()


def fill_id(record: Struct) -> None:
    """Give *record* a fresh `id` if its maker gave none; one that is decoded is refused."""
    # Not `==`: somebody may well give the empty text.
    if getattr(record, "id", None) is not MISSING_ID:
        return
    if _demanded.get():
        raise FreezeError("object missing required field `id`")
    fresh = Filled.latest = new_id()
    force_setattr(record, "id", fresh)


def demanding_ids(decode: Callable[[Any], Any], data: Any) -> Any:
    """Return *decode(data)*, where a record without an id is refused.

    msgspec makes what it decodes as Python makes what it calls, so a record cannot tell which of
    the two it is.
    """
    token = _demanded.set(True)
    try:
        return decode(data)
    finally:
        _demanded.reset(token)
