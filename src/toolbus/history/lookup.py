"""The session, message or call of an id, or of its unique beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.settings.hints import nearest
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.store.sql_reader import IdKind, SqlReader
    from toolbus.store.store_reader import MessageRow, RecordBatch, SessionRow, StoreReader

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

    @property
    def rows(self) -> list[MessageRow]:
        """The message, and the request that it answers, as far as there are any."""
        return [row for row in (self.row, self.asking) if row]


def find_session(reader: SqlReader, name: str) -> SessionRow:
    """Return the session *name*; raises `UsageError` with the most similar id."""
    if exact := reader.session(name):
        return exact
    whole = _only("session", name, reader.ids_like("session", name))
    if whole and (session := reader.session(whole)):
        return session
    raise _unknown("session", name, reader.ids_near("session", name))


def find_match(reader: SqlReader, kind: IdKind, name: str, session: SessionRow | None) -> Match:
    """Return the message *name*, or the last call; raises `UsageError` with the most similar id."""
    key = session.key if session else None
    rows_of = reader.messages_of if kind == "message" else reader.messages_of_call
    if rows := rows_of(name, key):
        return _match(reader, kind, name, _in_one_session(reader, kind, name, rows)[-1])
    if kind == "message" and reader.messages_of_call(name, key):
        raise UsageError(f"{name!r} is the id of a call; use `--call {name}`")
    mentions = reader.batches_mentioning(name)
    if batches := [batch for batch in mentions if key in {None, batch.session}]:
        batch = _in_one_session(reader, kind, name, batches)[-1]
        return Match(reader.session_of(batch.session), name, name if kind == "call" else "")
    if whole := _only(kind, name, reader.ids_like(kind, name)):
        return find_match(reader, kind, whole, session)
    raise _unknown(kind, name, reader.ids_near(kind, name), session)


def _match(reader: SqlReader, kind: str, name: str, row: MessageRow) -> Match:
    """Return the match of *row*, with the message that requested its call, if it answers one."""
    session, message = reader.session_of(row.session), row.message
    if not (isinstance(message, ToolMessage) and message.tool_call_id):
        is_call = kind == "call"
        return Match(session, name, name, asking=row) if is_call else Match(session, name, row=row)
    call_id = message.tool_call_id
    before = reader.messages_of_call(call_id, row.session, row)
    asked = [other for other in before if isinstance(other.message, AssistantMessage)]
    asking, reused = asked[-1] if asked else None, reader.after_in_call(call_id, row)
    return Match(session, name, call_id, row, asking, reused)


def _in_one_session(reader: SqlReader, kind: str, name: str, rows: list[T]) -> list[T]:
    keys = dict.fromkeys([row.session for row in rows])
    if len(keys) > 1:
        ids = [reader.session_of(key).id for key in keys]
        raise UsageError(f"{kind} {name!r} is in {_listed('session', ids)}; add --session")
    return rows


def _only(kind: str, name: str, like: Sequence[str]) -> str | None:
    """Return the only id of *like* other than *name*, None without any."""
    # The id itself is among them if it belongs to another session. All ids begin with "".
    others = [other for other in like if name and other != name]
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


def first_folder(reader: StoreReader, session: int) -> str:
    """Return the folder in which a session began, "" if its first records do not name it."""
    batch = next(iter(reader.record_batches(session)), None)
    scopes = [] if batch is None else [record.scope for record in batch.records]
    return next((folder for each in scopes if (folder := each.project or each.folder)), "")
