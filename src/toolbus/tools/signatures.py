"""A function's signature: its parameters, type hints and texts, and their JSON schema."""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import cached_property, partial
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

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
from toolbus.tools.contexts import ToolContext
from toolbus.tools.foreign_types import PydanticType, is_field, is_pydantic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toolbus.tools.docstrings import Docstring

_UNIONS = {Union, UnionType}
_PARTS = (TextPart, ImagePart, AudioPart, ResourcePart, Part)
_CONTENT = (type(None), str, Any, object, ToolResponse, *_PARTS)
_PLAIN = (Any, type(None), bool, int, float, str, bytes, list, dict, ...)
_PLAIN_CONTAINERS = {list, dict, tuple, set, frozenset, *_UNIONS}
_REFUSED: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, and calls name their arguments",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values; make it one list",
    inspect.Parameter.VAR_KEYWORD: "takes any names; give the tool an `input_schema`",
}


class Signature:
    """The signature of *function*: a function, a method, a `partial` or a callable object.

    *routine* is the function below any `partial`, and *name* its name, or the class of an object.
    *parameters* are open to calls, *fixed* are the names of the arguments set by a `partial`.
    Raises `RegistrationError` for a function without a readable signature.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.routine = _routine_of(function)
        self.name, self.fixed = _name_of(function, self.routine), _fixed(function)
        try:
            parameters = inspect.signature(function).parameters
        except ValueError as error:
            raise self.error(str(error)) from None
        self.parameters = {
            name: parameter for name, parameter in parameters.items() if name not in self.fixed
        }

    @cached_property
    def docstring(self) -> Docstring:
        """The docstring of the function, or of the class of a callable object without one."""
        from toolbus.tools.docstrings import parse  # noqa: PLC0415 - its expressions are costly

        function, routine = self.function, self.routine
        # A `partial` has the docstring of its type, unless it was given another one.
        text = vars(function).get("__doc__") if isinstance(function, partial) else None
        if text is None and getattr(routine, "__name__", "") == "__call__":
            text = routine.__doc__ or type(getattr(routine, "__self__", None)).__doc__ or ""
        return parse(inspect.getdoc(routine) or "" if text is None else inspect.cleandoc(text))

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The type hints by the names of the parameters, and of "return"."""
        # A wrapper shows the signature of its function, perhaps defined in another module.
        wrapped = _routine_of(inspect.unwrap(self.routine))
        try:
            return get_type_hints(wrapped, include_extras=True)
        except (NameError, SyntaxError, TypeError) as error:
            raise self.error(f"its type hints cannot be read: {error}") from None

    @cached_property
    def injected(self) -> tuple[str, ...]:
        """The parameters for the runner to fill, by their hints: the context, or a union of it."""
        return tuple([name for name in self.parameters if _is_context(self.hints.get(name))])

    def error(self, reason: str) -> RegistrationError:
        """Return the error that the function cannot be a tool."""
        name = getattr(self.function, "__qualname__", None) or self.name
        return RegistrationError(f"tool {name!r}", reason)


def _is_context(hint: Any) -> bool:
    return any(ToolContext in (kind, get_origin(kind)) for kind in (hint, *get_args(hint)))


def _name_of(function: Callable[..., Any], routine: Callable[..., Any]) -> str:
    for named in (function, routine):
        name = getattr(named, "__name__", "__call__")
        if name != "__call__":
            return str(name)
    return type(getattr(routine, "__self__", function)).__name__


def _fixed(function: Any) -> frozenset[str]:
    """Return the names of the arguments set by any `partial` in *function*."""
    names: set[str] = set()
    while function is not None:
        if isinstance(function, partial):
            parameters = inspect.signature(function.func).parameters
            names.update(function.keywords, list(parameters)[: len(function.args)])
            function = function.func
        else:
            function = getattr(function, "__wrapped__", None)
    return frozenset(names)


def _routine_of(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    # A wrapper (of `functools.wraps`, `lru_cache`, `@tool`) shows its function itself.
    if inspect.isroutine(function) or hasattr(function, "__wrapped__"):
        return function
    method: Callable[..., Any] = function.__call__  # type: ignore[operator]  # an object's own
    return method


class SignatureSchema:
    """The JSON schemas of *signature*, and the conversion of calls' arguments to its types.

    Raises `RegistrationError` if a parameter has no type hint, or one that is not a JSON type.
    """

    def __init__(self, signature: Signature) -> None:
        hints = {name: _without_paths(hint) for name, hint in signature.hints.items()}
        parameters = [
            parameter
            for name, parameter in signature.parameters.items()
            if name not in signature.injected
        ]
        for parameter in parameters:
            if reason := _problem(parameter, hints):
                raise signature.error(f"parameter {parameter.name!r} {reason}")
        fields, texts = [], signature.docstring.parameters
        self._pydantic: dict[str, PydanticType] = {}
        try:
            for parameter in parameters:
                name, hint = parameter.name, hints[parameter.name]
                if is_pydantic(hint):
                    self._pydantic[name], hint = PydanticType(hint), Any
                fields.append(_field(parameter, hint, texts.get(name)))
            self._struct = msgspec.defstruct(
                "Arguments", fields, kw_only=True, forbid_unknown_fields=True
            )
            self.input_schema = self._input_schema(parameters)
            self.output_schema = _output_schema(hints.get("return", Any))
            _check_schemas(hints, self.input_schema, self.output_schema or {})
        except (TypeError, ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[-1]
            raise signature.error(f"a type hint is not a JSON type: {reason}") from None

    def fit(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Return *arguments* as the annotated types, and the problem with its JSON path, or None.

        The function may change the values: they are not shared.
        """
        # Pydantic accepts more than its schema says, which guards may rely on.
        if self._pydantic and (problem := schemas.problem(self.input_schema, arguments)):
            return {}, problem
        try:
            values = msgspec.convert(thaw(arguments), self._struct, dec_hook=foreign_types.decode)
            made = {name: getattr(values, name) for name in arguments}
            for name, kind in self._pydantic.items():
                if name in made:
                    made[name] = kind.validate(made[name], f"$.{name}")
        except msgspec.ValidationError as error:
            text = str(error)
        except Exception as error:  # noqa: BLE001 - raised by constructors of the function's types
            text = f"{type(error).__name__}: {error}"
        else:
            return made, None
        return {}, text[:1].lower() + text[1:] + ("" if " - at `" in text else " - at `$`")

    def _input_schema(self, parameters: list[inspect.Parameter]) -> dict[str, Any]:
        # The root replaces its reference: models and providers expect an object there.
        schema = _schema_of(self._struct)
        definitions = schema.pop("$defs")
        root: dict[str, Any] = definitions.pop(schema["$ref"].rpartition("/")[2])
        del root["title"]
        for parameter in parameters:
            name, properties = parameter.name, root["properties"]
            known = self._pydantic.get(name)
            if known is not None:
                properties[name] = {**known.input_schema(name, definitions), **properties[name]}
            if parameter.default is not parameter.empty:
                to_json = _to_json if known is None else known.default
                with suppress(TypeError, ValueError):  # Not every default has a JSON value.
                    properties[name]["default"] = freeze(to_json(parameter.default))
        return {**root, "$defs": definitions} if definitions else root


def _problem(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> str | None:
    """Return the reason why *parameter* cannot be a tool's, or None."""
    if reason := _REFUSED.get(parameter.kind):
        return reason
    if parameter.name not in hints:
        return "has no type hint, so its schema is unknown"
    if is_field(parameter.default):
        return "has a `Field` as its default; write `Annotated[…, Field(…)] = …`"
    return None


def _field(parameter: inspect.Parameter, hint: Any, text: str | None) -> tuple[Any, ...]:
    """Return the field of *parameter* for msgspec, with *text* unless *hint* describes itself."""
    if text is not None and get_origin(hint) is Annotated:
        hint = Annotated[(hint.__origin__, Meta(description=text), *hint.__metadata__)]
    elif text is not None:
        hint = Annotated[hint, Meta(description=text)]
    if parameter.default is parameter.empty:
        return parameter.name, hint
    # Only to mark it optional: the function has the default itself.
    return parameter.name, hint, msgspec.field(default_factory=lambda: None)


def _schema_of(kind: Any) -> dict[str, Any]:
    return msgspec.json.schema(kind, schema_hook=foreign_types.schema)


def _output_schema(kind: Any) -> dict[str, Any] | None:
    if _is_content(kind):
        return None
    return PydanticType(kind).output_schema if is_pydantic(kind) else _schema_of(kind)


def _check_schemas(hints: Mapping[str, Any], *made: dict[str, Any]) -> None:
    """Raise `ValueError` for a malformed schema: an author may put parts of it in a type."""
    if all(map(_is_plain, hints.values())):
        return  # All of it comes from msgspec.
    for schema in made:
        if flaw := schemas.check_schema(schema):
            raise ValueError(f"its schema is malformed: {flaw}")


def _to_json(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=foreign_types.encode)


def _is_plain(hint: Any) -> bool:
    """Return whether *hint* consists of built-in types, which have no schema of an author."""
    kind = get_origin(hint)
    if kind is None:
        return hint in _PLAIN
    return kind is Literal or (kind in _PLAIN_CONTAINERS and all(map(_is_plain, get_args(hint))))


def _without_paths(hint: Any) -> Any:
    """Return *hint* without paths in a union with text: the text is enough.

    msgspec does not accept a union of a foreign type, and JSON has text for both.
    """
    arguments, is_union = get_args(hint), get_origin(hint) in _UNIONS
    remaining = tuple(map(_without_paths, arguments))
    if is_union and str in remaining:
        remaining = tuple(kind for kind in remaining if not foreign_types.is_path(kind))
    if remaining == arguments:
        return hint
    origin: Any = Union if is_union else get_origin(hint)
    return origin[remaining]


def _is_content(hint: Any) -> bool:
    """Return whether a return annotation means text or parts rather than structured data."""
    if hint in _CONTENT or foreign_types.is_path(hint):
        return True
    kind, arguments = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return _is_content(arguments[0])
    if kind in {list, tuple}:
        # Parts, or texts among parts: texts alone would be JSON.
        items = [item for argument in arguments for item in _alternatives(argument)]
        return any(map(_is_part, items)) and all(item in (str, *_PARTS) for item in items)
    return kind in _UNIONS and all(map(_is_content, arguments))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types of the union *hint*, or *hint* alone; none for the dots of a tuple."""
    if get_origin(hint) in _UNIONS:
        return get_args(hint)
    return () if hint is ... else (hint,)


def _is_part(hint: Any) -> bool:
    return hint in _PARTS
