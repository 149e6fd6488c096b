"""A new file with all that can be read of a damaged one."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.errors import WrongPathError
from toolbus.store.inspection import survey
from toolbus.store.opening import connect, worded
from toolbus.store.paths import beside
from toolbus.store.shapes import read_shapes

if TYPE_CHECKING:
    from toolbus.store.inspection import Progress, Report
    from toolbus.store.opening import Connection
from toolbus.store.shapes import Shape


def recover(where: str, new: str, progress: Progress) -> Report:
    """Write what can be read of the store file *where* to the file *new*; return what was found.

    *new* is there as a whole or not at all, and *where* is left as it is. Messages and records
    keep their order and ids; where some are lost the others are numbered anew. Raises
    `StoreError`, and `WrongPathError` if *new* exists. Not for a process that has the file
    open, as with `inspect`.
    """
    goal = Path(os.path.realpath(new))
    part = goal.with_name(f".{goal.name}.{os.getpid()}.part")
    _check_absent(new, goal)
    try:
        with worded(new), closing(connect(part, 5.0, "rwc")) as target:
            # Nobody sees the file before it is done, so it needs no journal until then.
            target.execute("PRAGMA journal_mode = OFF")
            target.execute("PRAGMA synchronous = OFF")
            target.execute("BEGIN")
            with worded(where):
                report = survey(where, target, progress, bodies=True)
            for shape in read_shapes(target).values():
                _drop_strays(target, shape)
            _count_anew(target)
            target.execute("COMMIT")
            target.execute("PRAGMA journal_mode = WAL")
        with worded(new):
            _publish(new, part, goal)
    finally:
        for end in ("", "-wal", "-shm"):
            beside(part, end).unlink(missing_ok=True)
    return replace(report, recovered=new)


def _check_absent(new: str, goal: Path) -> None:
    if os.path.lexists(goal):
        raise WrongPathError(new, "there is a file already; give the path of a new one")
    if not goal.parent.is_dir():
        raise WrongPathError(new, f"there is no folder {str(goal.parent)!r}; make it first")


def _drop_strays(target: Connection, shape: Shape) -> None:
    """Let go of references to what is lost, and of rows that are nothing without it."""
    needed = {column.name for column in shape.columns if column.required}
    for column, parent, key in shape.parents:
        lost = f"{column} IS NOT NULL AND {column} NOT IN (SELECT {key} FROM {parent})"
        if column in needed:
            target.execute(f"DELETE FROM {shape.table} WHERE {lost}")
        else:
            target.execute(f"UPDATE {shape.table} SET {column} = NULL WHERE {lost}")


def _count_anew(target: Connection) -> None:
    """Close the gaps in the numbers of messages and records, and set the counts of sessions."""
    for (session,) in target.execute("SELECT key FROM sessions").fetchall():
        counts = [_renumber(target, table, session) for table in ("messages", "records")]
        statement = "UPDATE sessions SET messages = ?, records = ? WHERE key = ?"
        target.execute(statement, (*counts, session))


def _renumber(target: Connection, table: str, session: int) -> int:
    query = f"SELECT count(*), coalesce(max(seq), 0) FROM {table} WHERE session = ?"
    count, last = target.execute(query, (session,)).fetchone()
    if count != last:
        order = f"SELECT key FROM {table} WHERE session = ? ORDER BY seq"
        rows = target.execute(order, (session,)).fetchall()
        moved = [(seq, key) for seq, (key,) in enumerate(rows, 1)]
        # In this order each moves to a place that is free, or its own.
        target.executemany(f"UPDATE {table} SET seq = ? WHERE key = ?", moved)
    return int(count)


def _publish(new: str, part: Path, goal: Path) -> None:
    """Give the finished file its name, which must still be free."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(part, goal)
    except FileExistsError:
        _check_absent(new, goal)
    except OSError:
        # Not every file system can give a file two names.
        _check_absent(new, goal)
        part.rename(goal)
    folder = os.open(goal.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
