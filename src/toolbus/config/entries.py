"""What a configuration says of each component, checked for its form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.config.approvals import APPROVALS
from toolbus.config.prices import PRICES
from toolbus.config.servers import SERVERS
from toolbus.config.store_key import STORE
from toolbus.settings.hints import nearest, unknown_key
from toolbus.toml.files import unknown_file_key
from toolbus.toml.values import MisfitError, fit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.config.documents import Document

TABLES = "component"
_TABLES = (TABLES, SERVERS, PRICES, APPROVALS, STORE)
_OF_POLICY = 'name it in a toolbus.toml: [[component]], use = "policy", settings = { file = … }'
_KINDS: dict[str, Any] = {
    "use": str,
    "name": str,
    "settings": dict[str, Any],
    "tools": str | tuple[str, ...],
    "priority": int,
    "enabled": bool,
}


class Entry(Struct, frozen=True, kw_only=True):
    """One `[[component]]`, the one with *index*; *where* is "file:line".

    *name* is that of *use* if it has none of its own. *priority* is None if none is given.
    """

    name: str
    use: str
    where: str
    index: int
    settings: dict[str, Any]
    tools: tuple[str, ...] = ("*",)
    priority: int | None = None
    enabled: bool = True


def read_entries(document: Document) -> tuple[Entry, ...]:
    """Return what *document* says of components, in its order; raises `ConfigurationError`."""
    for key in document.table:
        if key not in _TABLES:
            raise document.error(unknown_file_key(key, _TABLES, _OF_POLICY), key)
    tables = document.table.get(TABLES, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise document.error(f"{TABLES!r} is no array of tables; write [[{TABLES}]]", TABLES)
    entries = tuple([_entry(document, index, table) for index, table in enumerate(tables)])
    _check_unique(document, entries)
    return entries


def named_uses(document: Document) -> Iterator[str]:
    """Yield each `use` of *document*, whose form nobody has checked yet."""
    tables = document.table.get(TABLES)
    for table in tables if isinstance(tables, list) else ():
        use = table.get("use") if isinstance(table, dict) else None
        if isinstance(use, str):
            yield use


def _entry(document: Document, index: int, table: dict[str, Any]) -> Entry:
    for key in table:
        if key not in _KINDS:
            inside = "" if nearest(key, _KINDS) else "; the component's own go into `settings`"
            raise document.error(unknown_key(key, _KINDS) + inside, TABLES, index, key)
    values = {key: _value(document, index, key, value) for key, value in table.items()}
    if "use" not in values:
        reason = "the component has no `use`; it says which one: an offered name, or FILE.py:Class"
        raise document.error(reason, TABLES, index)
    tools = values.pop("tools", "*")
    return Entry(
        name=values.pop("name", values["use"]),
        where=f"{document.file.resolve()}:{document.lines[TABLES, index]}",
        index=index,
        settings=values.pop("settings", {}),
        tools=(tools,) if isinstance(tools, str) else tools,
        **values,
    )


def _value(document: Document, index: int, key: str, value: object) -> Any:
    path = (TABLES, index, key)
    try:
        fitted = fit(value, _KINDS[key], document.file.parent)
    except MisfitError as error:
        raise document.error(f"key {key!r}: {error.reason}", *path, *error.path) from None
    if key in {"use", "name", "tools"} and not (fitted and all(fitted)):
        raise document.error(f"key {key!r}: expected something, got {value!r}", *path)
    return fitted


def _check_unique(document: Document, entries: tuple[Entry, ...]) -> None:
    by_name: dict[str, Entry] = {}
    for entry in entries:
        first = by_name.setdefault(entry.name, entry)
        if first is not entry:
            line = document.lines[TABLES, first.index]
            reason = f"two components are called {entry.name!r}, the other in line {line}"
            key = "name" if entry.name != entry.use else "use"
            way_out = "give this one a `name` of its own"
            raise document.error(f"{reason}; {way_out}", TABLES, entry.index, key)
