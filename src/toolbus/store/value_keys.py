"""The key by which values are known again that a store must not hold.

What is stored of such a value is a digest with this key, so that a short one cannot be guessed from
a store, an export or a copy. The key is in a file of its user, beside no store in particular, and
lasts over processes; that of what lives in memory lasts as long as the process.
"""

from __future__ import annotations

import logging
from functools import cache
from secrets import token_bytes
from typing import TYPE_CHECKING

from toolbus.settings.user_folders import value_key_file
from toolbus.settings.user_key import SIZE, UserKeyError, user_key
from toolbus.store.memory import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.store.protocol import Store

logger = logging.getLogger("toolbus")


def value_key(store: Store) -> bytes | None:
    """Return the key for digests in *store*, as random as it is long; None if none can be had.

    That is logged once. It is read, and made where it is missing, when it is asked for.
    """
    if isinstance(store, MemoryStore):
        return _key_of_process()
    try:
        return _key_in(value_key_file())
    except (UserKeyError, RuntimeError) as error:
        _warn(str(error))
        return None


@cache
def _key_of_process() -> bytes:
    return token_bytes(SIZE)


@cache
def _key_in(file: Path) -> bytes:
    return user_key(file)


@cache
def _warn(reason: str) -> None:
    logger.warning("hidden values are not known again in another process: %s", reason)
