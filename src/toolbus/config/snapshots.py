"""A snapshot of a configuration and its local files: the bytes that are checked are those used.

It holds each file whose path is a text in the configuration, with or without `:name`; each module
of the project that `package.module:Class` or an entry point names; and the modules beside a
Python file that its `import` statements name, recursively. Folders are not searched, and an
import of a computed name is refused when it happens.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.config.documents import read_document, repository_of
from toolbus.config.entries import named_uses
from toolbus.config.entry_points import offered_modules
from toolbus.config.python_modules import private_module_name
from toolbus.config.trusted_modules import ModuleSource, TrustedModuleFinder
from toolbus.errors import ConfigurationError
from toolbus.settings.private_files import writable_by_others
from toolbus.toml.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec

    from toolbus.config.documents import Document

_MODULE = re.compile(r"(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*):[\w.]+")
_LONGEST = 2**26
"""The most bytes of a file of a configuration."""
_NOT_LOCAL = sys.stdlib_module_names | {"toolbus"}
"""The modules that no file beside a configuration replaces."""


class Snapshot(NamedTuple):
    """A *document*, and the SHA-256 in hex of its file and of each file that it names.

    *digests* are by real path; *modules* hold the bytes of the Python files.
    """

    document: Document
    digests: dict[str, str]
    modules: TrustedModuleFinder


def take_snapshot(file: Path, data: bytes | None = None) -> Snapshot:
    """Read the configuration *file*, or take its bytes *data*, and read the files that it names.

    Raises `ConfigurationError`.
    """
    file = Path(os.path.realpath(file))
    data = read_private(file, file) if data is None else data
    document = read_document(file, data)
    walk = _Walk(document, data)
    for text in _texts(document.table):
        walk.take(text)
    names = {each for each in named_uses(document) if ":" not in each}
    for module in sorted([module for name in names for module in offered_modules(name)]):
        walk.take_module(module)
    walk.follow_imports()
    return walk.snapshot()


def read_private(file: Path, configuration: Path) -> bytes:
    """Return the bytes of *file*, a real path, which is *configuration* or named by it.

    Raises `ConfigurationError` if other users may change it.
    """
    try:
        reason = writable_by_others(file)
    except OSError:
        reason = None  # Reading it raises a better error.
    if reason is None:
        return read_bytes(file, _LONGEST)
    way_out = "make it yours alone, or name the configuration with --config"
    what = "" if file == configuration else f"it names {str(file)!r}, and "
    raise ConfigurationError(f"refused: {what}{reason}; {way_out}", str(configuration))


class _Walk:
    """The walk from a *document* to all files that it names, each read once."""

    def __init__(self, document: Document, data: bytes) -> None:
        self._document, self._folder = document, document.file.parent
        self._project = repository_of(self._folder) or self._folder
        self._bytes = {document.file: data}
        self._modules: dict[str, ModuleSource] = {}
        self._entries: dict[Path, str] = {}
        self._folders: set[Path] = set()
        self._homes: dict[str, Path] = {}
        self._waiting: list[tuple[Path, str, ModuleSource]] = []

    def snapshot(self) -> Snapshot:
        digests = {
            str(file): hashlib.sha256(data).hexdigest() for file, data in self._bytes.items()
        }
        file = self._document.file
        modules = TrustedModuleFinder(file, self._modules, self._entries, frozenset(self._folders))
        return Snapshot(self._document, digests, modules)

    def take(self, text: str) -> None:
        """Read the file or the project's module that *text* names, if any."""
        for name in dict.fromkeys([text, text.rpartition(":")[0]]):
            file = _file(self._folder, name) if name else None
            if file is not None and file.suffix == ".py":
                self._take_python(file)
            elif file is not None:
                self._read(file)
        if match := _MODULE.fullmatch(text):
            self.take_module(match["name"])

    def take_module(self, name: str) -> None:
        """Read the module *name* and its packages, if the project has it."""
        file = None if name.partition(".")[0] in _NOT_LOCAL else _origin(name)
        if file is None or not self._is_local(file):
            return
        depth = name.count(".") + (file.name == "__init__.py")
        self._add(file.parents[depth], name)

    def follow_imports(self) -> None:
        """Read the modules that the present ones import from the project, recursively."""
        while self._waiting:
            folder, package, module = self._waiting.pop()
            for name in _imports(module.source or b"", package):
                # A module that is not beside it may be elsewhere in the project.
                if not self._add(folder, name):
                    self.take_module(name)

    def _take_python(self, file: Path) -> None:
        """Read *file* as `import_file` would name it."""
        folder, dotted = file.parent, [] if file.stem == "__init__" else [file.stem]
        while (folder / "__init__.py").is_file():
            dotted.insert(0, folder.name)
            folder = folder.parent
        data = self._read(file)
        if dotted == [file.stem]:
            name = private_module_name(file, hashlib.sha256(data).hexdigest())
            self._put(folder, name, "", ModuleSource(file, data))
        else:
            name = ".".join(dotted)
            self._add(folder, name)
        self._entries[file] = name

    def _add(self, folder: Path, name: str) -> bool:
        """Read the module *name* below *folder*, and its packages; return whether any exists."""
        parts = name.split(".")
        if parts[0] in _NOT_LOCAL:
            return True
        if (home := self._homes.get(parts[0], folder)) != folder:
            self._check_same(parts[0], folder / parts[0])
        for depth in range(1, len(parts) + 1):
            dotted = ".".join(parts[:depth])
            if dotted in self._modules:
                continue
            module = self._find(home.joinpath(*parts[:depth]))
            # A folder alone is a package, too, unless something installed has its name.
            if module is None or (module.source is None and (dotted == name or _spec(dotted))):
                return depth > 1
            package = dotted if module.is_package else ".".join(parts[: depth - 1])
            self._homes[parts[0]] = home
            self._put(home, dotted, package, module)
        return True

    def _find(self, path: Path) -> ModuleSource | None:
        for file, is_package in ((path / "__init__.py", True), (Path(f"{path}.py"), False)):
            if file.is_file():
                return ModuleSource(file, self._read(Path(os.path.realpath(file))), is_package)
        return ModuleSource(path, None, is_package=True) if path.is_dir() else None

    def _check_same(self, name: str, path: Path) -> None:
        """Raise `ConfigurationError` if the known module *name* has another file here."""
        files = [file for file in (path / "__init__.py", Path(f"{path}.py")) if file.is_file()]
        if files:
            known = self._modules[name].file
            reason = f"two modules are called {name!r}: {known} and {files[0]}; rename one"
            raise ConfigurationError(reason, str(self._document.file))

    def _put(self, folder: Path, name: str, package: str, module: ModuleSource) -> None:
        self._modules[name] = module
        self._folders.add(folder)
        self._waiting.append((folder, package, module))

    def _read(self, file: Path) -> bytes:
        if file not in self._bytes:
            self._bytes[file] = read_private(file, self._document.file)
        return self._bytes[file]

    def _is_local(self, file: Path) -> bool:
        library = os.path.realpath(sysconfig.get_path("stdlib"))
        return (
            file.is_relative_to(self._project)
            and not file.is_relative_to(library)
            and not {"site-packages", "dist-packages"}.intersection(file.parts)
        )


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in *value*, the names of keys left out."""
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)


def _file(folder: Path, text: str) -> Path | None:
    """Return the real path of the regular file that *text* names, from *folder* on, or None."""
    try:
        path = folder / Path(text).expanduser()
        return Path(os.path.realpath(path)) if path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _origin(name: str) -> Path | None:
    """Return the real path of the file that `import name` would run; nothing is imported."""
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        places = None if spec is None else spec.submodule_search_locations
        spec = _spec(".".join(parts[:depth]), places) if depth == 1 or places else None
        if spec is None:
            return None
    origin = spec.origin if spec is not None and spec.has_location else None
    return Path(os.path.realpath(origin)) if origin and origin.endswith(".py") else None


def _spec(name: str, places: Sequence[str] | None = None) -> ModuleSpec | None:
    """Return the spec of *name* without the finders of trusted modules."""
    for finder in sys.meta_path:
        if isinstance(finder, TrustedModuleFinder) or not hasattr(finder, "find_spec"):
            continue
        with suppress(ImportError, OSError, ValueError):
            if (spec := finder.find_spec(name, places)) is not None:
                return spec
    return None


def _imports(source: bytes, package: str) -> Iterator[str]:
    """Yield the dotted names that the statements in *source*, a module in *package*, may import."""
    # All of one statement's forms are here: dotted, relative, starred, and a name or a module.
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # Python cannot run it either.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level]
            if node.level and not above:
                continue  # It leads outside the package.
            start = [*(above if node.level else ()), *([node.module] if node.module else ())]
            names = [(*start, alias.name) for alias in node.names if alias.name != "*"]
            yield from [".".join(each) for each in (start, *names) if each and all(each)]
