"""Exports of a package that are imported on first access."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_exports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for *package*.

    *modules* has by name the module of the package that defines it; a dot before it means a module
    beside the package, two dots a module beside its parent. A missing extra raises its error at
    the access.
    """

    def getter(name: str) -> Any:
        holder = sys.modules[package]
        if name not in modules:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=holder)
        value = getattr(import_module(f".{modules[name]}", package), name)
        setattr(holder, name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return getter, names
