"""An importer of trusted bytes: later changes of their files have no effect."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import LoadError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from types import ModuleType


class ModuleSource(NamedTuple):
    """The file and the bytes of a module; *source* is None for a folder without `__init__.py`."""

    file: Path
    source: bytes | None
    is_package: bool = False


class TrustedModuleFinder(MetaPathFinder):
    """A finder of the *modules* of *configuration*, by name; *entries* has the names by file.

    From the first `importing` on it precedes all other finders. Untrusted modules beside the
    trusted ones, in *folders*, are refused.
    """

    def __init__(
        self,
        configuration: Path,
        modules: Mapping[str, ModuleSource],
        entries: Mapping[Path, str],
        folders: Collection[Path],
    ) -> None:
        self._configuration, self._modules = configuration, modules
        self._entries, self._folders = entries, folders
        self._thread: int | None = None

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Install the finder; within the block this thread imports no untrusted module."""
        for finder in tuple(sys.meta_path):
            if isinstance(finder, TrustedModuleFinder) and finder._serves(self._configuration):  # noqa: SLF001 - the same class
                sys.meta_path.remove(finder)
                if finder._modules != self._modules:  # noqa: SLF001 - the same class
                    _forget(finder._modules)  # noqa: SLF001 - the same class
        # Another configuration may have modules with the same names.
        _forget([name for name in self._modules if self._is_other(sys.modules.get(name))])
        sys.meta_path.insert(0, self)
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = None

    def load(self, file: Path) -> ModuleType:
        """Return the module of *file*, a real path; raises `LoadError` and the module's errors."""
        if file not in self._entries:
            raise LoadError(f"{file} is newer than the trust in its configuration; start again")
        return import_module(self._entries[file])

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of *fullname*, None for other modules; raises `ImportError`."""
        del target
        module = self._modules.get(fullname)
        if module is None:
            self._refuse_untrusted(fullname, path)
            return None
        folder = module.file.parent if module.source is not None else module.file
        places = [str(folder)] if module.is_package else None
        if module.source is None:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = places
            return spec
        loader = _TrustedLoader(fullname, str(module.file), module.source)
        return spec_from_file_location(
            fullname, module.file, loader=loader, submodule_search_locations=places
        )

    def _serves(self, configuration: Path) -> bool:
        return self._configuration == configuration

    def _is_other(self, module: ModuleType | None) -> bool:
        """Return whether *module* was made of the trusted bytes of another configuration."""
        loader = getattr(module, "__loader__", None)
        if module is None or not isinstance(loader, _TrustedLoader):
            return False
        own_module = self._modules[module.__name__]
        return (loader.path, loader.source) != (str(own_module.file), own_module.source)

    def _refuse_untrusted(self, name: str, path: Sequence[str] | None) -> None:
        # Three cases in one: the standard library, modules inside a trusted package, and others.
        parent, _, stem = name.rpartition(".")
        is_inside = parent in self._modules
        if name.partition(".")[0] in sys.stdlib_module_names or not (
            is_inside or self._thread == threading.get_ident()
        ):
            return
        folders = [Path(place) for place in path or ()] if parent else list(self._folders)
        for folder in folders:
            if not is_inside and folder not in self._folders:
                continue
            for file in (folder / stem / "__init__.py", folder / f"{stem}.py"):
                if file.is_file():
                    reason = f"{file} is not trusted: only modules named by an `import` are"
                    raise ImportError(
                        f"{reason}; name it in one, and trust the configuration again", name=name
                    )


def _forget(names: Iterable[str]) -> None:
    """Remove the modules of *names* made of trusted bytes, so that they are imported again."""
    for name in names:
        if isinstance(getattr(sys.modules.get(name), "__loader__", None), _TrustedLoader):
            del sys.modules[name]


class _TrustedLoader(SourceFileLoader):
    """A loader of *source*, which reads neither the file nor its compiled version."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self.source = source

    def get_data(self, path: str) -> bytes:
        """Return the trusted bytes, for another *path* those of its file."""
        return self.source if path == self.path else super().get_data(path)

    def path_stats(self, path: str) -> Mapping[str, float]:
        """Raise `OSError`: without a modification time Python reads no compiled file."""
        raise OSError(path)
