"""`toolbus schema`: the JSON schema of a configuration or a policy, for editors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

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

_ARGUMENT = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
"""An argument in the `Args:` of a docstring: its name, and its text over several lines."""

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
        types = {key: kind for key, kind in setting_types(maker).items() if not _is_code(kind)}
        required = [
            each.name
            for each in inspect.signature(maker).parameters.values()
            if each.name in types and each.default is each.empty
        ]
        summary, _, arguments = (inspect.getdoc(maker) or "").partition("\n\nArgs:\n")
        texts = {key: " ".join(text.split()) for key, text in _ARGUMENT.findall(arguments)}
        properties = {
            setting: {**({"description": texts[setting]} if setting in texts else {}), **schema}
            for setting, schema in zip(types, map(_type_schema, types.values()), strict=True)
        }
        settings = {
            "type": "object",
            "description": " ".join(summary.split()),
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        yield name, settings


def _is_code(kind: Any) -> bool:
    """Return whether only code can give a value of *kind*: it is a function."""
    return (get_origin(kind) or kind) is Callable


def _type_schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a setting, empty for a type without one."""
    try:
        schema: dict[str, Any] = _for_toml(msgspec.json.schema(kind, schema_hook=_schema_of))
    except (TypeError, NotImplementedError):
        return {}
    # Definitions are left out: a reference to them would start at the root of the document.
    return {} if "$defs" in schema else schema


def _schema_of(kind: Any) -> dict[str, Any]:
    family = get_origin(kind) or kind
    if family in {Path, re.Pattern}:
        return {"type": "string"}
    if family is Iterable:
        return {"type": "array"}
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
