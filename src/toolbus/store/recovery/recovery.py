"""A new file with all that can be read of a damaged one."""

from __future__ import annotations

import os
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.errors import StoreError, WrongPathError
from toolbus.messages.records import decode
from toolbus.store.jobs import Append, Swap
from toolbus.store.protocol import Original, Stored
from toolbus.store.recovery.inspection import survey
from toolbus.store.recovery.pairing import read_pairing
from toolbus.store.rows import ENCODING, decode_page
from toolbus.store.sqlite.files import beside, connect, create_private, scratch
from toolbus.store.sqlite.sqlite_errors import wrap_errors
from toolbus.store.sqlite.writes import Writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.store.recovery.inspection import CheckReport, ProgressCallback
    from toolbus.store.recovery.pairing import CallTurn, Pairing
    from toolbus.store.sqlite.files import Connection

_BATCH = 256
"""How many appends share a transaction."""

# A page whose message is lost comes before the message at its place, as one that never had any.
_IN_ORDER = """SELECT place, 0, seq, NULL, body FROM ledger WHERE session = ?1
        AND key NOT IN (SELECT key FROM messages WHERE session = ?1)
    UNION ALL SELECT one.seq, 1, 0, one.body, page.body FROM messages AS one
        LEFT JOIN ledger AS page ON page.key = one.key AND page.session = one.session
        WHERE one.session = ?1
    ORDER BY 1, 2, 3"""


_STATES_OF = "SELECT name, CAST(body AS BLOB) FROM states WHERE session = ? ORDER BY key"


def recover(where: str, new: str, progress: ProgressCallback) -> CheckReport:
    """Write what can be read of the store file *where* to the file *new*; return what was found.

    *new* is there as a whole or not at all, and *where* is left as it is. Messages and records
    keep their order and ids; where some are lost the others are numbered anew. A call that has
    several answers keeps one, next to it, and the notes say so. Raises
    `StoreError`, also if nothing can be read, and `WrongPathError` if *new* exists. Not for a
    process that has the file open, as with `inspect`.
    """
    goal = Path(os.path.realpath(new))
    part = goal.with_name(f".{goal.name}.{os.getpid()}.part")
    _check_absent(new, goal)
    try:
        with wrap_errors(new):
            create_private(part)
        with wrap_errors(where), closing(scratch()) as target:
            target.execute("BEGIN")
            report = survey(where, target, progress, bodies=True)
            if report.problems and not report.sessions:
                why = report.problems[0]
                reason = f"nothing of it can be recovered, so restore it from a copy: {why}"
                raise StoreError(where, reason)
            mended = _mend_sessions(target)
            _write(target, new, part)
        with wrap_errors(new):
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


def _write(source: Connection, new: str, part: Path) -> None:
    """Append all that *source* holds to the new store *part*, so it is numbered and listed anew."""
    with wrap_errors(new), closing(connect(part, 5.0, "rw")) as target:
        writes = Writes(str(part), target)
        writes.prepare(5.0)
        jobs = _jobs(source)
        while batch := list(islice(jobs, _BATCH)):
            for answer in writes.serve(batch):
                if isinstance(answer, StoreError):
                    raise StoreError(new, answer.reason) from answer


def _jobs(source: Connection) -> Iterator[Append | Swap]:
    query = "SELECT key, id, created_ns, updated_ns FROM sessions ORDER BY key"
    for key, name, created, updated in source.execute(query).fetchall():
        # The first one makes the session, and says when it was made.
        yield Append(name, Stored(originals=_originals(source, key), written_ns=created))
        for stored in _stored(source, key):
            yield Append(name, replace(stored, written_ns=updated))
        for state, body in source.execute(_STATES_OF, (key,)).fetchall():
            yield Swap(name, state, None, body, updated)


def _stored(source: Connection, session: int) -> Iterator[Stored]:
    for _, _, _, message, page in source.execute(_IN_ORDER, (session,)):
        yield Stored(
            message=None if message is None else decode(message),
            records=() if page is None else decode_page(ENCODING, page, None),
        )


def _originals(source: Connection, session: int) -> tuple[Original, ...]:
    query = "SELECT digest, CAST(body AS BLOB) FROM originals WHERE session = ? ORDER BY key"
    return tuple(
        [Original(digest=digest, body=body) for digest, body in source.execute(query, (session,))]
    )


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


def _mend_sessions(target: Connection) -> list[str]:
    """Leave each call one answer next to it, in every session of *target*; return what was done.

    Of several answers the first true one stays, else the first.
    """
    changes: list[str] = []
    for session, name in target.execute("SELECT key, id FROM sessions ORDER BY key").fetchall():
        pairing = read_pairing(target, session)
        if any(pairing.problems()):
            order = pairing.mended()
            _write_order(target, session, order)
            changes += [f"session {name!r}: {change}" for change in _changes(pairing, order)]
    return changes


def _changes(pairing: Pairing, order: Sequence[CallTurn]) -> Iterator[str]:
    """Say which messages were left out and which were moved."""
    for call in pairing.calls:
        for answer in call.others:
            best = f"call {call.turn.call!r} keeps the answer of message {call.best.seq}"
            yield f"message {answer.seq} was left out: {best}"
    old_numbers = sorted([turn.seq for turn in order])
    for turn, old_number in zip(order, old_numbers, strict=True):
        if turn.seq > old_number and turn.is_answer:
            yield f"message {turn.seq} was moved next to its call {turn.call!r}"


def _write_order(target: Connection, session: int, order: Sequence[CallTurn]) -> None:
    """Write down the messages of a session in *order*, and delete the others."""
    target.execute("UPDATE messages SET seq = -seq WHERE session = ?", (session,))
    numbers = [(number, turn.key) for number, turn in enumerate(order, 1)]
    target.executemany("UPDATE messages SET seq = ? WHERE key = ?", numbers)
    # Records that came with a message stand where it does now.
    target.executemany("UPDATE ledger SET place = ? WHERE key = ?", numbers)
    target.execute("DELETE FROM messages WHERE session = ? AND seq < 0", (session,))
