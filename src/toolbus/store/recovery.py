"""A new file with all that can be read of a damaged one."""

from __future__ import annotations

import os
from bisect import bisect_left
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.errors import WrongPathError
from toolbus.store.inspection import survey
from toolbus.store.mending import mend_sessions
from toolbus.store.opening import connect, worded
from toolbus.store.paths import beside, create_private
from toolbus.store.shapes import read_shapes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.store.inspection import Progress, Report
    from toolbus.store.opening import Connection
from toolbus.store.shapes import Shape


def recover(where: str, new: str, progress: Progress) -> Report:
    """Write what can be read of the store file *where* to the file *new*; return what was found.

    *new* is there as a whole or not at all, and *where* is left as it is. Messages and records
    keep their order and ids; where some are lost the others are numbered anew. A call that has
    several answers keeps one, next to it, and the notes say so. Raises
    `StoreError`, and `WrongPathError` if *new* exists. Not for a process that has the file
    open, as with `inspect`.
    """
    goal = Path(os.path.realpath(new))
    part = goal.with_name(f".{goal.name}.{os.getpid()}.part")
    _check_absent(new, goal)
    try:
        with worded(new):
            create_private(part)
        with worded(new), closing(connect(part, 5.0, "rw")) as target:
            # Nobody sees the file before it is done, so it needs no journal until then.
            target.execute("PRAGMA journal_mode = OFF")
            target.execute("PRAGMA synchronous = OFF")
            target.execute("BEGIN")
            with worded(where):
                report = survey(where, target, progress, bodies=True)
            mended = mend_sessions(target)
            shapes = read_shapes(target).values()
            _release_pages(target, shapes)
            for shape in shapes:
                _drop_strays(target, shape)
            _count_anew(target)
            target.execute("COMMIT")
            target.execute("PRAGMA journal_mode = WAL")
        with worded(new):
            _publish(new, part, goal)
    finally:
        for end in ("", "-wal", "-shm"):
            beside(part, end).unlink(missing_ok=True)
    return replace(report, recovered=new, notes=(*report.notes, *mended))


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


def _release_pages(target: Connection, shapes: Iterable[Shape]) -> None:
    """Give pages of the ledger whose message is lost a number of their own, below all others."""
    (lowest,) = target.execute("SELECT min(0, coalesce(min(key), 0)) FROM ledger").fetchone()
    alone = "SELECT key FROM ledger WHERE key > 0 AND key NOT IN (SELECT key FROM messages)"
    found = [key for (key,) in target.execute(f"{alone} ORDER BY key")]
    moved = [(lowest - at, key) for at, key in enumerate(found, 1)]
    target.executemany("UPDATE ledger SET key = ? WHERE key = ?", moved)
    for shape in shapes:
        for column in [column for column, parent, _ in shape.parents if parent == "ledger"]:
            known = f"UPDATE {shape.table} SET {column} = ? WHERE {column} = ?"
            target.executemany(known, moved)


def _count_anew(target: Connection) -> None:
    """Close the gaps in the numbers of messages and records, and set the counts of sessions."""
    for (session,) in target.execute("SELECT key FROM sessions").fetchall():
        counts = _renumber_messages(target, session), _renumber_records(target, session)
        statement = "UPDATE sessions SET messages = ?, records = ? WHERE key = ?"
        target.execute(statement, (*counts, session))


def _renumber_messages(target: Connection, session: int) -> int:
    query = "SELECT seq, key FROM messages WHERE session = ? ORDER BY seq"
    rows = target.execute(query, (session,)).fetchall()
    numbers = [seq for seq, _ in rows]
    if not numbers or numbers[-1] != len(numbers):
        pages = target.execute("SELECT place, key FROM ledger WHERE session = ?", (session,))
        places = [(bisect_left(numbers, place) + 1, key) for place, key in pages.fetchall()]
        target.executemany("UPDATE ledger SET place = ? WHERE key = ?", places)
        # In this order each moves to a number that is free, or its own.
        moved = [(seq, key) for seq, (_, key) in enumerate(rows, 1)]
        target.executemany("UPDATE messages SET seq = ? WHERE key = ?", moved)
    return len(rows)


def _renumber_records(target: Connection, session: int) -> int:
    query = "SELECT records, key FROM ledger WHERE session = ? ORDER BY seq, key"
    due, moved = 1, []
    for records, key in target.execute(query, (session,)).fetchall():
        moved.append((due, key))
        due += records
    target.executemany("UPDATE ledger SET seq = ? WHERE key = ?", moved)
    return int(due) - 1


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
