"""`toolbus schema`: the JSON schema of a configuration or a policy, for editors."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolbus.cli.output.blocks import print_json
from toolbus.cli.parser import make_parser
from toolbus.config.entry_points import SHIPPED, find_maker
from toolbus.config.factory import setting_types
from toolbus.config.tables import ConfigurationTable
from toolbus.errors import LoadError
from toolbus.policy.rules.tables import PolicyTable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command

_EPILOG = """\
examples:
  toolbus schema > toolbus.schema.json            of toolbus.toml
  toolbus schema policy > policy.schema.json      of a policy
  toolbus schema | jq '."$defs".ServerTable'      the keys of a server

An editor with support for JSON schemas in TOML, such as Taplo, completes and
checks the file that begins with the comment
  #:schema ./toolbus.schema.json
Settings of components are checked for the components of toolbus itself, as far
as their extras are installed."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus schema", "Print the JSON schema of a kind of file.", _EPILOG)
    parser.add_argument(
        "kind",
        metavar="KIND",
        nargs="?",
        choices=("configuration", "policy"),
        default="configuration",
        help="configuration (the default) or policy",
    )

    def run(parsed: argparse.Namespace, output: Output) -> int:
        print_json(output, policy_schema() if parsed.kind == "policy" else configuration_schema())
        return 0

    return parser, run


def policy_schema() -> dict[str, Any]:
    """Return the JSON schema of a policy's file."""
    return _document(PolicyTable, "policy")


def configuration_schema() -> dict[str, Any]:
    """Return the JSON schema of a `toolbus.toml`, with the settings of installed components."""
    schema = _document(ConfigurationTable, "configuration")
    component = schema["$defs"]["ComponentTable"]
    component["allOf"] = [
        {
            "if": {"properties": {"use": {"const": name}}},
            "then": {"properties": {"settings": settings}},
        }
        for name, settings in _settings_of_components()
    ]
    return schema


def _document(kind: type[msgspec.Struct], name: str) -> dict[str, Any]:
    schema: dict[str, Any] = _for_toml(msgspec.json.schema(kind, schema_hook=_schema_of))
    return {"$schema": _DIALECT, "$id": f"urn:toolbus:{name}", "title": f"toolbus {name}", **schema}


def _settings_of_components() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in sorted(SHIPPED):
        try:
            maker = find_maker(name, Path.cwd())
        except LoadError:
            continue  # Its extra is not installed.
        types = setting_types(maker)
        required = [
            each.name
            for each in inspect.signature(maker).parameters.values()
            if each.name in types and each.default is each.empty
        ]
        properties = {setting: _type_schema(kind) for setting, kind in types.items()}
        yield (
            name,
            {
                "type": "object",
                "description": inspect.getdoc(maker) or "",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            },
        )


def _type_schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a setting, empty for a type that only code can give."""
    try:
        schema: dict[str, Any] = _for_toml(msgspec.json.schema(kind, schema_hook=_schema_of))
    except (TypeError, NotImplementedError):
        return {}
    # Definitions are left out: a reference to them would start at the root of the document.
    return {} if "$defs" in schema else schema


def _schema_of(kind: Any) -> dict[str, Any]:
    if kind is Path or kind is re.Pattern:
        return {"type": "string"}
    raise NotImplementedError(kind)


def _for_toml(schema: Any) -> Any:
    """Return *schema* without null, which TOML has not: an absent key takes its place."""
    match schema:
        case {"anyOf": [*kinds], **others}:
            types = [_for_toml(kind) for kind in kinds if kind != {"type": "null"}]
            inner = {name: value for name, value in others.items() if value is not None}
            return {**types[0], **inner} if len(types) == 1 else {"anyOf": types, **inner}
        case {"default": None, **others}:
            return _for_toml(others)
        case dict():
            return {name: _for_toml(value) for name, value in schema.items()}
        case list() | tuple():
            return [_for_toml(value) for value in schema]
    return schema
