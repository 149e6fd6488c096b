"""The gate of a client's calls: a form that the client shows, and the questions in a store."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.approvals import answer
from toolbus.approvals.records import read_question
from toolbus.approvals.stored import StoredApprovals
from toolbus.events.catalogue import Deny
from toolbus.mcp.session.client_questions import question_form, telling_progress
from toolbus.mcp.session.round_trips import (
    RESPONSES,
    STATE,
    AskedBefore,
    RequestStates,
    asks_back,
    input_required,
)
from toolbus.store.memory import MemoryStore
from toolbus.tools.calls.gate import CallGate, Pending, nobody_to_ask

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from toolbus.approvals.waiting import QuestionAsker
    from toolbus.mcp.session.named_sessions import NamedSession
    from toolbus.mcp.session.tool_calls import ProxiedCall
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.gate import ApprovalRequest, Permit


_CLIENT = "client"


class ClientApprovals:
    """Decides about the calls of all clients of a proxy; *stored* keeps what guards ask.

    Without it nobody can answer but a person in front of a client that shows forms by itself.
    Questions of a *named* session wait for clients that come later.
    """

    def __init__(self, stored: StoredApprovals | None) -> None:
        self.stored, self.states = stored, RequestStates()
        self.named: NamedSession | None = None
        self._key = secrets.token_bytes(32)

    def session_of(self, identity: Iterable[tuple[str, str]]) -> str:
        """Return the session of the questions of a client without sessions.

        Of *identity*, headers that are the same in all its requests, it tells nothing.
        """
        facts = repr(sorted(identity)).encode()
        return f"stateless-{hmac.new(self._key, facts, hashlib.sha256).hexdigest()[:32]}"


class CallApprovals(CallGate):
    """Decides about *call* by questions that are kept in *session_id*.

    *elicit* puts one to the person in front of the client, if it shows forms by itself. Until
    *client_left* is set, somebody waits for an answer.
    """

    def __init__(
        self,
        clients: ClientApprovals,
        call: ProxiedCall,
        session_id: str,
        elicit: QuestionAsker | None,
        client_left: asyncio.Event,
    ) -> None:
        self._clients, self._call, self._session_id = clients, call, session_id
        self._elicit, self._client_left = elicit, client_left
        self._stored = clients.stored
        self._for_this_call: StoredApprovals | None = None
        self._asks_back = self._stored is not None and asks_back(call.params)

    async def take_verdict(self) -> None:
        """Put into the question what the client brought as its answer, if it repeats the call.

        Raises `ForeignStateError`.
        """
        call, store = self._call, self._store
        if STATE not in call.params or store is None:
            return
        repeated = self._clients.states.read(call.params, self._session_id)
        if repeated is None:
            return
        call.restore(repeated.params)
        if repeated.verdict is not None:
            await answer(
                store,
                repeated.asked.question_id,
                repeated.asked.digest,
                approve=repeated.verdict,
                by=_CLIENT,
                channel=_CLIENT,
                session_id=self._session_id,
            )

    async def ask(self, asked: ApprovalRequest) -> Permit | Pending | Deny:
        """Return what is decided; meanwhile the client hears that the call waits."""
        if self._stored is not None:
            gone = None if self._clients.named is None else self._client_left
            wait = 0.0 if self._asks_back else None
            stored = self._stored.asking(self._elicit, name=_CLIENT, wait=wait, gone=gone)
        elif self._elicit is not None:
            # A question that only this client is asked is kept for as long as the call takes.
            if self._for_this_call is None:
                self._for_this_call = StoredApprovals(store=MemoryStore())
            stored = self._for_this_call.asking(self._elicit, name=_CLIENT)
        else:
            return nobody_to_ask(asked.ask)
        call = self._call
        asked = asked._replace(scope=replace(asked.scope, session_id=self._session_id), fill=None)
        async with telling_progress(call.params, call.channels.to_client):
            deciding = stored.ask(asked)
            if self._stored is not None and self._clients.named is not None:
                decision = await deciding  # It ends when the client leaves, and the question stays.
            else:
                decision = await _unless(self._client_left, deciding)
        if isinstance(decision, Pending) and self._stored is None:
            return Deny("approval is needed, and the client could not ask", asked.ask.prompt)
        return decision

    @property
    def _store(self) -> Store | None:
        return None if self._stored is None else self._stored.store

    async def result_of(self, pending: Sequence[str]) -> dict[str, Any] | None:
        """Return the result by which the client puts a *pending* question itself, or None."""
        store, params = self._store, self._call.params
        if not (self._asks_back and pending) or store is None:
            return None
        question = await read_question(store, self._session_id, pending[0])
        form = None if question is None else question_form(question)
        if question is None or form is None:
            return None
        asked = AskedBefore(
            question_id=question.id,
            digest=question.digest,
            session_id=self._session_id,
            restored={name: params[name] for name in (STATE, RESPONSES) if name in params},
        )
        return input_required(form, self._clients.states.write(asked))


async def _unless(
    client_left: asyncio.Event, deciding: Coroutine[Any, Any, Permit | Pending | Deny]
) -> Permit | Pending | Deny:
    """Return what *deciding* returns; a denial once *client_left* is set."""
    work, leaving = asyncio.create_task(deciding), asyncio.create_task(client_left.wait())
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else Deny("approval is needed, and the client is gone")
    finally:
        # A question that is put to the client is taken back.
        work.cancel()
        leaving.cancel()
        await asyncio.wait({work, leaving})
