"""The schema of an answer in the form that each provider enforces, or as a prompt.

Providers enforce a subset of JSON Schema, and refuse requests with other keywords:
https://platform.openai.com/docs/guides/structured-outputs#supported-schemas and
https://docs.anthropic.com/en/docs/build-with-claude/structured-outputs. Other keywords go into the
description; the output type checks them in the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.errors import RegistrationError
from toolbus.messages.immutable import thaw
from toolbus.messages.records import SystemMessage, encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.events.values import ModelRequest

NAME = "output"
"""The name of the schema, where an API requires one."""

_PROMPT = (
    "When you need no more tools, answer only with JSON, without any other text. "
    "It must match this JSON schema:\n"
)
_FORMATS = frozenset({"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time"})
_SAID = frozenset({"type", "title", "description", "enum", "const"})
_STRUCTURE = frozenset(
    {
        "$defs",
        "additionalProperties",
        "anyOf",
        "discriminator",
        "items",
        "oneOf",
        "properties",
        "required",
    }
)
_REFUSED = frozenset({"allOf", "if", "not", "patternProperties", "prefixItems"})
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


class SchemaDialect(NamedTuple):
    """The subset of JSON Schema that a provider enforces: keywords of limits, and `format`s.

    Some providers require all properties to be required, and some do not accept recursion.
    """

    limits: frozenset[str]
    formats: frozenset[str]
    requires_all: bool
    takes_recursion: bool


OPENAI = SchemaDialect(
    frozenset(
        {
            "exclusiveMaximum",
            "exclusiveMinimum",
            "maxItems",
            "maximum",
            "minItems",
            "minimum",
            "multipleOf",
            "pattern",
        }
    ),
    _FORMATS | {"uuid"},
    requires_all=True,
    takes_recursion=True,
)
ANTHROPIC = SchemaDialect(
    frozenset(), _FORMATS | {"uri", "uuid"}, requires_all=False, takes_recursion=False
)


class _NotEnforceableError(Exception):
    """A provider cannot enforce a schema, for example of open objects or without a type."""


def enforceable(schema: Mapping[str, Any], dialect: SchemaDialect) -> dict[str, Any] | None:
    """Return *schema* in the form that a provider enforces, None if it cannot be enforced."""
    if not dialect.takes_recursion and _is_recursive(schema):
        return None
    try:
        return _enforced(thaw(schema), dialect)
    except _NotEnforceableError:
        return None


def openai_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return name, schema and `strict`, in the form of both of OpenAI's APIs."""
    strict = enforceable(schema, OPENAI)
    sent = thaw(schema) if strict is None else strict
    return {"name": NAME, "schema": sent, "strict": strict is not None}


def with_schema_prompt(request: ModelRequest) -> ModelRequest:
    """Return *request* with its schema as text in the system message.

    There it is the same in each request of a session, so that prompt caches stay valid.
    """
    if request.output_schema is None:
        return request
    words = _PROMPT + encode(request.output_schema).decode()
    match request.messages:
        case (SystemMessage(content=text) as first, *others):
            messages = [replace(first, content=f"{text}\n\n{words}"), *others]
        case others:
            messages = [SystemMessage(id="output", content=words), *others]
    return replace(request, messages=tuple(messages), output_schema=None)


def with_format(body: dict[str, Any], name: str, output: dict[str, Any]) -> dict[str, Any]:
    """Return *body* with *output* as the `format` of its parameter *name*.

    Other settings of the parameter are kept; raises `RegistrationError` if they have a format.
    """
    beside = body.get(name) or {}
    if "format" in beside:
        raise RegistrationError(f"model setting '{name}.format'", FORMAT_CONFLICT)
    return {**body, name: {**beside, "format": output}}


FORMAT_CONFLICT = "it conflicts with `output_type=`; leave out one of the two"
"""The reason why settings cannot set a format beside a schema."""


def _enforced(schema: Any, dialect: SchemaDialect) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise _NotEnforceableError
    definitions = schema.get("$defs", {})
    part = _reference(schema) or _typed(schema, dialect)
    if definitions:
        part["$defs"] = {name: _enforced(rule, dialect) for name, rule in definitions.items()}
    return part


def _reference(schema: dict[str, Any]) -> dict[str, Any] | None:
    # Other keywords beside a reference are not allowed.
    return {"$ref": schema["$ref"]} if "$ref" in schema else None


def _typed(schema: dict[str, Any], dialect: SchemaDialect) -> dict[str, Any]:
    # The dialect decides of each keyword whether a provider enforces it or only reads it.
    if _REFUSED & schema.keys():
        raise _NotEnforceableError
    part: dict[str, Any] = {}
    in_words: dict[str, Any] = {}
    for keyword, rule in schema.items():
        is_format = keyword == "format" and rule in dialect.formats
        if is_format or keyword in _SAID | dialect.limits:
            part[keyword] = rule
        elif keyword not in _STRUCTURE:
            in_words[keyword] = rule
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        part["anyOf"] = [_enforced(each, dialect) for each in alternatives]
    else:
        _name_type(part)
    if part.get("type") == "object":
        part |= _closed(schema, dialect)
    if part.get("type") == "array":
        part["items"] = _enforced(schema.get("items"), dialect)
    if in_words:
        texts = [part.get("description"), encode(in_words).decode()]
        part["description"] = "\n\n".join([text for text in texts if text])
    return part


def _closed(schema: dict[str, Any], dialect: SchemaDialect) -> dict[str, Any]:
    """Return the keywords of an object's properties; raises for an open object."""
    properties = schema.get("properties")
    if properties is None or schema.get("additionalProperties", False) is not False:
        raise _NotEnforceableError
    return {
        "properties": {name: _enforced(rule, dialect) for name, rule in properties.items()},
        "required": list(properties if dialect.requires_all else schema.get("required", [])),
        "additionalProperties": False,
    }


def _name_type(part: dict[str, Any]) -> None:
    """Add the type of enumerated values, which some providers require."""
    if "type" in part:
        return
    values = part["enum"] if "enum" in part else [part["const"]] if "const" in part else []
    kinds = list(dict.fromkeys([_JSON_TYPES.get(type(value)) for value in values]))
    if not kinds or None in kinds:
        raise _NotEnforceableError
    part["type"] = kinds[0] if len(kinds) == 1 else kinds


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Return whether a definition refers to itself, directly or indirectly."""
    definitions = schema.get("$defs", {})
    reached = {name: set(_references(rule)) for name, rule in definitions.items()}
    for _ in definitions:
        for name, names in reached.items():
            reached[name] = names.union(*[reached.get(other, set()) for other in names])
    return any(name in names for name, names in reached.items())


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for rule in schema.values():
            yield from _references(rule)
    elif isinstance(schema, list | tuple):
        for rule in schema:
            yield from _references(rule)
