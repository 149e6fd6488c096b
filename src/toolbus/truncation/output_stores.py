"""What was shortened, whole, under a reference that only its own session knows."""

from __future__ import annotations

import re
from hashlib import blake2b
from sys import getsizeof
from typing import TYPE_CHECKING, Protocol

from toolbus.settings.private_files import write_private

if TYPE_CHECKING:
    from pathlib import Path

_REFERENCE = re.compile(r"output-[0-9a-f]{12}")


class OutputStore(Protocol):
    """Where whole outputs are kept."""

    def keep(self, session_id: str, text: str) -> tuple[str, bool]:
        """Keep *text*; return the reference for *session_id*, and whether it is a new one."""

    def get(self, session_id: str, reference: str) -> str | None:
        """Return what *session_id* has under *reference*; None if nothing, or no longer."""

    def forget(self, session_id: str, reference: str) -> None:
        """Give up what *session_id* has under *reference*, if anything."""


class OutputTooLargeError(Exception):
    """A text is more than all that may be kept; *limit* is that, in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(limit)

    def __str__(self) -> str:
        return f"it is larger than the {self.limit:,} bytes that are kept at most"


class MemoryOutputs:
    """Keeps at most *outputs* texts of *max_bytes* in all, as long as the process lives.

    For a new one the oldest are given up.
    """

    def __init__(self, outputs: int, max_bytes: int) -> None:
        self._outputs, self._bytes = outputs, max_bytes
        self._texts: dict[tuple[str, str], str] = {}
        self._size = 0

    def keep(self, session_id: str, text: str) -> tuple[str, bool]:
        """Keep *text*; raises `OutputTooLargeError`."""
        if getsizeof(text) > self._bytes:
            raise OutputTooLargeError(self._bytes)
        key = session_id, reference_of(session_id, text)
        fresh = key not in self._texts
        self.forget(*key)
        self._texts[key] = text
        self._size += getsizeof(text)
        while len(self._texts) > self._outputs or self._size > self._bytes:
            self.forget(*next(iter(self._texts)))
        return key[1], fresh

    def get(self, session_id: str, reference: str) -> str | None:
        """Return what *session_id* has under *reference*, or None."""
        return self._texts.get((session_id, reference))

    def forget(self, session_id: str, reference: str) -> None:
        """Give up what *session_id* has under *reference*, if anything."""
        text = self._texts.pop((session_id, reference), None)
        if text is not None:
            self._size -= getsizeof(text)


class FolderOutputs:
    """Keeps as many texts of as many bytes in *folder*, each in a file that only its owner reads.

    They outlive the process. Nothing else in *folder* is touched.
    """

    def __init__(self, folder: Path, outputs: int, max_bytes: int) -> None:
        self._folder, self._outputs, self._bytes = folder, outputs, max_bytes

    def keep(self, session_id: str, text: str) -> tuple[str, bool]:
        """Keep *text*; raises `OutputTooLargeError` and `OSError`."""
        data = text.encode()
        if len(data) > self._bytes:
            raise OutputTooLargeError(self._bytes)
        reference = reference_of(session_id, text)
        path = self._path(session_id, reference)
        fresh = not path.exists()
        write_private(path, data)
        self._give_up()
        return reference, fresh

    def get(self, session_id: str, reference: str) -> str | None:
        """Return what *session_id* has under *reference*, or None."""
        if not _REFERENCE.fullmatch(reference):
            return None
        try:
            return self._path(session_id, reference).read_bytes().decode()
        except (OSError, UnicodeError):
            return None

    def forget(self, session_id: str, reference: str) -> None:
        """Give up what *session_id* has under *reference*, if anything; raises `OSError`."""
        self._path(session_id, reference).unlink(missing_ok=True)

    def _path(self, session_id: str, reference: str) -> Path:
        return self._folder / _folder_of(session_id) / f"{reference}.txt"

    def _give_up(self) -> None:
        files = self._files()
        size = sum([bytes_ for _, bytes_, _ in files])
        while len(files) > self._outputs or size > self._bytes:
            _, bytes_, path = files.pop(0)
            size -= bytes_
            path.unlink(missing_ok=True)

    def _files(self) -> list[tuple[int, int, Path]]:
        """Return our files, the oldest first; another process may take them away meanwhile."""
        files = []
        for path in self._folder.glob("*/output-*.txt"):
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if _REFERENCE.fullmatch(path.stem):
                files.append((status.st_mtime_ns, status.st_size, path))
        return sorted(files)


def reference_of(session_id: str, text: str) -> str:
    """Return the reference of *text*: the same for the same text, and another in each session."""
    key = blake2b(session_id.encode(errors="surrogatepass")).digest()
    return f"output-{blake2b(text.encode(), key=key, digest_size=6).hexdigest()}"


def _folder_of(session_id: str) -> str:
    # An id may hold anything, so it names no folder itself.
    return blake2b(session_id.encode(errors="surrogatepass"), digest_size=16).hexdigest()
