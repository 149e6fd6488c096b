"""The check of a store's file: its header and tables, SQLite's own check, and then its sessions."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import WrongPathError
from toolbus.store.check.damaged_file import DamagedFile
from toolbus.store.check.report import CheckReport
from toolbus.store.check.session_check import check_sessions
from toolbus.store.sqlite import schema
from toolbus.store.sqlite.files import (
    EMPTY,
    ChangeDetector,
    check_version,
    checked_path,
    connect,
    integrity_problems,
    looking_mode,
    read_header,
)
from toolbus.store.sqlite.sqlite_errors import wrap_errors

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from toolbus.store.check.pairing import Pairing
    from toolbus.store.check.report import ProgressCallback
    from toolbus.store.sqlite.files import Connection, Header

_ELSEWHERE = ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY")
"""How SQLite calls what is not wrong with the file itself."""

_MAGIC = b"SQLite format 3\0"
_OLD_NAMES = ("sessions", "messages", "calls", "ledger")
"""The tables that a file of any version has."""

_NAME = re.compile(r"CREATE (?:TABLE|INDEX) IF NOT EXISTS (\w+)")


class CheckedFile(NamedTuple):
    """A checked file: its *report*, its rows, and by the keys of torn sessions their calls."""

    report: CheckReport
    rows: DamagedFile
    torn: Mapping[int, Pairing]


def check_file(where: str, progress: ProgressCallback) -> CheckReport:
    """Check the store file *where*, and change nothing; raises `StoreError` if that is no store.

    Not for a process that has the file open: that one would lose its locks on it, since POSIX
    takes them from whoever closes a file, however often he has opened it.
    """
    with checked_file(where, progress) as checked:
        return checked.report


@contextmanager
def checked_file(where: str, progress: ProgressCallback) -> Iterator[CheckedFile]:
    """Give the checked file *where*, open to read its rows; raises as `check_file`."""
    file = checked_path(where, read_only=True)
    with file.open("rb") as stream:
        head, size = stream.read(len(_MAGIC)), file.stat().st_size
    mode = looking_mode(file)
    detector = None if mode == "ro" else ChangeDetector(where, file)
    with wrap_errors(where), closing(connect(file, 5.0, mode)) as connection:
        connection.text_factory = lambda text: text.decode(errors="replace")
        structure = _read_structure(where, connection, head)
        rows = DamagedFile(connection, structure.bytes, structure.names)
        check = check_sessions(rows, progress)
        problems = [
            *structure.problems,
            *[
                f"session {name!r} is missing in the list of sessions"
                for name in rows.lost_sessions
            ],
            *check.problems,
            *_call_problems(connection, structure.names, check.calls),
            *rows.problems.values(),
        ]
        report = CheckReport(
            path=where,
            is_whole=not problems,
            version=structure.version,
            bytes=size,
            pages=structure.pages,
            sessions=tuple(check.states),
            problems=tuple(problems),
            notes=tuple(check.notes),
        )
        yield CheckedFile(report, rows, check.torn)
    if detector:
        detector.check()


class _Structure(NamedTuple):
    """What SQLite says of a file and its log, with the names of tables and indexes."""

    problems: list[str]
    version: int = 0
    pages: int = 0
    bytes: int = 0
    names: frozenset[str] = frozenset()


def _read_structure(where: str, connection: Connection, head: bytes) -> _Structure:
    """Return what SQLite says of a file; raises `WrongPathError` for what is no store."""
    problems = _refusal(connection)
    # Then SQLite also reads a file that was cut, and passes over tables it cannot make out.
    connection.execute("PRAGMA writable_schema = ON")
    # One state of the file is read, whatever is written meanwhile.
    connection.execute("BEGIN")
    try:
        header = read_header(connection)
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    except sqlite3.Error as error:
        if error.sqlite_errorname.startswith(_ELSEWHERE):
            raise
        if head != _MAGIC:
            reason = "it is no store, or its head is gone: then restore it from a copy"
            raise WrongPathError(where, reason) from error
        why = f"SQLite cannot read anything of it ({error})"
        return _Structure([f"{why}; restore it from a copy"])
    if header == EMPTY:
        return _Structure(["it is empty: nothing was ever stored in it, or all of it was cut off"])
    problems += _header_problems(where, header, names)
    problems += [f"SQLite finds: {problem}" for problem in integrity_problems(connection)]
    return _Structure(problems, header.version, pages, pages * page_size, frozenset(names))


def _header_problems(where: str, header: Header, names: set[str]) -> list[str]:
    """Return what is wrong in *header* and *names*; refuse what is no store, or a newer one."""
    is_ours = header.application_id == schema.APPLICATION_ID
    if not is_ours and "messages" not in names:
        raise WrongPathError(where, "it is another application's database; give another path")
    check_version(where, header.version)
    problems: list[str] = []
    if not is_ours:
        number = f"{header.application_id:#x}"
        problems.append(f"its application id is {number}, which is not that of a store")
    if header.version < schema.OLDEST:
        problems.append(f"its version is {header.version}, which no release wrote")
    missing = sorted(_names_of(header.version) - names)
    return problems + [f"the table or index {name!r} cannot be found" for name in missing]


def _refusal(connection: Connection) -> list[str]:
    """Return why SQLite does not open the file as it is, as one whose end is missing."""
    try:
        read_header(connection)
    except sqlite3.Error as error:
        return [f"SQLite does not open it: {error}"]
    return []


def _names_of(version: int) -> set[str]:
    """Return the names of the tables and indexes that a file of *version* has at least."""
    if version < schema.VERSION:
        return set(_OLD_NAMES)
    return {name[1] for statement in schema.TABLES if (name := _NAME.match(statement))}


def _call_problems(connection: Connection, names: Container[str], calls: int) -> list[str]:
    """Return whether the index of calls does not have as many as the messages have."""
    if "calls" not in names:
        return []
    try:
        (count,) = connection.execute("SELECT count(*) FROM calls").fetchone()
    except sqlite3.Error as error:
        return [f"the table 'calls' cannot be read whole: {error}"]
    wrong = f"the index of calls has {count}, and the messages have {calls}"
    return [wrong] if count != calls else []
