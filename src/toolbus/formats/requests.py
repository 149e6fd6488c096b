"""What the requests to all providers share: arguments, schemas and settings."""

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
"""The argument under which a model reads again what it wrote and what was no JSON object.

Providers and the templates of local servers refuse arguments that are none.
"""


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of *call* as an object, whatever the model wrote."""
    if call.raw is not None:
        return {INVALID_JSON: call.raw}
    arguments: dict[str, Any] = thaw(call.arguments)
    return arguments


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of *call* as JSON."""
    return encode(arguments_of(call)).decode()


def schema_of(spec: ToolSpec) -> dict[str, Any]:
    """Return the schema of a tool's arguments, which providers want to be that of an object."""
    return {"type": "object", **thaw(spec.input_schema)}


def with_settings(
    body: dict[str, Any], settings: JsonObject, reserved: Container[str]
) -> dict[str, Any]:
    """Return *body* with *settings*, the provider's own parameters; one that is None is left out.

    Raises `RegistrationError` for one that is *reserved*: what it says is in the request.
    """
    for name in settings:
        if name in reserved:
            reason = "it is made of the request; change that, or `tools=` of the agent"
            raise RegistrationError(f"model setting {name!r}", reason)
    whole = {**body, **thaw(settings)}
    return {name: value for name, value in whole.items() if value is not None}
