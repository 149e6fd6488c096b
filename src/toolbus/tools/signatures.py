"""A function's signature as a JSON schema, and a call's arguments as what the function takes."""

from __future__ import annotations

import inspect
import re
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from toolbus.errors import RegistrationError
from toolbus.messages import AudioPart, ImagePart, Part, ResourcePart, TextPart, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PARTS = (TextPart, ImagePart, AudioPart, ResourcePart, Part)
_CONTENT = (str, Any, ToolResponse, *_PARTS)
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
        self._what = f"tool {getattr(function, '__qualname__', function)!r}"
        hints = self._hints(function)
        parameters = inspect.signature(function).parameters
        self.injected = tuple(
            [name for name in parameters if context in (hints.get(name), *get_args(hints.get(name)))]
        )
        texts = argument_texts(inspect.getdoc(function) or "")
        fields = [
            self._field(parameter, hints, texts.get(name))
            for name, parameter in parameters.items()
            if name not in self.injected
        ]
        self._struct = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=True
        )
        self.input_schema = self._input_schema()
        returned = hints.get("return", Any)
        self.output_schema = None if _is_content(returned) else self._schema(returned)

    def problem(self, arguments: Mapping[str, Any]) -> str | None:
        """Return why *arguments* do not fit, with the JSON path, or None."""
        try:
            self.convert(arguments)
        except msgspec.ValidationError as error:
            text = str(error)
            where = "" if " - at `" in text else " - at `$`"
            return text[:1].lower() + text[1:] + where
        return None

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return *arguments* as the annotated types; raises `msgspec.ValidationError`."""
        values = msgspec.convert(dict(arguments), self._struct)
        return {name: getattr(values, name) for name in arguments}

    def _hints(self, function: Callable[..., Any]) -> dict[str, Any]:
        # The hints of `None` defaults and of string annotations are resolved where it was defined.
        try:
            return get_type_hints(inspect.unwrap(function), include_extras=True)
        except (NameError, TypeError) as error:
            raise RegistrationError(self._what, f"its type hints cannot be read: {error}") from None

    def _field(
        self, parameter: inspect.Parameter, hints: dict[str, Any], text: str | None
    ) -> tuple[str, Any] | tuple[str, Any, Any]:
        name = parameter.name
        if reason := _REFUSED.get(parameter.kind):
            raise RegistrationError(self._what, f"parameter {name!r} {reason}")
        if name not in hints:
            raise RegistrationError(
                self._what, f"parameter {name!r} has no type hint, so a model cannot be told of it"
            )
        hint = hints[name] if text is None else Annotated[hints[name], Meta(description=text)]
        if parameter.default is parameter.empty:
            return name, hint
        if isinstance(parameter.default, list | dict | set | bytearray):
            default = parameter.default
            return name, hint, msgspec.field(default_factory=lambda: default)
        return name, hint, parameter.default

    def _schema(self, kind: Any) -> dict[str, Any]:
        try:
            return msgspec.json.schema(kind)
        except (TypeError, ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[-1]
            raise RegistrationError(self._what, f"a type hint is no JSON type: {reason}") from None

    def _input_schema(self) -> dict[str, Any]:
        # The root goes in place of its reference: models and providers expect an object there.
        schema = self._schema(self._struct)
        definitions = schema.pop("$defs")
        root: dict[str, Any] = definitions.pop("Arguments")
        del root["title"]
        return {**root, "$defs": definitions} if definitions else root


def argument_texts(doc: str) -> dict[str, str]:
    """Return the texts of the `Args:` block of a docstring, by argument."""
    _, _, block = doc.partition("\nArgs:\n")
    block = re.split(r"\n(?=\S)", block)[0]
    texts: dict[str, str] = {}
    for entry in re.split(r"\n {2,4}(?=\w)", f"\n{block}"):
        if found := re.match(r"(?P<name>\w+)(?: \([^)]*\))?: (?P<text>.+)", entry, re.DOTALL):
            texts[found["name"]] = " ".join(found["text"].split())
    return texts


def summary(doc: str) -> str:
    """Return a docstring without its `Args:` and later blocks."""
    return re.split(r"\n\s*(?:Args|Returns|Raises|Yields|Example|Examples):\s*\n", doc)[0].strip()


def _is_content(hint: Any) -> bool:
    """Tell whether a return annotation means text or parts rather than structured data."""
    if hint in _CONTENT or hint is type(None):
        return True
    kind, arguments = get_origin(hint), [one for one in get_args(hint) if one is not Ellipsis]
    if kind in {list, tuple}:
        return bool(arguments) and all(one in _PARTS for one in arguments)
    return kind in {Union, UnionType} and all(map(_is_content, arguments))
