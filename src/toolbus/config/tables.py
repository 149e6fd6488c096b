"""The tables of a `toolbus.toml`: the types of their keys, and a reader that names a wrong key."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Union, get_args

from msgspec import Meta, Struct
from msgspec.structs import fields

from toolbus.settings.hints import unknown_key
from toolbus.toml.values import MisfitError, fit

if TYPE_CHECKING:
    from toolbus.config.documents import Document

COMPONENT, SERVER, PRICE, APPROVALS, STORE = "component", "server", "price", "approvals", "store"
OTEL = "otel"
"""The names of the tables."""

_Tokens: TypeAlias = Annotated[float, Meta(description="the price of a million tokens")]
_NAMES = '"env:NAME" takes the value of the variable NAME'


class ComponentTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A component to install."""

    use: Annotated[str, Meta(description='an entry point, "./FILE.py:Class" or "module:Class"')]
    name: Annotated[str, Meta(description="its name, by default that of `use`")] = ""
    settings: Annotated[dict[str, Any], Meta(description="arguments of its constructor")] = {}
    tools: Annotated[str | tuple[str, ...], Meta(description="its tools, as globs")] = "*"
    priority: Annotated[int, Meta(description="its rank: a higher one runs first")] = 100
    enabled: Annotated[bool, Meta(description="false: it is not even imported")] = True


class ServerTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An MCP server: a command with its arguments and environment, or a URL with its headers."""

    name: Annotated[str, Meta(description="the prefix of its tools, as in `files_read`")]
    command: Annotated[str, Meta(description="a program, instead of `url`")] = ""
    args: tuple[str, ...] = ()
    env: Annotated[dict[str, str], Meta(description=f"added variables; {_NAMES}")] = {}
    url: Annotated[str, Meta(description="the address of a remote server")] = ""
    headers: Annotated[dict[str, str], Meta(description=f"HTTP headers; {_NAMES}")] = {}
    resources: Annotated[
        tuple[str, ...], Meta(description="globs of resources that only this server answers")
    ] = ()
    enabled: bool = True


class PriceTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a model's tokens."""

    model: Annotated[str, Meta(description="PROVIDER:NAME as for `--model`, or a glob")]
    input: _Tokens
    output: _Tokens
    cache_read: _Tokens | None = None
    cache_write: _Tokens | None = None
    currency: str = "USD"


class WebhookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The receiver of new questions, and the file with the key that signs them."""

    url: str
    secret_file: Path


class ApprovalTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the questions to a person, and their channels."""

    wait: Annotated[float, Meta(description="seconds a call waits for its answer")] | None = None
    expires_after: Annotated[float, Meta(description="seconds; by default a day")] | None = None
    max_open: Annotated[int, Meta(description="open questions of a session")] | None = None
    max_hourly: Annotated[int, Meta(description="questions of a session in an hour")] | None = None
    max_denials: Annotated[int, Meta(description="denials of one call")] | None = None
    host_asks: Annotated[bool, Meta(description="false: toolbus asks, not the host")] | None = None
    webhook: WebhookSettings | None = None


class StoreTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The key that several machines share."""

    key: Annotated[str, Meta(description='"env:NAME", or a file beside your own one')] = ""


class OtelTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of the component `opentelemetry`, which sends spans and metrics."""

    endpoint: Annotated[str, Meta(description="the collector's address for OTLP over HTTP")] = ""
    headers: Annotated[dict[str, str], Meta(description=f"HTTP headers; {_NAMES}")] = {}
    service_name: Annotated[str, Meta(description="by default that of `OTEL_SERVICE_NAME`")] = ""
    texts: Annotated[bool, Meta(description="true: send texts, as redacted for the store")] = False
    metrics: bool = True
    enabled: bool = True


class ConfigurationTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `toolbus.toml`, or `[tool.toolbus]` of a `pyproject.toml`."""

    component: tuple[ComponentTable, ...] = ()
    server: tuple[ServerTable, ...] = ()
    price: tuple[PriceTable, ...] = ()
    approvals: ApprovalTable | None = None
    store: StoreTable | None = None
    otel: OtelTable | None = None


def read_array(document: Document, name: str) -> list[dict[str, Any]]:
    """Return the tables of the array *name*, none if it is absent; raises `ConfigurationError`."""
    tables = document.table.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise document.error(f"{name!r} is not an array of tables; write [[{name}]]", name)
    return tables


def read_single(document: Document, name: str) -> dict[str, Any]:
    """Return the table *name*, empty if it is absent; raises `ConfigurationError`."""
    table = document.table.get(name, {})
    if not isinstance(table, dict):
        raise document.error(f"{name!r} is not a table; write [{name}]", name)
    return table


def read_values(
    document: Document,
    kind: type[Struct],
    table: dict[str, Any],
    *path: str | int,
    inside: str = "",
) -> dict[str, Any]:
    """Return the values of *table*, which is at *path*, converted to the fields of *kind*.

    Raises `ConfigurationError` for an unknown key, adding *inside* if none is similar, and for a
    value of a wrong type.
    """
    types = key_types(kind)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in types:
            reason = unknown_key(key, types)
            way_out = "" if "did you mean" in reason else inside
            raise document.error(reason + way_out, *path, key)
        try:
            values[key] = fit(value, types[key], document.file.parent)
        except MisfitError as error:
            raise document.error(f"key {key!r}: {error.reason}", *path, key, *error.path) from None
    return values


def key_types(kind: type[Struct]) -> dict[str, Any]:
    """Return the type of each key of a table; None only marks a key that may be absent."""
    return {field.name: _without_none(field.type) for field in fields(kind)}


def _without_none(kind: Any) -> Any:
    if NoneType not in get_args(kind):
        return kind
    return Union[tuple([each for each in get_args(kind) if each is not NoneType])]  # noqa: UP007 - a tuple
