"""The files that a process has loaded, and the detection of changes to them."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolbus.settings.private_files import signature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_WRITING = os.O_WRONLY | os.O_RDWR
_LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - of texts, many times


class WatchedFiles:
    """The signatures of *paths*, existing or not, and of the files of all imported modules.

    Files read while `recording` are watched, too. Python's standard library and paths that begin
    with *data*, a store's files, are excluded.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]], *, data: str = "\0") -> None:
        self._ignored = ("/dev/", "/proc/", data)
        self._signatures = {os.fspath(path): signature(path) for path in paths}
        self._modules = self._recordings = 0
        self._add_modules()
        sys.addaudithook(self._on_audit_event)  # Audit hooks cannot be removed.

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Watch each file that is opened for reading in the block.

        Its signature is taken before it is read, so that no change in between is missed.
        """
        self._recordings += 1
        try:
            yield
        finally:
            self._recordings -= 1
        self._add_modules()

    def changed(self) -> str | None:
        """Return a file that was changed, removed or created; None if there is none."""
        if len(sys.modules) != self._modules:
            self._add_modules()
        for path, known in self._signatures.items():
            if signature(path) != known:
                return path
        return None

    def _on_audit_event(self, event: str, words: tuple[Any, ...]) -> None:
        if not self._recordings or event != "open":
            return
        path, mode, flags = words
        is_read = not flags & _WRITING and not set(mode or "r") & set("wax+")
        # Python may rewrite compiled files at any time; their sources are watched.
        ignored = not isinstance(path, str) or path.endswith(".pyc")
        if is_read and not ignored and not path.startswith(self._ignored):
            self._signatures.setdefault(os.path.abspath(path), signature(path))  # noqa: PTH100

    def _add_modules(self) -> None:
        self._modules = len(sys.modules)
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if path and (not path.startswith(_LIBRARY) or "-packages" in path):
                self._signatures.setdefault(path, signature(path))
