"""Whether a path can be a store's file, told before SQLite opens it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from toolbus.errors import WrongPathError
from toolbus.store.sqlite.sqlite_errors import READ_ONLY

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
        raise WrongPathError(where, "it is no regular file; give the path of one")
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
    """Tell whether *file* can be written."""
    return os.access(file, os.W_OK, effective_ids=_EFFECTIVE)


def may_write_beside(file: Path) -> bool:
    """Tell whether a file can be made beside *file*."""
    return os.access(file.parent, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE)


def unfinished(file: Path) -> bool:
    """Tell whether a write waits beside *file*, in a log or in a journal.

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
