"""Python files and modules: their import, and the classes that they define."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.errors import LoadError
from toolbus.toml.values import format_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

LOADING = threading.RLock()
"""The lock of imports and of making components: no other thread sees them half done."""


def import_file(file: Path) -> ModuleType:
    """Import *file* once, by its dotted name if it is part of a package.

    Its folder, or its package's, becomes the first of `sys.path`. Raises `LoadError`.
    """
    folder, dotted = file.resolve().parent, [] if file.stem == "__init__" else [file.stem]
    while (folder / "__init__.py").is_file():
        dotted.insert(0, folder.name)
        folder = folder.parent

    def load() -> ModuleType:
        sys.path.insert(0, str(folder))
        if dotted != [file.stem]:
            module = importlib.import_module(".".join(dotted))
            if Path(module.__file__ or "").resolve() == file.resolve():
                return module
        return _import_alone(file.resolve())

    return explained(file, load)


def explained(file: Path, load: Callable[[], ModuleType]) -> ModuleType:
    """Return the module that *load* imports from *file*; raises `LoadError` with its line."""
    try:
        with LOADING:
            return load()
    except LoadError:
        raise
    except SyntaxError as error:
        place = f"{error.filename or file}:{error.lineno or 0}"
        raise LoadError(f"{place}: {type(error).__name__}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise LoadError(f"{_last_place(error, file)}: {format_error(error)}") from error


def defines(module: ModuleType, value: object, base: type) -> bool:
    """Return whether *value* is a subclass of *base* defined in *module*."""
    return (
        isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    )


def private_module_name(file: Path, digest: str = "") -> str:
    """Return a module name made of the path *file* and the *digest* of its bytes.

    An `import` statement cannot find it; it has no dot, which would mean a package.
    """
    return f"__toolbus__:{file}{digest and ':'}{digest}".replace("%", "%25").replace(".", "%2E")


def _import_alone(file: Path) -> ModuleType:
    name = private_module_name(file)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # noqa: S101 - for mypy: a `.py` file has a loader
    assert spec.loader is not None  # noqa: S101 - as above
    module = importlib.util.module_from_spec(spec)
    # The type hints of its classes are resolved there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _last_place(error: BaseException, file: Path) -> str:
    """Return the last line of *file* in the traceback of *error*."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == file.resolve()]
    return f"{file}:{lines[-1]}" if lines else str(file)
