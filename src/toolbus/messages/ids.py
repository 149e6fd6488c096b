"""Ids of messages, calls and runs: fresh ones for new records, none for decoded ones."""

from __future__ import annotations

import os
from threading import local
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.errors import FreezeError

if TYPE_CHECKING:
    from msgspec import Struct


class Decoding(local):
    """Whether the thread is *active* decoding: msgspec creates records as ordinary code does."""

    active = False


decoding = Decoding()


def new_id() -> str:
    """Return a unique id: 64 random bits as text."""
    return os.urandom(8).hex()


def default_id() -> Any:
    """Return a fresh id, or `UNSET` for a decoded record, which `check_id` refuses."""
    return UNSET if decoding.active else new_id()


def check_id(record: Struct) -> None:
    """Raise `FreezeError` if *record* was decoded without an `id`."""
    # Not in `default_id`: msgspec adds the path to the errors of `__post_init__` alone.
    if getattr(record, "id", None) is UNSET:
        raise FreezeError("object missing required field `id`")
