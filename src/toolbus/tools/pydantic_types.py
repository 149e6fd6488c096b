"""Pydantic's models and constraints as parameters and results, where a program uses pydantic.

A program that does not has not loaded it, and none of its types can be in a type hint then.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

# `PositiveInt` and the like are constraints of the second.
_ROOMS = {"pydantic", "annotated_types"}


def is_pydantic(hint: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Tell whether *hint* is of pydantic's making, or holds what is."""
    if "pydantic" not in sys.modules or id(hint) in seen:
        return False
    if get_origin(hint) is Annotated and any(map(_is_constraint, hint.__metadata__)):
        return True
    inner = list(get_args(hint))
    if isinstance(hint, type):
        if hasattr(hint, "__get_pydantic_core_schema__") or "__pydantic_fields__" in vars(hint):
            return True
        # Dataclasses, typed dicts (also of typing_extensions) and named tuples.
        if any(hasattr(hint, name) for name in ("__dataclass_fields__", "__total__", "_fields")):
            with suppress(AttributeError, NameError, SyntaxError, TypeError):
                inner += get_type_hints(hint, include_extras=True).values()
    return any(is_pydantic(kind, seen | {id(hint)}) for kind in inner)


def is_field(default: Any) -> bool:
    """Tell whether *default* is pydantic's `Field(…)`, which only a model's field has."""
    return type(default).__name__ == "FieldInfo" and _is_constraint(default)


def encoded(value: Any) -> Any:
    """Return a model of pydantic as JSON; raises `TypeError` for what is none."""
    if "pydantic" in sys.modules:
        from pydantic import BaseModel  # noqa: PLC0415 - it is loaded, as its object is here

        if isinstance(value, BaseModel):
            return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


class PydanticType:
    """A type *hint* that pydantic reads; raises `TypeError` for one that it cannot."""

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
        """Return the schema of the parameter *name*; what it refers to goes to *definitions*."""
        # Two types of one name, in two parameters, are two.
        same = all(definitions.get(key, rule) == rule for key, rule in self._definitions.items())
        prefix = "" if same else f"{name}."
        schema = self._adapter.json_schema(ref_template=f"#/$defs/{prefix}{{model}}")
        for key, definition in schema.pop("$defs", {}).items():
            definitions[prefix + key] = definition
        return schema

    def made(self, value: Any, path: str) -> Any:
        """Return the JSON *value* as what the function takes.

        Raises `msgspec.ValidationError`, with what is wrong at which path below *path*; no value
        is in it but what the type's own checks say.
        """
        from pydantic import ValidationError  # noqa: PLC0415 - as above

        try:
            return self._adapter.validate_json(msgspec.json.encode(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]]
            raise msgspec.ValidationError(f"{first['msg']} - at `{path}{''.join(steps)}`") from None

    def default(self, value: Any) -> Any:
        """Return a default *value* as JSON; raises `ValueError` or `TypeError` for none."""
        return self._adapter.dump_python(value, mode="json", by_alias=True)


def _is_constraint(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _ROOMS
