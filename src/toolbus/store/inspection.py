"""The state of a store's file: what SQLite says of it, what can be read, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.errors import StoreError, WrongPathError
from toolbus.store import schema
from toolbus.store.opening import (
    EMPTY,
    Stillness,
    integrity_problems,
    looking_mode,
    read_marks,
    scratch,
    worded,
)
from toolbus.store.paths import checked_path
from toolbus.store.salvage import Salvage, open_source
from toolbus.store.states import SessionState
from toolbus.store.survey import Survey

if TYPE_CHECKING:
    from toolbus.store.opening import Connection
    from toolbus.store.wal import Log

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of messages and records that were read, and of all."""

_ELSEWHERE = ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY")
"""How SQLite calls what is not wrong with the file itself."""

_NOTHING = "nothing was ever stored in it, or all of it was cut off"


class Report(Struct, frozen=True, kw_only=True):
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


def inspect(where: str, progress: Progress) -> Report:
    """Check the store file *where*, and change nothing; raises `StoreError` if that is no store.

    Not for a process that has the file open: that one would lose its locks on it, since POSIX
    takes them from whoever closes a file, however often he has opened it.
    """
    with worded(where), closing(scratch()) as target:
        target.execute("BEGIN")
        return survey(where, target, progress, bodies=False)


def survey(where: str, target: Connection, progress: Progress, *, bodies: bool) -> Report:
    """Gather what can be read of *where* in *target*, an empty database, and say what is wrong."""
    file = checked_path(where, read_only=True)
    for statement in schema.TABLES:
        target.execute(statement)
    with file.open("rb") as opened:
        head, size = opened.read(_HEAD_SIZE), file.stat().st_size
    if not size:
        return _report(where, size, [f"it is empty: {_NOTHING}"])
    still = Stillness(where, file) if looking_mode(file) != "ro" else None
    with open_source(file) as (connection, log):
        try:
            with worded(where):
                marks, names, pages, page_size = _read_facts(connection)
        except StoreError as error:
            return _unreadable(where, size, head, error)
        if marks == EMPTY:
            return _report(where, size, [f"there is nothing in it: {_NOTHING}"])
        problems = _head_problems(head, log, -(-size // page_size))
        problems += _deviations(where, connection, marks, names)
        problems += _difference(connection, marks[1], names, target)
        if "records" in names:
            problems += _disguise(where, connection, marks[1])
        reading = Survey(Salvage(connection, pages * page_size), target, bodies=bodies)
        sessions = reading.gather(progress)
    if still:
        still.check()
    report = _report(where, size, [*problems, *reading.problems])
    notes = (*_log_notes(log), *reading.notes)
    facts = {"version": marks[1], "pages": pages, "log_commits": log.commits}
    return replace(report, **facts, sessions=sessions, notes=notes)


def _read_facts(connection: Connection) -> tuple[tuple[int, int, int], set[str], int, int]:
    """Return the marks of a file, the names in it, the number of its pages and their size."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return read_marks(connection), names, pages, page_size


def _report(where: str, size: int, problems: list[str]) -> Report:
    return Report(path=where, is_whole=not problems, bytes=size, problems=tuple(problems))


def _unreadable(where: str, size: int, head: bytes, error: StoreError) -> Report:
    """Return the report on a file that SQLite does not read; refuse what looks like none."""
    if getattr(error.__cause__, "sqlite_errorname", "").startswith(_ELSEWHERE):
        raise error
    if not head.startswith(_MAGIC):
        reason = "it is no store, or its head is gone: then restore it from a copy"
        raise WrongPathError(where, reason) from error
    why = f"SQLite cannot read anything of it ({error.__cause__})"
    return _report(where, size, [f"{why}; restore it from a copy"])


def _deviations(
    where: str, connection: Connection, marks: tuple[int, int, int], names: set[str]
) -> list[str]:
    """Return what SQLite finds wrong, and wrong marks; refuse what is no store, or a newer one."""
    application_id, version, _ = marks
    if application_id != schema.APPLICATION_ID and "messages" not in names:
        raise WrongPathError(where, "it is another application's database; give another path")
    if version > schema.VERSION:
        known = schema.VERSION
        raise WrongPathError(where, f"it has version {version}, newer than {known}; update toolbus")
    problems = [f"SQLite finds: {one}" for one in integrity_problems(connection)]
    if application_id != schema.APPLICATION_ID:
        problems.append(f"its application id is {application_id:#x}, which is not that of a store")
    if version < 1:
        problems.append(f"its version is {version}, which no toolbus wrote")
    return problems


def _disguise(where: str, connection: Connection, version: int) -> list[str]:
    """Let a file of an older *version* look like one of ours; return why it does not."""
    try:
        with worded(where):
            for statement in schema.disguises(max(version, 1)):
                connection.execute(statement)
    except StoreError as error:
        return [f"its records are of an older version and cannot be read: {error.reason}"]
    return []


_COLUMNS = """SELECT t.name, c.name, c.type, c."notnull", c.pk
    FROM main.sqlite_master AS t, pragma_table_info(t.name) AS c
    WHERE t.type = 'table' ORDER BY 1, c.cid"""
_INDEXES = """SELECT t.name, i.name, i."unique", i.partial, x.seqno, x.name, x.desc, x.key
    FROM main.sqlite_master AS t, pragma_index_list(t.name) AS i,
    pragma_index_xinfo(i.name) AS x WHERE t.type = 'table' ORDER BY 1, 2, 5"""


def _difference(
    connection: Connection, version: int, names: set[str], fresh: Connection
) -> list[str]:
    """Return whether tables and indexes are not those of a new file.

    They are made again elsewhere, so that those of an older version can be brought up to date.
    """
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    # A file of before has other records, and no list of writers.
    missing = [one for one in ("sessions", "messages", "calls") if one not in names]
    missing += ["ledger"] if not names & {"ledger", "records"} else []
    problems = [f"the table {one!r} cannot be found" for one in missing]
    try:
        with worded("it"), closing(scratch()) as again:
            made = [sql for (sql,) in connection.execute(query)]
            for statement in (*made, *schema.upgrades(max(version, 1))):
                again.execute(statement)
            found = _layout(again)
    except StoreError as error:
        return [*problems, f"its tables cannot be told: {error.reason}"]
    same = found == _layout(fresh)
    return problems if same else [*problems, "its tables or indexes are not those of a store"]


def _layout(connection: Connection) -> list[object]:
    return [connection.execute(query).fetchall() for query in (_COLUMNS, _INDEXES)]


_MAGIC, _HEAD_SIZE = b"SQLite format 3\0", 100
_HEAD = {
    18: b"\2\2",
    20: b"\0@  ",
    44: b"\0\0\0\4",
    48: bytes(8),
    56: b"\0\0\0\1",
    64: bytes(4),
    72: bytes(20),
}
"""What stands at which byte of the first hundred in each of our files; SQLite checks a part."""


def _head_problems(head: bytes, log: Log, pages: int) -> list[str]:
    """Return what is wrong in the *head* of a file of so many *pages*, and in its log.

    The head is described at https://sqlite.org/fileformat2.html#the_database_header.
    """
    problems = [log.damage] if log.damage else []
    if not head.startswith(_MAGIC):
        problems.append("its first bytes are not those of an SQLite database")
    # Of a file that is new the rest still stands in the log.
    wrong = [
        at
        for at, due in _HEAD.items()
        if (found := head[at : at + len(due)]) != due and (any(found) or not log.frames)
    ]
    if head[24:28] != head[92:96]:
        wrong.append(24)
    problems += [f"its head is damaged at byte {at}" for at in wrong]
    promised = int.from_bytes(head[28:32], "big")
    # Behind a log the file may be shorter or longer than it will be.
    if promised != pages and not log.frames:
        problems.append(f"it should have {promised} pages and has {pages}")
    return problems


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
