"""The components of a configuration, checked for their form: `[[component]]` and `[otel]`.

[otel]                                # the component `opentelemetry`
endpoint = "http://localhost:4318"    # a collector's address for OTLP over HTTP
headers = { x-key = "env:OTEL_KEY" }  # the value of the variable OTEL_KEY
service_name = "build-agent"
texts = true                          # prompts, results …, as redacted for the store
metrics = false

A project's file has no `[otel]`: the data of its user would go to an address in a repository.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.config.tables import (
    COMPONENT,
    OTEL,
    ComponentTable,
    ConfigurationTable,
    OtelTable,
    read_array,
    read_single,
    read_values,
)
from toolbus.toml.files import unknown_file_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.config.documents import Document

_TABLES = ConfigurationTable.__struct_fields__
_OF_POLICY = 'name it in a toolbus.toml: [[component]], use = "policy", settings = { file = … }'


class Entry(Struct, frozen=True, kw_only=True):
    """One `[[component]]`, number *index* from 0, or -1 for `[otel]`; *where* is "file:line".

    *name* is by default that of *use*. *priority* is None if none is given.
    """

    name: str
    use: str
    where: str
    index: int
    settings: dict[str, Any]
    tools: tuple[str, ...] = ("*",)
    priority: int | None = None
    enabled: bool = True

    @property
    def place(self) -> tuple[str | int, ...]:
        """The path of its table in the document."""
        return (OTEL,) if self.index < 0 else (COMPONENT, self.index)

    @property
    def settings_place(self) -> tuple[str | int, ...]:
        """The path of its settings in the document."""
        return self.place if self.index < 0 else (*self.place, "settings")


def read_entries(document: Document, *, is_project: bool = False) -> tuple[Entry, ...]:
    """Return the components of *document*, in its order; raises `ConfigurationError`.

    A file that *is_project* has no `[otel]`.
    """
    for key in document.table:
        if key not in _TABLES:
            raise document.error(unknown_file_key(key, _TABLES, _OF_POLICY), key)
    tables = enumerate(read_array(document, COMPONENT))
    entries = tuple([_entry(document, index, table) for index, table in tables])
    if OTEL in document.table:
        if is_project:
            way_out = "put it into your own configuration, or name this file"
            raise document.error(f"[{OTEL}] may not be set by a project; {way_out}", OTEL)
        entries += (_otel_entry(document),)
    _check_unique(document, entries)
    return entries


def named_uses(document: Document) -> Iterator[str]:
    """Yield each `use` of *document*, which has not been checked yet."""
    tables = document.table.get(COMPONENT)
    for table in tables if isinstance(tables, list) else ():
        use = table.get("use") if isinstance(table, dict) else None
        if isinstance(use, str):
            yield use


def _entry(document: Document, index: int, table: dict[str, Any]) -> Entry:
    inside = "; the component's own go into `settings`"
    values = read_values(document, ComponentTable, table, COMPONENT, index, inside=inside)
    for key in {"use", "name", "tools"} & values.keys():
        if not (values[key] and all(values[key])):
            reason = f"key {key!r}: expected a value that is not empty, got {table[key]!r}"
            raise document.error(reason, COMPONENT, index, key)
    if "use" not in values:
        reason = "the component has no `use`; it says which one: an offered name, or FILE.py:Class"
        raise document.error(reason, COMPONENT, index)
    tools = values.pop("tools", "*")
    return Entry(
        name=values.pop("name", values["use"]),
        where=f"{document.file.resolve()}:{document.lines[COMPONENT, index]}",
        index=index,
        settings=values.pop("settings", {}),
        tools=(tools,) if isinstance(tools, str) else tools,
        **values,
    )


def _otel_entry(document: Document) -> Entry:
    settings = read_values(document, OtelTable, read_single(document, OTEL), OTEL)
    return Entry(
        name="opentelemetry",
        use="opentelemetry",
        where=f"{document.file.resolve()}:{document.lines[OTEL,]}",
        index=-1,
        enabled=settings.pop("enabled", True),
        settings=settings,
    )


def _check_unique(document: Document, entries: tuple[Entry, ...]) -> None:
    by_name: dict[str, Entry] = {}
    for entry in entries:
        first = by_name.setdefault(entry.name, entry)
        if first is not entry:
            line = document.lines[first.place]
            reason = f"two components are called {entry.name!r}, the other in line {line}"
            key = "name" if entry.name != entry.use else "use"
            way_out = "give this one a `name` of its own"
            raise document.error(f"{reason}; {way_out}", *entry.place, key)
