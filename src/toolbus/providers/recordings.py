"""Recorded sessions: from a store, from files of messages, and from exports of any format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.errors import DecodeError
from toolbus.formats.items import MessageItem, Problem, SessionStart
from toolbus.formats.json_input import parse
from toolbus.formats.session_files import read
from toolbus.messages.records import decode
from toolbus.store.store_factory import is_postgres, open_reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.messages.records import Message

_STORE = b"SQLite format 3\0"
_MOST_NAMED = 5


def read_session(place: Path | str, session: str | None = None) -> tuple[Message, ...]:
    """Return the messages of the only session in *place*, or of *session*, an id or its beginning.

    *place* is a file, or the address of a store. Sessions of sub-agents count only if named.
    Raises `OSError`, `StoreError`, and `DecodeError` with the place of the problem.
    """
    if is_postgres(place):
        return _read_store(str(place), "the store", session)
    path = Path(place)
    with path.open("rb") as stream:
        if stream.read(len(_STORE)) == _STORE:
            return _read_store(str(path), path.name, session)
        stream.seek(0)
        first = next((line for line in stream if line.strip()), b"")
    return _read_export(path, session) if _is_of_export(first) else tuple(read_lines(path))


def read_lines(path: Path) -> Iterator[Message]:
    """Yield the messages of a file of JSON lines, skipping empty lines."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield decode(line)
                except DecodeError as error:
                    reason = f"{path.name}, line {number}: {error.reason}"
                    raise DecodeError(reason, error.path, error.offset) from None


def _is_of_export(line: bytes) -> bool:
    """Return whether *line* is not a message, but perhaps of an export that `formats` reads."""
    try:
        value = parse(line)
    except DecodeError:
        return False
    return isinstance(value, dict) and "role" not in value


def _read_export(path: Path, session: str | None) -> tuple[Message, ...]:
    sessions: dict[str, list[Message]] = {}
    with path.open("rb") as stream:
        for item in read(stream, path.stem):
            match item:
                case SessionStart():
                    sessions.setdefault(item.session, [])
                case MessageItem():
                    sessions.setdefault(item.session, []).append(item.message)
                case Problem():
                    raise DecodeError(f"{path.name}, line {item.line}: {item.reason}")
    return tuple(sessions[_choose(path.name, sessions, session)])


def _read_store(address: str, name: str, session: str | None) -> tuple[Message, ...]:
    with open_reader(address, live=True) as reader:
        rows = {row.id: row for row in reader.sessions()}
        session_id = _choose(name, rows, session)
        messages: list[Message] = []
        for row in reader.messages(rows[session_id].key):
            if row.message is None:
                raise DecodeError(f"{name}: {row.problem_in(session_id)}")
            messages.append(row.message)
    return tuple(messages)


def _choose(name: str, sessions: Iterable[str], wanted: str | None) -> str:
    """Return the *wanted* one of *sessions*; raises `DecodeError` with their names."""
    # An error names the sessions that could be meant, so it shares the search with the choice.
    ids = list(sessions)
    if wanted in ids:
        return wanted
    if wanted is None:
        fits = [session_id for session_id in ids if "/" not in session_id]
    else:
        fits = [session_id for session_id in ids if session_id.startswith(wanted)]
    if len(fits) == 1:
        return fits[0]
    if not ids:
        raise DecodeError(f"{name} holds no session")
    names = ", ".join([repr(session_id) for session_id in (fits or ids)[:_MOST_NAMED]])
    if wanted is None:
        raise DecodeError(f"{name} holds {len(ids)} sessions; name one of them: {names}, …")
    count = "no session" if not fits else f"{len(fits)} sessions"
    raise DecodeError(f"{name} holds {count} {wanted!r}; there are: {names}, …")
