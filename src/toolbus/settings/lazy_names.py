"""Names that a package offers and does not load before somebody asks for them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazily(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for *package*.

    *modules* has for each name the module of the package that defines it. What that module raises
    because an extra is missing reaches whoever asks for the name.
    """

    def getter(name: str) -> Any:
        holder = sys.modules[package]
        if name not in modules:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=holder)
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(holder, name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return getter, names
