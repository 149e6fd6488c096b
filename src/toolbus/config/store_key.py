"""The `[store]` of a configuration: the key that several machines share.

[store]                  # in your own file, or a named one
key = "env:TOOLBUS_KEY"  # a variable with 32 to 64 characters, or
key = "store.key"        # a file with 32 to 64 bytes, in the folder of your own configuration

All machines with the key use the same placeholders for hidden values, and recognize repeated calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.config.tables import STORE, StoreTable, read_single, read_values
from toolbus.settings.user_key import KeySettingError, named_key

if TYPE_CHECKING:
    from toolbus.config.documents import Document


def read_store_key(document: Document, *, is_project: bool = False) -> bytes | None:
    """Return the key that *document* names, None without one.

    A file that *is_project* must not name a key. Raises `ConfigurationError`.
    """
    table = read_single(document, STORE)
    if is_project and "key" in table:
        way_out = "put it into your own configuration, or name this file"
        raise document.error(f"key 'key' may not be set by a project; {way_out}", STORE, "key")
    setting = read_values(document, StoreTable, table, STORE).get("key")
    if setting is None:
        return None
    try:
        return named_key(setting)
    except KeySettingError as error:
        raise document.error(f"key 'key': {error}", STORE, "key") from None
