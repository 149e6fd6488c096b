"""Grants: approvals of every call of a tool in a session, until the end, expiry or revocation."""

from __future__ import annotations

import hashlib
import time
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from toolbus.approvals.questions import GRANT_PREFIX, Grant, Question
from toolbus.approvals.records import canonical, decode_grant
from toolbus.errors import FreezeError
from toolbus.messages.codec import decoder, encode
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.protocol import Store

GrantSpan: TypeAlias = Literal["session"] | float
"""The duration of a grant: its session, or a number of seconds."""

LATEST_PREFIX = "granted:"
"""The prefix of the names of states with the id of the latest grant for a kind of question."""

_decode_id = decoder(str)


def granting_session(question: Question) -> str:
    """Return the session that a grant for *question* covers: the session of the outermost agent."""
    return question.root_session_id or question.session_id


def check_span(span: GrantSpan | None, *, is_yes: bool) -> None:
    """Raise `FreezeError` unless *span* is None or a valid duration with a yes."""
    if span is None:
        return
    if not is_yes:
        raise FreezeError("a no cannot have a grant", "$.grant")
    if span != "session" and not (type(span) in {int, float} and 0 < span < inf):
        reason = f"expected 'session' or a positive number of seconds, not {span!r}"
        raise FreezeError(reason, "$.grant")


async def make_grant(store: Store, question: Question, span: GrantSpan, now_ns: int) -> Grant:
    """Store the grant that came with the yes to *question*, and return it."""
    grant = Grant(
        id=new_id(),
        session_id=granting_session(question),
        tool=question.tool,
        guard=question.guard,
        rule=question.rule,
        rules=question.rules,
        definition=question.definition,
        granted_by=question.answered_by,
        granted_from=question.answered_from,
        granted_ns=now_ns,
        expires_ns=0 if isinstance(span, str) else now_ns + round(span * 1e9),
    )
    await store.swap_state(grant.session_id, GRANT_PREFIX + grant.id, None, encode(grant))
    name = _latest_name(question)
    while True:
        known = await store.read_state(grant.session_id, name)
        earlier = await find_grant(store, question, now_ns)
        if earlier is not None and _outlasts(earlier, grant):
            return grant
        if await store.swap_state(grant.session_id, name, known, encode(grant.id)):
            return grant


def _outlasts(earlier: Grant, grant: Grant) -> bool:
    """Return whether *earlier*, which is active, ends no sooner than *grant*."""
    return not earlier.expires_ns or 0 < grant.expires_ns <= earlier.expires_ns


async def read_grant(store: Store, session_id: str, grant_id: str) -> Grant | None:
    """Return the grant with this id, None if the session has none."""
    body = await store.read_state(session_id, GRANT_PREFIX + grant_id)
    return None if body is None else decode_grant(body)


async def find_grant(store: Store, question: Question, now_ns: int) -> Grant | None:
    """Return the active grant that covers *question*, None if there is none."""
    session_id = granting_session(question)
    pointed = await store.read_state(session_id, _latest_name(question))
    if pointed is None:
        return None
    grant = await read_grant(store, session_id, _decode_id(pointed))
    return grant if grant is not None and covers(grant, question, now_ns) else None


def covers(grant: Grant, question: Question, now_ns: int) -> bool:
    """Return whether *grant* is active and covers *question*."""
    return (
        not grant.revoked_ns
        and (not grant.expires_ns or now_ns < grant.expires_ns)
        and grant.session_id == granting_session(question)
        and _kind(grant) == _kind(question)
    )


async def revoke_grant(
    store: Store,
    session_id: str,
    grant_id: str,
    *,
    by: str,
    clock: Callable[[], int] = time.time_ns,
) -> Grant | None:
    """Revoke a grant and return it; None if it does not exist. A second revocation has no effect.

    >>> async def take_back(store, grant):
    ...     return await revoke_grant(store, grant.session_id, grant.id, by="ann")
    """
    name = GRANT_PREFIX + grant_id
    while (body := await store.read_state(session_id, name)) is not None:
        grant = decode_grant(body)
        if grant.revoked_ns:
            return grant
        revoked = replace(grant, revoked_by=by, revoked_ns=clock())
        if await store.swap_state(session_id, name, body, encode(revoked)):
            return revoked
    return None


def _kind(record: Grant | Question) -> tuple[str, ...]:
    kind = record.tool, record.guard, record.rule, record.rules
    return (*kind, record.definition) if record.definition else kind


def _latest_name(question: Question) -> str:
    return LATEST_PREFIX + hashlib.sha256(canonical(_kind(question))).hexdigest()
