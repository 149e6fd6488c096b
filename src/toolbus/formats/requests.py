"""Arguments, schemas and settings in the requests to all providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.errors import RegistrationError
from toolbus.messages.immutable import thaw
from toolbus.messages.records import encode

if TYPE_CHECKING:
    from collections.abc import Container

    from toolbus.events.call_values import ToolSpec
    from toolbus.messages.records import JsonObject, ToolCall

INVALID_JSON = "invalid_json"
"""The argument that holds a model's text in place of arguments that are not a JSON object.

Providers, and the templates of local servers, refuse anything but an object.
"""


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of *call* as an object, also if the model wrote something else."""
    if call.raw is not None:
        return {INVALID_JSON: call.raw}
    arguments: dict[str, Any] = thaw(call.arguments)
    return arguments


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of *call* as JSON."""
    return encode(arguments_of(call)).decode()


def schema_of(spec: ToolSpec) -> dict[str, Any]:
    """Return the schema of a tool's arguments, with the type object that providers require."""
    return {"type": "object", **thaw(spec.input_schema)}


def with_settings(
    body: dict[str, Any], settings: JsonObject, reserved: Container[str]
) -> dict[str, Any]:
    """Return *body* with *settings*, the provider's own parameters, without those that are None.

    Raises `RegistrationError` for a *reserved* parameter, which is derived from the request.
    """
    for name in settings:
        if name in reserved:
            reason = "it is derived from the request; change that, or `tools=` of the agent"
            raise RegistrationError(f"model setting {name!r}", reason)
    whole = {**body, **thaw(settings)}
    return {name: value for name, value in whole.items() if value is not None}
