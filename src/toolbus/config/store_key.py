"""What a configuration says of stores: the key of a deployment that has several machines.

[store]                  # in your own file, or one that is named
key = "env:TOOLBUS_KEY"  # a variable with 32 to 64 letters, or
key = "store.key"        # a file with 32 to 64 bytes, in the folder of your own configuration

All machines that have it give a hidden value the same placeholder, and know a call again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.settings.hints import unknown_key
from toolbus.settings.user_key import KeySettingError, named_key

if TYPE_CHECKING:
    from toolbus.config.documents import Document

STORE = "store"


def read_store_key(document: Document, *, is_project: bool = False) -> bytes | None:
    """Return the key that *document* names, None if it names none.

    One that *is_project* names none. Raises `ConfigurationError`.
    """
    table = document.table.get(STORE, {})
    if not isinstance(table, dict):
        raise document.error(f"{STORE!r} is not a table; write [{STORE}]", STORE)
    for name in table:
        if name != "key":
            raise document.error(unknown_key(name, ("key",)), STORE, name)
    if "key" not in table:
        return None
    if is_project:
        way_out = "put it into your own configuration, or name this file"
        reason = f"key 'key' is no project's to give; {way_out}"
        raise document.error(reason, STORE, "key")
    setting = table["key"]
    if not isinstance(setting, str):
        raise document.error(f"key 'key': expected a string, got {setting!r}", STORE, "key")
    try:
        return named_key(setting)
    except KeySettingError as error:
        raise document.error(f"key 'key': {error}", STORE, "key") from None
