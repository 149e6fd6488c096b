"""The output of a run: its type, and the JSON that fits it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from toolbus.errors import DecodeError, RegistrationError
from toolbus.messages.codec import decoder
from toolbus.messages.immutable import freeze_object
from toolbus.messages.records import AssistantMessage
from toolbus.tools.foreign_types import PydanticType, is_pydantic

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.events.catalogue import RunResult
    from toolbus.messages.records import JsonObject

logger = logging.getLogger("toolbus")

REFUSED = "refusal"
"""The stop reason of a refused answer."""

_read_json = decoder(object)


class OutputType:
    """The type *kind* of a run's output, which msgspec or pydantic reads from JSON.

    *schema* is for the model: a value that is not an object is wrapped as the `value` of one,
    because providers want an object. *value_schema* is for the value itself. Raises
    `RegistrationError` for a type that cannot be read from JSON.
    """

    def __init__(self, kind: Any) -> None:
        self.name = getattr(kind, "__name__", None) or str(kind)
        try:
            self.value_schema, self._decode = _reader_of(kind)
        except (TypeError, ValueError, NotImplementedError) as error:
            reason = f"it cannot be read from JSON: {str(error).splitlines()[-1]}"
            raise RegistrationError(f"output_type {kind!r}", reason) from None
        self._is_wrapped = self.value_schema.get("type") != "object"
        self.schema = _wrapped(self.value_schema) if self._is_wrapped else self.value_schema

    def json_of(self, message: AssistantMessage) -> str:
        """Return the JSON of the value in *message*; raises `DecodeError`."""
        try:
            return self._json_in(message.text.strip())
        except DecodeError:
            if message.stop_reason == "length":
                reason = "the answer was cut off at the length limit; give a shorter one"
                raise DecodeError(reason) from None
            raise

    def fitted(self, end: RunResult[Any]) -> RunResult[Any] | None:
        """Return *end*, a handler's result, with an output; None if that does not fit."""
        if end.status != "ok":
            return end
        text = end.text if end.output_json is None else end.output_json
        try:
            output_json = self.json_of(AssistantMessage(content=text))
        except DecodeError as error:
            logger.warning("a handler's result does not fit the output type: %s", error)
            return None
        return replace(end, output_json=output_json).with_decoder(self.decode)

    def decode(self, text: str) -> Any:
        """Return the value of the JSON *text*; raises `DecodeError`."""
        try:
            return self._decode(text)
        except DecodeError:
            raise
        except Exception as error:  # noqa: BLE001 - the type's own checks may raise anything
            raise DecodeError(f"{type(error).__name__}: {error}", "$") from None

    def _json_in(self, text: str) -> str:
        text = _without_fence(text)
        if self._is_wrapped:
            try:
                text = bytes(_read_value(text).value).decode()
            except DecodeError:
                pass  # Many models give the value without the object.
            else:
                return self._checked(text, "$.value")
        return self._checked(text, "$")

    def _checked(self, text: str, path: str) -> str:
        try:
            self.decode(text)
        except DecodeError as error:
            if error.path is None:
                raise
            raise DecodeError(error.reason, path + error.path.removeprefix("$")) from None
        return text


class _Value(msgspec.Struct, forbid_unknown_fields=True):
    value: msgspec.Raw


_read_value = decoder(_Value)


def output_of(kind: Any) -> OutputType | None:
    """Return the output type of *kind*, None for text (`str` or None)."""
    return None if kind is None or kind is str else OutputType(kind)


def _reader_of(kind: Any) -> tuple[JsonObject, Callable[[str], Any]]:
    """Return the schema of *kind*, and a reader of its JSON; raises `TypeError` and others."""
    if not is_pydantic(kind):
        _check_keys(msgspec.inspect.type_info(kind), set())
        return freeze_object(_inlined(msgspec.json.schema(kind)), "$"), decoder(kind)
    adapter = PydanticType(kind)
    definitions: dict[str, Any] = {}
    schema = adapter.input_schema("output", definitions)
    schema = _inlined({**schema, "$defs": definitions})
    return freeze_object(schema, "$"), lambda text: _decode_pydantic(adapter, text)


def _check_keys(info: Any, seen: set[int]) -> None:
    """Raise `TypeError` for object keys that cannot be text: a schema does not describe keys."""
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.DictType) and isinstance(
        info.key_type, msgspec.inspect.CustomType
    ):
        raise TypeError(f"a JSON object cannot have keys of {info.key_type.cls!r}")
    if isinstance(info, tuple):
        for part in info:
            _check_keys(part, seen)
    elif isinstance(info, msgspec.Struct):
        for name in info.__struct_fields__:
            _check_keys(getattr(info, name), seen)


def _decode_pydantic(adapter: PydanticType, text: str) -> Any:
    try:
        return adapter.validate(_read_json(text), "$")
    except msgspec.ValidationError as error:
        reason, _, path = str(error).rpartition(" - at `")
        raise DecodeError(reason[:1].lower() + reason[1:], path.removesuffix("`")) from None


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with its root in place of a reference to it: providers expect it there."""
    definitions = dict(schema.get("$defs", {}))
    root = {name: rule for name, rule in schema.items() if name != "$defs"}
    if list(root) == ["$ref"]:
        name = root["$ref"].rpartition("/")[2]
        root = definitions[name]
        # The definition stays if it refers to itself.
        if f'"#/$defs/{name}"' not in msgspec.json.encode(schema["$defs"]).decode():
            del definitions[name]
    return {**root, "$defs": definitions} if definitions else root


def _wrapped(schema: JsonObject) -> JsonObject:
    value = {name: rule for name, rule in schema.items() if name != "$defs"}
    root = {"type": "object", "properties": {"value": value}, "required": ["value"]}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return freeze_object({**root, **definitions}, "$")


def _without_fence(text: str) -> str:
    """Return *text* if it is JSON, else the JSON in its code block; raises `DecodeError`."""
    try:
        _read_json(text)
    except DecodeError:
        start, end = text.find("```"), text.rfind("```")
        if start == end:
            raise
        # After the language of the block.
        text = text[start + 3 : end].partition("\n")[2].strip()
        _read_json(text)
    return text
