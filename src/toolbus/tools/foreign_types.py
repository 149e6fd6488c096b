"""Parameter and result types that msgspec does not know: paths, and types of pydantic.

A program that has not loaded `pathlib` or pydantic has no such types, so neither is loaded here.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

# `PositiveInt` and the like are constraints of the second.
_CONSTRAINTS = {"pydantic", "annotated_types"}


def encode(value: Any) -> Any:
    """Return a path as text and a pydantic model as JSON; raises `TypeError` for other objects."""
    if is_path(type(value)):
        return str(value)
    if "pydantic" in sys.modules:
        from pydantic import BaseModel  # noqa: PLC0415 - it is loaded, as its object is here

        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def decode(kind: type, value: Any) -> Any:
    """Return the text *value* as a path of the type *kind*, the only foreign type of a hint."""
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return kind(value)


def schema(kind: type) -> dict[str, Any]:
    """Return the JSON schema of the type *kind*; raises `NotImplementedError` without one."""
    if is_path(kind):
        return {"type": "string"}
    raise NotImplementedError


def is_path(kind: Any) -> bool:
    """Return whether *kind* is a path type of `pathlib`."""
    pathlib = sys.modules.get("pathlib")
    return pathlib is not None and isinstance(kind, type) and issubclass(kind, pathlib.PurePath)


def is_pydantic(hint: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Return whether *hint* is a type or a constraint of pydantic, or contains one."""
    if "pydantic" not in sys.modules or id(hint) in seen:
        return False
    if get_origin(hint) is Annotated and any(map(_is_constraint, hint.__metadata__)):
        return True
    if isinstance(hint, type) and (
        hasattr(hint, "__get_pydantic_core_schema__") or "__pydantic_fields__" in vars(hint)
    ):
        return True
    return any(is_pydantic(kind, seen | {id(hint)}) for kind in (*get_args(hint), *_fields(hint)))


def _fields(hint: Any) -> tuple[Any, ...]:
    """Return the types of the fields of a dataclass, a typed dict or a named tuple."""
    # A typed dict of `typing_extensions` has `__total__` as well.
    marks = ("__dataclass_fields__", "__total__", "_fields")
    if isinstance(hint, type) and any(hasattr(hint, mark) for mark in marks):
        with suppress(AttributeError, NameError, SyntaxError, TypeError):
            return tuple(get_type_hints(hint, include_extras=True).values())
    return ()


def is_field(default: Any) -> bool:
    """Return whether *default* is pydantic's `Field(…)`, meant for fields of models only."""
    return type(default).__name__ == "FieldInfo" and _is_constraint(default)


def _is_constraint(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _CONSTRAINTS


class PydanticType:
    """A type *hint* for pydantic; raises `TypeError` if pydantic cannot use it."""

    def __init__(self, hint: Any) -> None:
        from pydantic import TypeAdapter  # noqa: PLC0415 - it is loaded, as *hint* is of it
        from pydantic.errors import PydanticUserError  # noqa: PLC0415 - as above

        try:
            self._adapter = TypeAdapter[Any](hint)
            self.output_schema = self._adapter.json_schema(mode="serialization")
            self._definitions = self._adapter.json_schema().get("$defs", {})
        except (PydanticUserError, NameError) as error:
            raise TypeError(str(error).splitlines()[0]) from None

    def input_schema(self, name: str, definitions: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of the parameter *name*; add its references to *definitions*."""
        # Two types with the same name, in two parameters, stay apart.
        same = all(definitions.get(key, rule) == rule for key, rule in self._definitions.items())
        prefix = "" if same else f"{name}."
        schema = self._adapter.json_schema(ref_template=f"#/$defs/{prefix}{{model}}")
        for key, definition in schema.pop("$defs", {}).items():
            definitions[prefix + key] = definition
        return schema

    def validate(self, value: Any, path: str) -> Any:
        """Return the JSON *value* as an object of the type.

        Raises `msgspec.ValidationError` with the problem and its path below *path*; it quotes no
        value unless the type's own checks do.
        """
        from pydantic import ValidationError  # noqa: PLC0415 - as above

        try:
            return self._adapter.validate_json(msgspec.json.encode(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]]
            raise msgspec.ValidationError(f"{first['msg']} - at `{path}{''.join(steps)}`") from None

    def default(self, value: Any) -> Any:
        """Return a default *value* as JSON; raises `ValueError` or `TypeError` if impossible."""
        return self._adapter.dump_python(value, mode="json", by_alias=True)
