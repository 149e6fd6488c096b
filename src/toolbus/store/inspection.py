"""The state of a store's file: what SQLite says of it, what can be read, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from toolbus.errors import StoreError, WrongPathError
from toolbus.store import schema
from toolbus.store.opening import (
    EMPTY,
    Stillness,
    connect,
    integrity_problems,
    looking_mode,
    read_marks,
    scratch,
    worded,
)
from toolbus.store.paths import checked_path
from toolbus.store.salvage import Salvage
from toolbus.store.shapes import read_shapes
from toolbus.store.states import SessionState
from toolbus.store.survey import Survey

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.store.opening import Connection

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of pages that were read, and of all."""


class Report(Struct, frozen=True, kw_only=True):
    """What a check has found; *is_whole* if there are no *problems*.

    *version* is 0 where it cannot be told; *log_commits* counts the commits in the log beside
    the file; *recovered* is the new file.
    """

    path: str
    is_whole: bool
    version: int
    bytes: int
    pages: int
    log_commits: int
    sessions: tuple[SessionState, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
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
    shapes = read_shapes(target)
    with ExitStack() as opened:
        still = Stillness(where, file) if looking_mode(file) != "ro" else None
        version, problems = _structure(where, file, opened, target)
        source = opened.enter_context(Salvage(file, shapes))
        reading = Survey(source, target, shapes, bodies=bodies)
        sessions = reading.gather(progress)
        if still:
            still.check()
    if source.bytes and not (source.pages.is_database or sessions):
        raise WrongPathError(where, "it is no store, or nothing of it can be read")
    if problems:
        # A file of before has no list of writers, and misses none.
        missing = [one for one in shapes if one not in {*source.roots, "writers"}]
        problems += [f"the table {one!r} cannot be found" for one in missing]
    problems = [*_head_problems(source), *problems, *reading.problems]
    notes = (*_notes(source), *reading.notes)
    return Report(
        path=where,
        is_whole=not problems,
        version=version,
        bytes=source.bytes,
        pages=source.pages.count,
        log_commits=source.log.commits,
        sessions=sessions,
        problems=tuple(problems),
        notes=notes,
    )


def _structure(
    where: str, file: Path, opened: ExitStack, fresh: Connection
) -> tuple[int, list[str]]:
    """Return the version and what SQLite finds wrong.

    The connection stays open, in a transaction if others write: so nothing moves meanwhile.
    """
    if not file.stat().st_size:
        return 0, ["it is empty: nothing was ever stored in it, or all of it was cut off"]
    try:
        with worded(where):
            connection = opened.enter_context(closing(connect(file, 5.0, looking_mode(file))))
            connection.execute("BEGIN")
            marks = read_marks(connection)
    except StoreError as error:
        return 0, [f"SQLite cannot open it: {error.reason}"]
    if marks == EMPTY:
        return 0, ["there is nothing in it: nothing was ever stored, or all of it was cut off"]
    return marks[1], _deviations(where, connection, marks, fresh)


def _deviations(
    where: str, connection: Connection, marks: tuple[int, int, int], fresh: Connection
) -> list[str]:
    """Return in what the file is not as a store should be; refuse what is none, or a newer one."""
    application_id, version, _ = marks
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
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
    return [*problems, *_difference(connection, version, fresh)]


_INDEXES = """SELECT t.name, i.name, i."unique", i.partial, x.seqno, x.name, x.desc, x.key
    FROM main.sqlite_master AS t, pragma_index_list(t.name) AS i,
    pragma_index_xinfo(i.name) AS x WHERE t.type = 'table' ORDER BY 1, 2, 5"""


def _difference(connection: Connection, version: int, fresh: Connection) -> list[str]:
    """Return whether tables and indexes are not those of a new file.

    They are made again elsewhere, so that those of an older version can be brought up to date.
    """
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    try:
        with worded("it"), closing(scratch()) as again:
            made = [sql for (sql,) in connection.execute(query)]
            for statement in (*made, *schema.upgrades(max(version, 1))):
                again.execute(statement)
            found = read_shapes(again), again.execute(_INDEXES).fetchall()
    except StoreError as error:
        return [f"its tables cannot be told: {error.reason}"]
    if found == (read_shapes(fresh), fresh.execute(_INDEXES).fetchall()):
        return []
    return ["its tables or indexes are not those of a store"]


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


def _head_problems(source: Salvage) -> list[str]:
    """Return what is wrong in the head of the file and in the log.

    The head is described at https://sqlite.org/fileformat2.html#the_database_header.
    """
    pages, log = source.pages, source.log
    problems = [log.damage] if log.damage else []
    if not pages.is_database:
        return [*problems, "its first bytes are not those of an SQLite database"]
    wrong = [at for at, due in _HEAD.items() if pages.head[at : at + len(due)] != due]
    if pages.head[24:28] != pages.head[92:96]:
        wrong.append(24)
    problems += [f"its head is damaged at byte {at}" for at in wrong]
    if pages.promised != pages.count:
        problems.append(f"it should have {pages.promised} pages and has {pages.count}")
    return problems


def _notes(source: Salvage) -> tuple[str, ...]:
    log = source.log
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
