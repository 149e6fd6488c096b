"""msgspec's hooks for the types that it does not know: paths, and results that are pydantic's.

A program that has not loaded `pathlib` has no paths, so it is not loaded here.
"""

from __future__ import annotations

import sys
from typing import Any

from toolbus.tools.pydantic_types import encoded


def encode(value: Any) -> Any:
    """Return a path as text and a pydantic model as JSON; raises `TypeError` for other objects."""
    return str(value) if is_path(type(value)) else encoded(value)


def decode(kind: type, value: Any) -> Any:
    """Return the text *value* as a path of the type *kind*, for which alone it is called."""
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return kind(value)


def schema(kind: type) -> dict[str, Any]:
    """Return the JSON schema of the type *kind*; raises `NotImplementedError` if it has none."""
    if is_path(kind):
        return {"type": "string"}
    raise NotImplementedError


def is_path(kind: Any) -> bool:
    """Return whether *kind* is one of the path types of `pathlib`."""
    pathlib = sys.modules.get("pathlib")
    return pathlib is not None and isinstance(kind, type) and issubclass(kind, pathlib.PurePath)
