"""Stores of whole outputs, each under a reference of its own session."""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import blake2b
from sys import getsizeof
from typing import TYPE_CHECKING

from toolbus.settings.private_files import write_private

if TYPE_CHECKING:
    from pathlib import Path

_REFERENCE = re.compile(r"output-[0-9a-f]{12}")


class MemoryOutputs:
    """Keeps texts of at most *max_bytes* in all while the process lives; removes the oldest."""

    def __init__(self, max_bytes: int) -> None:
        self._bytes = max_bytes
        self._texts: dict[tuple[str, str], str] = {}

    def keep(self, session_id: str, text: str) -> str | None:
        """Keep *text*; return its reference for *session_id*, None if it is too large."""
        if getsizeof(text) > self._bytes:
            return None
        key = session_id, reference_of(session_id, text)
        self._texts.pop(key, None)
        self._texts[key] = text
        while sum(map(getsizeof, self._texts.values())) > self._bytes:
            del self._texts[next(iter(self._texts))]
        return key[1]

    def get(self, session_id: str, reference: str) -> str | None:
        """Return the text of *session_id* under *reference*, or None."""
        return self._texts.get((session_id, reference))

    def forget(self, session_id: str, reference: str) -> None:
        """Remove the text of *session_id* under *reference*, if any."""
        self._texts.pop((session_id, reference), None)


class FolderOutputs:
    """Keeps texts of at most *max_bytes* in all in *folder*, each in a file of its owner.

    The files outlive the process; the oldest are removed. Other files in *folder* are not touched.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._bytes = folder, max_bytes

    def keep(self, session_id: str, text: str) -> str | None:
        """Keep *text*, as in memory; raises `OSError`."""
        data = text.encode()
        if len(data) > self._bytes:
            return None
        reference = reference_of(session_id, text)
        write_private(self._path(session_id, reference), data)
        self._remove_oldest()
        return reference

    def get(self, session_id: str, reference: str) -> str | None:
        """Return the text of *session_id* under *reference*, or None."""
        if not _REFERENCE.fullmatch(reference):
            return None
        try:
            return self._path(session_id, reference).read_bytes().decode()
        except (OSError, UnicodeError):
            return None

    def forget(self, session_id: str, reference: str) -> None:
        """Remove the text of *session_id* under *reference*, if any; raises `OSError`."""
        self._path(session_id, reference).unlink(missing_ok=True)

    def _path(self, session_id: str, reference: str) -> Path:
        # An id may contain anything, so the folder's name is its digest.
        name = blake2b(session_id.encode(errors="surrogatepass"), digest_size=16).hexdigest()
        return self._folder / name / f"{reference}.txt"

    def _remove_oldest(self) -> None:
        files = []
        for path in self._folder.glob("*/output-*.txt"):
            # Another process may remove the file meanwhile.
            with suppress(FileNotFoundError):
                status = path.lstat()
                if _REFERENCE.fullmatch(path.stem):
                    files.append((status.st_mtime_ns, status.st_size, path))
        size = sum([bytes_ for _, bytes_, _ in files])
        for _, bytes_, path in sorted(files):
            if size <= self._bytes:
                break
            path.unlink(missing_ok=True)
            size -= bytes_


def reference_of(session_id: str, text: str) -> str:
    """Return the reference of *text*: equal for equal texts, and different in each session."""
    key = blake2b(session_id.encode(errors="surrogatepass")).digest()
    return f"output-{blake2b(text.encode(), key=key, digest_size=6).hexdigest()}"
