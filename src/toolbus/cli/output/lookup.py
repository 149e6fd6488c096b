"""The session, message or call of an id, or of its unique beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.settings.hints import nearest
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import MessageRow, RecordBatch, SessionRow

T = TypeVar("T", "MessageRow", "RecordBatch")

_WAYS_OUT = {
    "session": "; see `toolbus sessions`",
    "message": "; `toolbus show` prints the ids of messages",
    "call": "; `toolbus show` prints the ids of calls",
}
_MAX_LISTED = 3
"""The ids that an error about several names."""


class Match(NamedTuple):
    """A message or a call with its *row*; refused messages and nested calls have none.

    *asking* is the message with the request of the call, and *reused* the next message that used
    the call's id.
    """

    session: SessionRow
    name: str
    call_id: str = ""
    row: MessageRow | None = None
    asking: MessageRow | None = None
    reused: MessageRow | None = None


def find_session(reader: SqlReader, name: str) -> SessionRow:
    """Return the session *name*; raises `UsageError` with the most similar id."""
    if exact := reader.session(name):
        return exact
    whole = _only("session", name, reader.ids_like("session", name))
    if whole and (session := reader.session(whole)):
        return session
    raise _unknown("session", name, reader.ids_near("session", name))


def find_message(reader: SqlReader, name: str, session: SessionRow | None) -> Match:
    """Return the message *name*; raises `UsageError` with the most similar id."""
    key = session.key if session else None
    if rows := reader.messages_of(name, key):
        row = _in_one_session(reader, "message", name, rows)[-1]
        call_id = row.message.tool_call_id if isinstance(row.message, ToolMessage) else ""
        return _match(reader, name, call_id, row)
    if reader.messages_of_call(name, key):
        raise UsageError(f"{name!r} is the id of a call; use `--call {name}`")
    if batches := _batches_of(reader, name, key):
        batch = _in_one_session(reader, "message", name, batches)[-1]
        return Match(reader.session_of(batch.session), name)
    if whole := _only("message", name, reader.ids_like("message", name)):
        return find_message(reader, whole, session)
    raise _unknown("message", name, reader.ids_near("message", name), session)


def find_call(reader: SqlReader, name: str, session: SessionRow | None) -> Match:
    """Return the last call with the id *name*; raises `UsageError` as `find_message`."""
    key = session.key if session else None
    if rows := reader.messages_of_call(name, key):
        row = _in_one_session(reader, "call", name, rows)[-1]
        if isinstance(row.message, ToolMessage):
            return _match(reader, name, name, row)
        return Match(reader.session_of(row.session), name, name, asking=row)
    if batches := _batches_of(reader, name, key):
        batch = _in_one_session(reader, "call", name, batches)[-1]
        return Match(reader.session_of(batch.session), name, name)
    if whole := _only("call", name, reader.ids_like("call", name)):
        return find_call(reader, whole, session)
    raise _unknown("call", name, reader.ids_near("call", name), session)


def _match(reader: SqlReader, name: str, call_id: str, row: MessageRow) -> Match:
    """Return the match of *row*, with the message that requested its call, if it answers one."""
    match = Match(reader.session_of(row.session), name, call_id, row)
    if not call_id:
        return match
    before = reader.messages_of_call(call_id, row.session, row)
    asked = [other for other in before if isinstance(other.message, AssistantMessage)]
    asking = asked[-1] if asked else None
    return match._replace(asking=asking, reused=reader.after_in_call(call_id, row))


def _batches_of(reader: SqlReader, name: str, session: int | None) -> list[RecordBatch]:
    return [batch for batch in reader.batches_mentioning(name) if session in {None, batch.session}]


def _in_one_session(reader: SqlReader, kind: str, name: str, rows: list[T]) -> list[T]:
    keys = dict.fromkeys([row.session for row in rows])
    if len(keys) > 1:
        ids = [reader.session_of(key).id for key in keys]
        raise UsageError(f"{kind} {name!r} is in {_listed('session', ids)}; add --session")
    return rows


def _only(kind: str, name: str, like: Sequence[str]) -> str | None:
    """Return the only id of *like* other than *name*, None without any."""
    # The id itself is among them if it belongs to another session.
    others = [other for other in like if other != name]
    if len(others) > 1:
        raise UsageError(f"{name!r} begins {_listed(kind, others)}; give more of the id")
    return others[0] if others else None


def _unknown(
    kind: str, name: str, near: Sequence[str], session: SessionRow | None = None
) -> UsageError:
    where = f" in session {session.id!r}" if session else ""
    hint = nearest(name, [other for other in near if other != name])
    return UsageError(f"no {kind} {name!r}{where}{hint or _WAYS_OUT[kind]}")


def _listed(kind: str, ids: Iterable[str]) -> str:
    names = [repr(name) for name in sorted(ids)]
    rest = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{len(names)} {kind}s ({', '.join(names[:_MAX_LISTED])}{rest})"
