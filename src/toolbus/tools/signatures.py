"""A function's signature as a JSON schema, and a call's arguments as what the function takes."""

from __future__ import annotations

import inspect
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from toolbus.errors import RegistrationError
from toolbus.messages import schemas
from toolbus.messages.immutable import freeze, thaw
from toolbus.messages.records import (
    AudioPart,
    ImagePart,
    Part,
    ResourcePart,
    TextPart,
    ToolResponse,
)
from toolbus.tools import foreign_types
from toolbus.tools.functions import documentation, hints_of, injected, parameters_of, what
from toolbus.tools.pydantic_types import PydanticType, is_field, is_pydantic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PARTS = (TextPart, ImagePart, AudioPart, ResourcePart, Part)
_CONTENT = (str, Any, object, ToolResponse, *_PARTS)
_REFUSED: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, and calls name their arguments",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values; make it one list",
    inspect.Parameter.VAR_KEYWORD: "takes any names; give the tool an `input_schema`",
}


class Signature:
    """What *function* takes and returns; *context* is the type of the parameter to be injected.

    Raises `RegistrationError` if a parameter has no type hint, or one that is no JSON type.
    """

    def __init__(self, function: Callable[..., Any], context: type) -> None:
        from toolbus.tools.docstrings import parse  # noqa: PLC0415 - its expressions are costly

        self._what = what(function)
        hints = {name: _without_paths(hint) for name, hint in hints_of(function).items()}
        self._pydantic: dict[str, PydanticType] = {}
        self.injected = injected(function, context)
        texts = parse(documentation(function)).parameters
        self._parameters = [
            parameter
            for name, parameter in parameters_of(function).items()
            if name not in self.injected
        ]
        fields = [
            self._field(parameter, hints, texts.get(parameter.name))
            for parameter in self._parameters
        ]
        self._struct = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=True
        )
        self.input_schema = self._input_schema()
        returned = hints.get("return", Any)
        self.output_schema = None if _is_content(returned) else self._output_schema(returned)

    def fit(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Return *arguments* as the annotated types, and why they do not fit, with the JSON path.

        The function may change what it gets: nothing of it is shared.
        """
        # Pydantic itself would read more into a value than its schema, which guards may know, says.
        if self._pydantic and (problem := schemas.problem(self.input_schema, arguments)):
            return {}, problem
        try:
            values = msgspec.convert(thaw(arguments), self._struct, dec_hook=foreign_types.decode)
            made = {name: getattr(values, name) for name in arguments}
            for name in self._pydantic.keys() & made:
                made[name] = self._pydantic[name].made(made[name], f"$.{name}")
        except msgspec.ValidationError as error:
            text = str(error)
        except Exception as error:  # noqa: BLE001 - what the function's own types raise when made
            text = f"{type(error).__name__}: {error}"
        else:
            return made, None
        return {}, text[:1].lower() + text[1:] + ("" if " - at `" in text else " - at `$`")

    def _field(
        self, parameter: inspect.Parameter, hints: dict[str, Any], text: str | None
    ) -> tuple[str, Any] | tuple[str, Any, Any]:
        name = parameter.name
        if reason := _REFUSED.get(parameter.kind):
            raise RegistrationError(self._what, f"parameter {name!r} {reason}")
        if name not in hints:
            reason = f"parameter {name!r} has no type hint, so a model cannot be told of it"
            raise RegistrationError(self._what, reason)
        if is_field(parameter.default):
            reason = "has a `Field` as its default; write `Annotated[…, Field(…)] = …`"
            raise RegistrationError(self._what, f"parameter {name!r} {reason}")
        hint = hints[name]
        if is_pydantic(hint):
            self._pydantic[name] = self._pydantic_type(hint)
            hint = Any
        hint = hint if text is None else _described(hint, text)
        if parameter.default is parameter.empty:
            return name, hint
        # Only that there is one: the function has its default itself.
        return name, hint, msgspec.field(default_factory=lambda: None)

    def _pydantic_type(self, hint: Any) -> PydanticType:
        try:
            return PydanticType(hint)
        except TypeError as error:
            raise RegistrationError(self._what, f"a type hint is no JSON type: {error}") from None

    def _output_schema(self, kind: Any) -> dict[str, Any]:
        return self._pydantic_type(kind).output_schema if is_pydantic(kind) else self._schema(kind)

    def _schema(self, kind: Any) -> dict[str, Any]:
        try:
            return msgspec.json.schema(kind, schema_hook=foreign_types.schema)
        except (TypeError, ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[-1]
            raise RegistrationError(self._what, f"a type hint is no JSON type: {reason}") from None

    def _input_schema(self) -> dict[str, Any]:
        # The root goes in place of its reference: models and providers expect an object there.
        schema = self._schema(self._struct)
        definitions = schema.pop("$defs")
        root: dict[str, Any] = definitions.pop(schema["$ref"].rpartition("/")[2])
        del root["title"]
        for parameter in self._parameters:
            name, properties = parameter.name, root["properties"]
            known = self._pydantic.get(name)
            if known is not None:
                properties[name] = {**known.input_schema(name, definitions), **properties[name]}
            if parameter.default is not parameter.empty:
                to_json = _to_json if known is None else known.default
                _show_default(properties[name], parameter.default, to_json)
        return {**root, "$defs": definitions} if definitions else root


def _without_paths(hint: Any) -> Any:
    """Return *hint* without the paths that stand beside text in a union: the text is enough.

    msgspec reads no union of a foreign type and others, and JSON has text for both.
    """
    arguments, is_union = get_args(hint), get_origin(hint) in {Union, UnionType}
    remaining = tuple(map(_without_paths, arguments))
    if is_union and str in remaining:
        remaining = tuple(kind for kind in remaining if not foreign_types.is_path(kind))
    if remaining == arguments:
        return hint
    origin: Any = Union if is_union else get_origin(hint)
    return origin[remaining]


def _described(hint: Any, text: str) -> Any:
    """Return *hint* with *text* as its description; one that it has already wins."""
    if get_origin(hint) is Annotated:
        return Annotated[(hint.__origin__, Meta(description=text), *hint.__metadata__)]
    return Annotated[hint, Meta(description=text)]


def _show_default(schema: dict[str, Any], default: Any, to_json: Callable[[Any], Any]) -> None:
    """Put *default* into the *schema* of its parameter, if JSON can say it."""
    try:
        schema["default"] = freeze(to_json(default))
    except (TypeError, ValueError):
        return


def _to_json(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=foreign_types.encode)


def _is_content(hint: Any) -> bool:
    """Tell whether a return annotation means text or parts rather than structured data."""
    if hint in _CONTENT or hint is type(None) or foreign_types.is_path(hint):
        return True
    kind, arguments = get_origin(hint), [kind for kind in get_args(hint) if kind is not ...]
    if kind is Annotated:
        return _is_content(arguments[0])
    if kind in {list, tuple}:
        return bool(arguments) and _holds_parts(arguments)
    return kind in {Union, UnionType} and all(map(_is_content, arguments))


def _holds_parts(hints: list[Any]) -> bool:
    """Tell whether items of *hints* are parts, or texts among parts: text alone would be JSON."""
    kinds = [kind for hint in hints for kind in _alternatives(hint)]
    return all(kind is str or kind in _PARTS for kind in kinds) and kinds != [str] * len(kinds)


def _alternatives(hint: Any) -> list[Any]:
    """Return what *hint* is a union of, or itself."""
    if get_origin(hint) in {Union, UnionType}:
        return [kind for argument in get_args(hint) for kind in _alternatives(argument)]
    return [hint]
