"""A function's signature: its parameters, type hints and texts, and their JSON schema."""

from __future__ import annotations

import inspect
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
    """What is known of *function*: a function, a method, a `partial` or an object with a call.

    The runner fills the parameters that are annotated with the type *context*. Each property
    raises `RegistrationError` if it cannot be read.
    """

    def __init__(self, function: Callable[..., Any], context: type) -> None:
        self.function, self._context = function, context

    @cached_property
    def routine(self) -> Callable[..., Any]:
        """The function or method that runs in the end, below any `partial`."""
        return _routine_of(self.function)

    @cached_property
    def name(self) -> str:
        """The name of the function; for an object that of its class."""
        for named in (self.function, self.routine):
            name = getattr(named, "__name__", "__call__")
            if name != "__call__":
                return str(name)
        return type(getattr(self.routine, "__self__", self.function)).__name__

    @cached_property
    def docstring(self) -> Docstring:
        """The docstring of the function, or of the class of an object whose call has none."""
        from toolbus.tools.docstrings import parse  # noqa: PLC0415 - its expressions are costly

        function, routine = self.function, self.routine
        # A `partial` has the docstring of its type, unless it was given another one.
        text = vars(function).get("__doc__") if isinstance(function, partial) else None
        if text is None and getattr(routine, "__name__", "") == "__call__":
            text = routine.__doc__ or type(getattr(routine, "__self__", None)).__doc__ or ""
        return parse(inspect.getdoc(routine) or "" if text is None else inspect.cleandoc(text))

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters that a call may give: those of no `partial`."""
        try:
            parameters = inspect.signature(self.function).parameters
        except ValueError as error:
            raise self.error(str(error)) from None
        return {name: each for name, each in parameters.items() if name not in self.fixed}

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The names of the arguments that a `partial`, anywhere in the function, gives."""
        names: set[str] = set()
        function: Any = self.function
        while function is not None:
            if isinstance(function, partial):
                parameters = inspect.signature(function.func).parameters
                names.update(function.keywords, list(parameters)[: len(function.args)])
                function = function.func
            else:
                function = getattr(function, "__wrapped__", None)
        return frozenset(names)

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The type hints by the names of the parameters, and of "return"."""
        # A wrapper shows the signature of what it wraps, which was perhaps defined elsewhere.
        wrapped = _routine_of(inspect.unwrap(self.routine))
        try:
            return get_type_hints(wrapped, include_extras=True)
        except (NameError, SyntaxError, TypeError) as error:
            raise self.error(f"its type hints cannot be read: {error}") from None

    @cached_property
    def injected(self) -> tuple[str, ...]:
        """The parameters annotated with the context, `context[…]` or a union of it."""
        return tuple(
            [
                name
                for name, hint in self.hints.items()
                if name in self.parameters
                and any(
                    self._context in (kind, get_origin(kind)) for kind in (hint, *get_args(hint))
                )
            ]
        )

    def error(self, reason: str) -> RegistrationError:
        """Return the error that no tool can be made of the function."""
        name = getattr(self.function, "__qualname__", None) or self.name
        return RegistrationError(f"tool {name!r}", reason)


def _routine_of(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    # A wrapper (of `functools.wraps`, `lru_cache`, `@tool`) shows what it wraps by itself.
    if inspect.isroutine(function) or hasattr(function, "__wrapped__"):
        return function
    method: Callable[..., Any] = function.__call__  # type: ignore[operator]  # an object's own
    return method


class SignatureSchema:
    """The JSON schemas of *signature*, and calls' arguments as its function takes them.

    Raises `RegistrationError` if a parameter has no type hint, or one that is not a JSON type.
    """

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._hints = {name: _without_paths(hint) for name, hint in signature.hints.items()}
        self._parameters = [
            parameter
            for name, parameter in signature.parameters.items()
            if name not in signature.injected
        ]
        self._pydantic: dict[str, PydanticType] = {}
        fields = [self._field(parameter) for parameter in self._parameters]
        self._struct = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=True
        )
        self.input_schema = self._input_schema()
        self.output_schema = self._output_schema(self._hints.get("return", Any))
        # The schemas of built-in types are msgspec's alone, and sound.
        if not all(map(_is_plain, self._hints.values())):
            for schema in filter(None, (self.input_schema, self.output_schema)):
                if flaw := schemas.check_schema(schema):
                    raise signature.error(f"its schema is malformed: {flaw}")

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

    def _field(self, parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
        """Return the field of *parameter* for msgspec."""
        name = parameter.name
        reason = _REFUSED.get(parameter.kind)
        if reason is None and name not in self._hints:
            reason = "has no type hint, so a model cannot be told of it"
        if reason is None and is_field(parameter.default):
            reason = "has a `Field` as its default; write `Annotated[…, Field(…)] = …`"
        if reason:
            raise self._signature.error(f"parameter {name!r} {reason}")
        hint = self._hints[name]
        if is_pydantic(hint):
            self._pydantic[name], hint = self._pydantic_type(hint), Any
        if text := self._signature.docstring.parameters.get(name):
            hint = _described(hint, text)
        if parameter.default is parameter.empty:
            return name, hint
        # Only that there is one: the function has its default itself.
        return name, hint, msgspec.field(default_factory=lambda: None)

    def _pydantic_type(self, hint: Any) -> PydanticType:
        try:
            return PydanticType(hint)
        except TypeError as error:
            raise self._signature.error(f"a type hint is no JSON type: {error}") from None

    def _schema(self, kind: Any) -> dict[str, Any]:
        try:
            return msgspec.json.schema(kind, schema_hook=foreign_types.schema)
        except (TypeError, ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[-1]
            raise self._signature.error(f"a type hint is no JSON type: {reason}") from None

    def _output_schema(self, kind: Any) -> dict[str, Any] | None:
        if _is_content(kind):
            return None
        return self._pydantic_type(kind).output_schema if is_pydantic(kind) else self._schema(kind)

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


def _is_plain(hint: Any) -> bool:
    """Return whether *hint* is made of built-in types, which hold no schema of an author."""
    kind = get_origin(hint)
    if kind is None:
        return hint in _PLAIN
    return kind is Literal or (kind in _PLAIN_CONTAINERS and all(map(_is_plain, get_args(hint))))


def _without_paths(hint: Any) -> Any:
    """Return *hint* without the paths that stand beside text in a union: the text is enough.

    msgspec reads no union of a foreign type and others, and JSON has text for both.
    """
    arguments, is_union = get_args(hint), get_origin(hint) in _UNIONS
    remaining = tuple(map(_without_paths, arguments))
    if is_union and str in remaining:
        remaining = tuple(kind for kind in remaining if not foreign_types.is_path(kind))
    if remaining == arguments:
        return hint
    origin: Any = Union if is_union else get_origin(hint)
    return origin[remaining]


def _described(hint: Any, text: str) -> Any:
    """Return *hint* with *text* as its description; a description that it has already wins."""
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
    """Return the types of the union *hint*, or *hint* alone; nothing for the dots of a tuple."""
    if get_origin(hint) in _UNIONS:
        return get_args(hint)
    return () if hint is ... else (hint,)


def _is_part(hint: Any) -> bool:
    return hint in _PARTS
