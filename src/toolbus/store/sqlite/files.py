"""The file of an SQLite store: the checks of its path and contents, and the ways to open it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Literal, NamedTuple
from weakref import WeakSet

from toolbus.errors import StoreError, WrongPathError
from toolbus.store.sqlite import schema
from toolbus.store.sqlite.sqlite_errors import GONE, READ_ONLY

Mode = Literal["ro", "rw", "rwc", "still", "copied"]
"""The mode of opening. "still" and "copied" are for a file that is not written meanwhile, without
and with a log: they take no lock, and create no file beside it."""


class _KnownConnection(sqlite3.Connection):
    """A connection to *file* that `open_files` knows."""

    file: Path

    def close(self) -> None:
        super().close()
        with _connecting:
            _connections.discard(self)


_connections: WeakSet[_KnownConnection] = WeakSet()
_connecting = Lock()


def open_files() -> set[Path]:
    """Return the files of stores that this process has open."""
    with _connecting:
        return {connection.file for connection in _connections}


# Whether access is checked for the effective user of the process, if the system supports that.
_EFFECTIVE = os.access in os.supports_effective_ids


def checked_path(where: str, *, read_only: bool) -> Path:
    """Return the real path of *where*; raises `WrongPathError` if it cannot be a store's file."""
    if where == ":memory:":
        raise WrongPathError(where, "this store needs a file; use `MemoryStore()` for memory")
    try:
        file = Path(os.path.realpath(where))
        mode = file.stat().st_mode
    except FileNotFoundError:
        return _checked_absence(where, read_only=read_only)
    except (OSError, ValueError) as error:
        raise WrongPathError(where, f"the path is unusable ({error}); give another one") from error
    if S_ISDIR(mode):
        raise WrongPathError(
            where, "expected a file, got a directory; give the path of a file in it"
        )
    # SQLite would wait for ever for the other end of a pipe.
    if not S_ISREG(mode):
        raise WrongPathError(where, "not a regular file; give the path of one")
    # SQLite would find out too, but only after creating files beside this one.
    if not os.access(file, os.R_OK, effective_ids=_EFFECTIVE):
        raise WrongPathError(where, "the file is not readable; change its permissions")
    if not (read_only or may_write(file)):
        raise WrongPathError(where, READ_ONLY)
    return file


def create_private(file: Path) -> None:
    """Create *file*, empty and private to its owner, unless it exists or cannot be created.

    SQLite gives the files beside it the same permissions, and reports a forbidden access.
    """
    with suppress(FileExistsError, PermissionError):
        # Exclusively: a file or symlink that another process creates meanwhile is left alone.
        file.touch(0o600, exist_ok=False)


def beside(file: Path, end: str) -> Path:
    """Return the file beside *file* whose name has the suffix *end*."""
    return Path(f"{file}{end}")


def may_write(file: Path) -> bool:
    """Return whether *file* is writable."""
    return os.access(file, os.W_OK, effective_ids=_EFFECTIVE)


def may_write_beside(file: Path) -> bool:
    """Return whether files can be created beside *file*."""
    return os.access(file.parent, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE)


def unfinished(file: Path) -> bool:
    """Return whether a log or journal beside *file* contains an unfinished write.

    The journal of a file that was empty does not count: there is nothing to lose. Its header
    is described at https://sqlite.org/fileformat2.html#the_rollback_journal.
    """
    with suppress(FileNotFoundError):
        if beside(file, "-wal").stat().st_size:
            return True
    with suppress(FileNotFoundError), beside(file, "-journal").open("rb") as journal:
        return journal.read(20)[16:] not in {b"", bytes(4)}
    return False


def _checked_absence(where: str, *, read_only: bool) -> Path:
    file = Path(os.path.realpath(where))
    if not file.parent.is_dir():
        raise WrongPathError(where, f"there is no folder {str(file.parent)!r}; make it first")
    if read_only:
        raise WrongPathError(where, "there is no such file; give the path of a store")
    return file


class Header(NamedTuple):
    """The header of a file, and its number of *tables*.

    *version* is the version of the tables; for an empty file all are 0.
    """

    application_id: int = 0
    version: int = 0
    tables: int = 0


EMPTY = Header()


def connect(file: Path, timeout: float, mode: Mode) -> sqlite3.Connection:
    """Return a connection to *file* that waits *timeout* seconds for locks of others."""
    if mode == "copied":
        return _connect_copy(file)
    how = "mode=ro&immutable=1" if mode == "still" else f"mode={mode}"
    # Created here and used in another thread, by one at a time; transactions begin explicitly.
    connection = sqlite3.connect(
        f"{file.as_uri()}?{how}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        factory=_KnownConnection,
    )
    connection.file = file
    with _connecting:
        _connections.add(connection)
    return connection


def _connect_copy(file: Path) -> sqlite3.Connection:
    """Return a connection to a temporary copy of *file* and its log.

    SQLite would remove the log of the file itself if it has no commit.
    """
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        for end in ("", "-wal", "-journal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(beside(file, end), beside(copy, end))
        connection = sqlite3.connect(copy, isolation_level=None, check_same_thread=False)
        # The open files outlive their folder, and the index of the log is kept in memory.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            read_header(connection)
    return connection


def reading_mode(file: Path) -> Mode:
    """Return the mode to read *file*, shared with writers if possible.

    SQLite creates files beside a file that it reads. If that is forbidden, the file can be read
    only as long as it does not change.
    """
    return "ro" if may_write_beside(file) else looking_mode(file)


def quiet_mode(file: Path) -> Mode:
    """Return the mode to read *file* that leaves no file beside it, if possible."""
    # Closing a writable connection checkpoints the log, and closing a read-only one leaves empty
    # files beside it: each is used where it has no effect.
    quiet = may_write(file) and may_write_beside(file) and not unfinished(file)
    return "rw" if quiet else reading_mode(file)


def looking_mode(file: Path) -> Mode:
    """Return the mode to read *file* that creates no file beside it."""
    if beside(file, "-shm").exists():
        return "ro"
    return "copied" if unfinished(file) else "still"


class ChangeDetector:
    """The detection of writes to *file*, for readers without a lock."""

    def __init__(self, where: str, file: Path) -> None:
        self._where, self._file, self._first = where, file, _state_of(file)

    def check(self) -> None:
        """Raise `StoreError` if the file was written since this object was created."""
        if _state_of(self._file) != self._first:
            reason = "another program wrote to it while it was read without a lock; open it again"
            raise StoreError(self._where, reason)


def _state_of(file: Path) -> tuple[object, ...]:
    facts = file.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, unfinished(file)


class FileIdentity:
    """The check whether *where* still names the opened files, for a writer."""

    def __init__(self, where: str) -> None:
        self._where = where
        # Absolute, since the process may change its folder; a symlink may be changed later.
        path, file = Path(where).absolute(), Path(where).resolve()
        self._paths = (path, *[beside(file, end) for end in ("-wal", "-shm")])
        self._first = [_identity_of(path) for path in self._paths]

    def check(self) -> None:
        """Raise `StoreError` if a file was removed or replaced."""
        if [_identity_of(path) for path in self._paths] != self._first:
            raise StoreError(self._where, GONE)


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def check_contents(where: str, file: Path, timeout: float, *, read_only: bool) -> int:
    """Return the version of *file*, 0 if it is empty.

    Raises `StoreError` for a file that is not a store, or is a newer or damaged store, and changes
    no byte of it.
    """
    if not file.exists():
        return 0
    with closing(connect(file, timeout, quiet_mode(file))) as connection:
        connection.execute("BEGIN")
        header = read_header(connection)
    if header == EMPTY:
        if read_only:
            raise StoreError(where, "the file is empty; give the path of a store")
        return 0
    if header.application_id != schema.APPLICATION_ID:
        raise WrongPathError(where, "the database is of another application; give another path")
    if header.version < schema.OLDEST:
        reason = f"version {header.version} is not of any release; see `toolbus check`"
        raise StoreError(where, reason)
    check_version(where, header.version)
    return header.version


def check_version(where: str, version: int) -> None:
    """Raise `WrongPathError` for a file of a newer toolbus."""
    if version > schema.VERSION:
        reason = f"version {version} is newer than {schema.VERSION}; update toolbus"
        raise WrongPathError(where, reason)


def read_header(connection: sqlite3.Connection) -> Header:
    """Return the header of the file of *connection*."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return Header(application_id, version, tables)


def integrity_problems(connection: sqlite3.Connection) -> list[str]:
    """Return the faults that SQLite finds in the file; it may raise `KeyboardInterrupt`."""
    # The handler lets Python process signals during the check.
    connection.set_progress_handler(lambda: 0, 100_000)
    try:
        rows = connection.execute("PRAGMA integrity_check").fetchall()
        rows += connection.execute("PRAGMA foreign_key_check").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from error
        return [str(error)]
    finally:
        connection.set_progress_handler(None, 0)
    return [" ".join(map(str, row)) for row in rows if row != ("ok",)]
