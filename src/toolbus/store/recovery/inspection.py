"""The state of a store's file: what SQLite says of it, what can be read, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.errors import StoreError, WrongPathError
from toolbus.store.recovery.salvage import Salvage, open_source
from toolbus.store.recovery.states import SessionState
from toolbus.store.recovery.survey import Survey
from toolbus.store.sqlite import schema
from toolbus.store.sqlite.files import (
    EMPTY,
    ChangeDetector,
    check_version,
    checked_path,
    integrity_problems,
    looking_mode,
    read_header,
    scratch,
)
from toolbus.store.sqlite.sqlite_errors import wrap_errors

if TYPE_CHECKING:
    from toolbus.store.recovery.wal import Log
    from toolbus.store.sqlite.files import Connection, Header

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called with the number of messages and records that were read, and of all."""

_ELSEWHERE = ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY")
"""How SQLite calls what is not wrong with the file itself."""

_MAGIC, _HEAD_SIZE = b"SQLite format 3\0", 100
_NOTHING = "nothing was ever stored in it, or all of it was cut off"


class CheckReport(Struct, frozen=True, kw_only=True):
    """What a check has found; *is_whole* if there are no *problems*.

    *version* is 0 where it cannot be told; *log_commits* counts the commits in the log beside
    the file; *recovered* is the new file.
    """

    path: str
    is_whole: bool
    version: int = 0
    bytes: int
    pages: int = 0
    log_commits: int = 0
    sessions: tuple[SessionState, ...] = ()
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    recovered: str | None = None


def inspect(where: str, progress: ProgressCallback) -> CheckReport:
    """Check the store file *where*, and change nothing; raises `StoreError` if that is no store.

    Not for a process that has the file open: that one would lose its locks on it, since POSIX
    takes them from whoever closes a file, however often he has opened it.
    """
    with wrap_errors(where), closing(scratch()) as target:
        target.execute("BEGIN")
        return survey(where, target, progress, bodies=False)


def survey(
    where: str, target: Connection, progress: ProgressCallback, *, bodies: bool
) -> CheckReport:
    """Gather what can be read of *where* in *target*, an empty database, and say what is wrong."""
    file = checked_path(where, read_only=True)
    for statement in schema.TABLES:
        target.execute(statement)
    with file.open("rb") as stream:
        head, size = stream.read(_HEAD_SIZE), file.stat().st_size
    if not size:
        return _report(where, size, [f"it is empty: {_NOTHING}"])
    detector = ChangeDetector(where, file) if looking_mode(file) != "ro" else None
    with open_source(file) as (connection, log):
        try:
            with wrap_errors(where):
                header, tables, pages, page_size = _read_facts(connection)
        except StoreError as error:
            return _unreadable(where, size, head, error)
        if header == EMPTY:
            return _report(where, size, [f"there is nothing in it: {_NOTHING}"])
        problems = _size_problems(head, log, -(-size // page_size))
        problems += _header_problems(where, header, tables)
        problems += [f"SQLite finds: {problem}" for problem in integrity_problems(connection)]
        problems += _schema_problems(connection, header.version, tables, target)
        if "states" not in tables:
            problems += _add_states(where, connection)
        reading = Survey(Salvage(connection, pages * page_size), target, bodies=bodies)
        sessions = reading.gather(progress)
    if detector:
        detector.check()
    report = _report(where, size, [*problems, *reading.problems])
    notes = (*_log_notes(log), *reading.notes)
    facts = {"version": header.version, "pages": pages, "log_commits": log.commits}
    return replace(report, **facts, sessions=sessions, notes=notes)


def _read_facts(connection: Connection) -> tuple[Header, set[str], int, int]:
    """Return the header of a file, the names in it, the number of its pages and their size."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return read_header(connection), names, pages, page_size


def _report(where: str, size: int, problems: list[str]) -> CheckReport:
    return CheckReport(path=where, is_whole=not problems, bytes=size, problems=tuple(problems))


def _unreadable(where: str, size: int, head: bytes, error: StoreError) -> CheckReport:
    """Return the report on a file that SQLite does not read; refuse what looks like none."""
    if getattr(error.__cause__, "sqlite_errorname", "").startswith(_ELSEWHERE):
        raise error
    if not head.startswith(_MAGIC):
        reason = "it is no store, or its head is gone: then restore it from a copy"
        raise WrongPathError(where, reason) from error
    why = f"SQLite cannot read anything of it ({error.__cause__})"
    return _report(where, size, [f"{why}; restore it from a copy"])


def _size_problems(head: bytes, log: Log, pages: int) -> list[str]:
    """Return what is wrong with the log, and whether *pages* is not what the file's *head* says.

    The head is described at https://sqlite.org/fileformat2.html#the_database_header. The fields in
    it that say nothing about the data are left to SQLite.
    """
    problems = [log.damage] if log.damage else []
    promised = int.from_bytes(head[28:32], "big")
    # Behind a log the file may be shorter or longer than it will be.
    if promised != pages and not log.frames:
        problems.append(f"it should have {promised} pages and has {pages}")
    return problems


def _header_problems(where: str, header: Header, tables: set[str]) -> list[str]:
    """Return what is wrong in *header*; refuse what is no store, or a newer one."""
    is_ours = header.application_id == schema.APPLICATION_ID
    if not is_ours and "messages" not in tables:
        raise WrongPathError(where, "it is another application's database; give another path")
    check_version(where, header.version)
    problems: list[str] = []
    if not is_ours:
        number = f"{header.application_id:#x}"
        problems.append(f"its application id is {number}, which is not that of a store")
    if header.version < schema.OLDEST:
        problems.append(f"its version is {header.version}, which no release wrote")
    return problems


_COLUMNS = """SELECT t.name, c.name, c.type, c."notnull", c.pk
    FROM main.sqlite_master AS t, pragma_table_info(t.name) AS c
    WHERE t.type = 'table' ORDER BY 1, c.cid"""
_INDEXES = """SELECT t.name, i.name, i."unique", i.partial, x.seqno, x.name, x.desc, x.key
    FROM main.sqlite_master AS t, pragma_index_list(t.name) AS i,
    pragma_index_xinfo(i.name) AS x WHERE t.type = 'table' ORDER BY 1, 2, 5"""


def _schema_problems(
    connection: Connection, version: int, tables: set[str], fresh: Connection
) -> list[str]:
    """Return whether tables and indexes are not those of a *fresh* store.

    They are made again elsewhere, so that those of an older version can be brought up to date.
    """
    needed = ["sessions", "messages", "calls", "ledger"]
    needed += ["states"] if version >= schema.WITH_STATES else []
    missing = [name for name in needed if name not in tables]
    problems = [f"the table {name!r} cannot be found" for name in missing]
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    try:
        with wrap_errors("it"), closing(scratch()) as copy:
            statements = [sql for (sql,) in connection.execute(query)]
            added = schema.TABLES if version < schema.VERSION else ()
            for statement in (*statements, *added):
                copy.execute(statement)
            same = _layout(copy) == _layout(fresh)
    except StoreError as error:
        return [*problems, f"its tables cannot be told: {error.reason}"]
    return problems if same else [*problems, "its tables or indexes are not those of a store"]


def _layout(connection: Connection) -> list[object]:
    return [connection.execute(query).fetchall() for query in (_COLUMNS, _INDEXES)]


def _add_states(where: str, connection: Connection) -> list[str]:
    """Let a file from before there were states look like one of ours; return why it does not."""
    try:
        with wrap_errors(where):
            connection.execute(schema.NO_STATES)
    except StoreError as error:
        return [f"its tables cannot be completed: {error.reason}"]
    return []


def _log_notes(log: Log) -> tuple[str, ...]:
    if log.damage:
        return ()
    if log.broken_at:
        return ("the last write in the log was cut off before it was acknowledged",)
    if log.tail:
        # Nobody can tell the two apart.
        where = f"the log beside it ends in the middle of frame {log.frames + 1}"
        why = "a process was killed there, or the log was cut off and what stood behind is lost"
        return (f"{where}: {why}",)
    return ()
