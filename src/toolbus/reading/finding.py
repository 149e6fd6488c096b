"""Which session, message or call a person means: by its id, or by a beginning that is unique."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from toolbus.messages import AssistantMessage, ToolMessage
from toolbus.terminal import UsageError
from toolbus.terminal.hints import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.store.archive import Archive, MessageRow, Page, SessionRow

T = TypeVar("T", "MessageRow", "Page")

_WAYS_OUT = {
    "session": "; see `toolbus sessions`",
    "message": "; `toolbus show` prints the ids of messages",
    "call": "; `toolbus show` prints the ids of calls",
}
_NAMED = 3
"""How many of several ids are named."""


class Found(NamedTuple):
    """A message or a call, as *row* has it, and what else speaks of it.

    A message that was refused and a call inside another have no row. *asking* is the message
    that asked for the call, if it is one.
    """

    session: SessionRow
    name: str
    call_id: str
    row: MessageRow | None
    asking: MessageRow | None


def find_session(archive: Archive, name: str) -> SessionRow:
    """Return the session *name*; raises `UsageError` that names the nearest."""
    if exact := archive.session(name):
        return exact
    like = archive.sessions_like(name)
    whole = _only("session", name, like) or _refuse("session", name, archive.sessions_near(name))
    return archive.session(whole) or _refuse("session", name, [])


def find_message(archive: Archive, name: str, session: SessionRow | None) -> Found:
    """Return the message *name*; raises `UsageError` that names the nearest."""
    key = session.key if session else None
    if rows := archive.messages_of(name, key):
        row = _in_one_session(archive, "message", name, rows)[-1]
        call_id = row.message.tool_call_id if isinstance(row.message, ToolMessage) else ""
        asking = _asking(archive, call_id, row) if call_id else None
        return Found(archive.session_of(row.session), name, call_id, row, asking)
    if archive.messages_of(name, key, call=True):
        raise UsageError(f"{name!r} is the id of a call; use `--call {name}`")
    if pages := _pages(archive, name, key):
        found = archive.session_of(_in_one_session(archive, "message", name, pages)[-1].session)
        return Found(found, name, "", None, None)
    whole = _only("message", name, archive.ids_like(name))
    return find_message(archive, whole or _refuse("message", name, archive.ids_near(name)), session)


def find_call(archive: Archive, name: str, session: SessionRow | None) -> Found:
    """Return the call *name*, the last one of that id; raises `UsageError` as `find_message`."""
    key = session.key if session else None
    if rows := archive.messages_of(name, key, call=True):
        rows = _in_one_session(archive, "call", name, rows)
        answer = rows[-1] if isinstance(rows[-1].message, ToolMessage) else None
        asking = _asking(archive, name, answer) if answer else rows[-1]
        return Found(archive.session_of(rows[-1].session), name, name, answer, asking)
    if pages := _pages(archive, name, key):
        found = archive.session_of(_in_one_session(archive, "call", name, pages)[-1].session)
        return Found(found, name, name, None, None)
    whole = _only("call", name, archive.ids_like(name, calls=True))
    near = [] if whole else archive.ids_near(name, calls=True)
    return find_call(archive, whole or _refuse("call", name, near), session)


def _asking(archive: Archive, call_id: str, answer: MessageRow) -> MessageRow | None:
    """Return the last message before *answer* that asked for its call."""
    rows = archive.messages_of(call_id, answer.session, call=True)
    asked = [row for row in rows if isinstance(row.message, AssistantMessage)]
    return next((row for row in reversed(asked) if row.seq < answer.seq), None)


def _pages(archive: Archive, name: str, session: int | None) -> list[Page]:
    return [page for page in archive.pages_of(name) if session in {None, page.session}]


def _in_one_session(archive: Archive, kind: str, name: str, rows: list[T]) -> list[T]:
    keys = dict.fromkeys([row.session for row in rows])
    if len(keys) > 1:
        ids = [archive.session_of(key).id for key in keys]
        raise UsageError(f"{kind} {name!r} is in {_listed('session', ids)}; add --session")
    return rows


def _only(kind: str, name: str, like: Sequence[str]) -> str | None:
    """Return the only one of *like*, None if there is none."""
    if len(like) > 1:
        raise UsageError(f"{name!r} is how {_listed(kind, like)} begin; give more of the id")
    return like[0] if like else None


def _refuse(kind: str, name: str, near: Sequence[str]) -> NoReturn:
    raise UsageError(f"no {kind} {name!r}{nearest(name, near) or _WAYS_OUT[kind]}")


def _listed(kind: str, ids: Iterable[str]) -> str:
    known = [repr(one) for one in sorted(ids)]
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"{len(known)} {kind}s ({', '.join(known[:_NAMED])}{more})"
