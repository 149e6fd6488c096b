"""The file of a store: whether a path can be one, and how it is opened."""

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
"""How to open. "still" and "copied" are for a file that nobody writes, without a log and with one:
no lock is taken and no file made beside it."""

Connection = sqlite3.Connection


class _KnownConnection(Connection):
    """A connection to *file* that `open_files` knows."""

    file: Path

    def close(self) -> None:
        super().close()
        with _connecting:
            _connections.discard(self)


_connections: WeakSet[_KnownConnection] = WeakSet()
_connecting = Lock()


def open_files() -> set[Path]:
    """Return the files that this process has open as stores."""
    with _connecting:
        return {connection.file for connection in _connections}


# Who the process acts as, where the system can tell, and not who started it.
_EFFECTIVE = os.access in os.supports_effective_ids


def checked_path(where: str, *, read_only: bool) -> Path:
    """Return the file that *where* leads to; raises `WrongPathError` if it can be no store's."""
    if where == ":memory:":
        raise WrongPathError(where, "this store keeps a file; for memory use `MemoryStore()`")
    try:
        file = Path(os.path.realpath(where))
        mode = file.stat().st_mode
    except FileNotFoundError:
        return _checked_absence(where, read_only=read_only)
    except (OSError, ValueError) as error:
        raise WrongPathError(where, f"cannot go there ({error}); give another path") from error
    if S_ISDIR(mode):
        raise WrongPathError(where, "it is a directory; give the path of a file in it")
    # SQLite would wait for ever for the other end of a pipe.
    if not S_ISREG(mode):
        raise WrongPathError(where, "it is not a regular file; give the path of one")
    # SQLite would find out too, but only after it made files beside this one.
    if not os.access(file, os.R_OK, effective_ids=_EFFECTIVE):
        raise WrongPathError(where, "it is not readable; change its permissions")
    if not (read_only or may_write(file)):
        raise WrongPathError(where, READ_ONLY)
    return file


def create_private(file: Path) -> None:
    """Make *file*, empty and for its owner only, unless it is there or may not be.

    SQLite gives the files beside it the same permissions, and words what is forbidden.
    """
    with suppress(FileExistsError, PermissionError):
        # Nothing is followed or written over, whoever puts something there meanwhile.
        number = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.close(number)


def beside(file: Path, end: str) -> Path:
    """Return the file that SQLite keeps beside *file*: its name and *end*."""
    return Path(f"{file}{end}")


def may_write(file: Path) -> bool:
    """Return whether *file* can be written."""
    return os.access(file, os.W_OK, effective_ids=_EFFECTIVE)


def may_write_beside(file: Path) -> bool:
    """Return whether a file can be made beside *file*."""
    return os.access(file.parent, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE)


def unfinished(file: Path) -> bool:
    """Return whether a write waits beside *file*, in a log or in a journal.

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
    """The header of a file, and how many *tables* it has.

    *version* is the version of the tables; an empty file has zeros only.
    """

    application_id: int = 0
    version: int = 0
    tables: int = 0


EMPTY = Header()


def connect(file: Path, timeout: float, mode: Mode) -> Connection:
    """Return a connection to *file*; each waits *timeout* seconds for the others' locks."""
    if mode == "copied":
        return _connect_copy(file)
    how = "mode=ro&immutable=1" if mode == "still" else f"mode={mode}"
    # Made here and used in one thread, but not in the same; transactions begin where we say so.
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
    """Return a connection to a copy of *file* and its log, which is gone when it is closed.

    From beside the file itself SQLite would remove a log in which it finds no commit.
    """
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        for end in ("", "-wal", "-journal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(beside(file, end), beside(copy, end))
        connection = sqlite3.connect(copy, isolation_level=None, check_same_thread=False)
        # What was read once stays open without a name, and the index of the log is in memory.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            read_header(connection)
    return connection


def reading_mode(file: Path) -> Mode:
    """Return how to read *file*: shared with others where possible.

    SQLite makes files beside one that it reads. Where that is forbidden the file can be read
    for as long as nobody changes it.
    """
    return "ro" if may_write_beside(file) else looking_mode(file)


def quiet_mode(file: Path) -> Mode:
    """Return how to read *file* and leave no file beside it, where that is possible."""
    # Who closes a writable connection carries the log into the file, and who closes a
    # read-only one leaves empty files beside it: each is used where it does nothing.
    quiet = may_write(file) and may_write_beside(file) and not unfinished(file)
    return "rw" if quiet else reading_mode(file)


def looking_mode(file: Path) -> Mode:
    """Return how to read *file* without making a file beside it."""
    if beside(file, "-shm").exists():
        return "ro"
    return "copied" if unfinished(file) else "still"


class ChangeDetector:
    """Tells readers without a lock whether *file* was written since this was made."""

    def __init__(self, where: str, file: Path) -> None:
        self._where, self._file, self._first = where, file, _state_of(file)

    def check(self) -> None:
        """Raise `StoreError` if the file was written since."""
        if _state_of(self._file) != self._first:
            reason = "somebody wrote to it while it was read without a lock; open it again"
            raise StoreError(self._where, reason)


def _state_of(file: Path) -> tuple[object, ...]:
    facts = file.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, unfinished(file)


class FileIdentity:
    """Tells a writer whether *where* still leads to the files that were opened."""

    def __init__(self, where: str) -> None:
        self._where = where
        # Whole, for the process may go to another folder; a link may lead elsewhere later.
        path, file = Path(where).absolute(), Path(where).resolve()
        self._paths = (path, *[beside(file, end) for end in ("-wal", "-shm")])
        self._first = [_identity_of(path) for path in self._paths]

    def check(self) -> None:
        """Raise `StoreError` if a file is gone or was replaced."""
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

    Raises `StoreError` for a file that is not a store, or is a newer or damaged store, and leaves
    every byte as it is.
    """
    if not file.exists():
        return 0
    with closing(connect(file, timeout, quiet_mode(file))) as connection:
        connection.execute("BEGIN")
        header = read_header(connection)
    if header == EMPTY:
        if read_only:
            raise StoreError(where, "it is empty; give the path of a store")
        return 0
    if header.application_id != schema.APPLICATION_ID:
        raise WrongPathError(where, "it is another application's database; give another path")
    if header.version < schema.OLDEST:
        reason = f"it has version {header.version}, which no release wrote; see `toolbus check`"
        raise StoreError(where, reason)
    check_version(where, header.version)
    return header.version


def check_version(where: str, version: int) -> None:
    """Raise `WrongPathError` for a file that a newer toolbus wrote."""
    if version > schema.VERSION:
        newest = schema.VERSION
        reason = f"it has version {version}, newer than {newest}; update toolbus"
        raise WrongPathError(where, reason)


def read_header(connection: sqlite3.Connection) -> Header:
    """Return the header of the file of *connection*."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return Header(application_id, version, tables)


def integrity_problems(connection: Connection) -> list[str]:
    """Return the faults that SQLite finds in the file; raises `KeyboardInterrupt` in between."""
    # So Python gets a turn now and then, and hears that it was interrupted.
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
