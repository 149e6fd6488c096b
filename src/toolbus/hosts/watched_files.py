"""The files that a process was made of, and whether they still are what they were."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Signature = tuple[int, ...] | None

_WRITING = os.O_WRONLY | os.O_RDWR
_LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - of texts, many times


class WatchedFiles:
    """Files by their signatures: those of *paths*, there or not, and of all imported modules.

    What is read while it is `recording` belongs to them, too. Python's own library is left out.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        self._signatures = {os.fspath(path): _signature(path) for path in paths}
        self._modules = 0
        self._is_recording = False
        self._take_modules()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Watch each file that is opened for reading in the block; once in the life of a process.

        It is looked at before it is read, so that no change is missed between the two.
        """
        self._is_recording = True
        sys.addaudithook(self._hear)
        try:
            yield
        finally:
            self._is_recording = False  # Python lets nobody take a hook away.
        self._take_modules()

    def are_unchanged(self) -> bool:
        """Return whether all are there, or missing, as they were."""
        if len(sys.modules) != self._modules:
            self._take_modules()
        return all(_signature(path) == known for path, known in self._signatures.items())

    def _hear(self, event: str, words: tuple[Any, ...]) -> None:
        if not self._is_recording or event != "open":
            return
        path, mode, flags = words
        is_read = not flags & _WRITING and not set(mode or "r") & set("wax+")
        if isinstance(path, str) and is_read and not path.startswith(("/dev/", "/proc/")):
            self._signatures.setdefault(os.path.abspath(path), _signature(path))  # noqa: PTH100

    def _take_modules(self) -> None:
        self._modules = len(sys.modules)
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if path and (not path.startswith(_LIBRARY) or "-packages" in path):
                self._signatures.setdefault(path, _signature(path))


def _signature(path: str | os.PathLike[str]) -> Signature:
    try:
        status = os.stat(path)  # noqa: PTH116 - hundreds of them for each event
    except OSError:
        return None
    if S_ISDIR(status.st_mode):
        return status.st_dev, status.st_ino, status.st_uid  # Whatever comes and goes inside.
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
