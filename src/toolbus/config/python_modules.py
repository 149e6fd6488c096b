"""A Python file or module, imported as Python would, and what it defines."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.errors import LoadError
from toolbus.toml.values import worded

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

LOADING = threading.RLock()
"""Held while files are imported and components made: no other thread sees them half done."""


def import_file(file: Path) -> ModuleType:
    """Import *file*: by its dotted name if it is part of a package, and only once.

    Its folder, or that of its package, becomes the first of `sys.path`. Raises `LoadError`.
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
    """Return what *load* makes of *file*; raises `LoadError` with the line that failed."""
    try:
        with LOADING:
            return load()
    except LoadError:
        raise
    except SyntaxError as error:
        place = f"{error.filename or file}:{error.lineno or 0}"
        raise LoadError(f"{place}: {type(error).__name__}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise LoadError(f"{_last_place(error, file)}: {worded(error)}") from error


def defines(module: ModuleType, value: object, base: type) -> bool:
    """Tell whether *value* is a subclass of *base* that *module* did not import itself."""
    return (
        isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    )


def private_module_name(file: Path, digest: str = "") -> str:
    """Return the name of a module that only its *file* names, with the *digest* of its bytes.

    No module that is found by its name is called so; it has no dot, which would mean a package.
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
    # Type hints of its classes are looked up there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _last_place(error: BaseException, file: Path) -> str:
    """Return the last line of *file* that was on the way to *error*."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == file.resolve()]
    return f"{file}:{lines[-1]}" if lines else str(file)
