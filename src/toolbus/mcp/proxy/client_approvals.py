"""Who decides about the calls of a client: a form that it shows, and the questions in a store."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.approvals import answer
from toolbus.approvals.records import read_question
from toolbus.approvals.steps import take_step
from toolbus.events.catalogue import Deny
from toolbus.mcp.proxy.forms import question_form
from toolbus.mcp.proxy.round_trips import (
    RESPONSES,
    STATE,
    AskedBefore,
    RequestStates,
    asks_back,
    input_required,
)
from toolbus.mcp.proxy.waiting_progress import telling_progress
from toolbus.tools.calls.approvals import Approvals, Pending

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from toolbus.approvals import StoredApprovals
    from toolbus.approvals.waiting import QuestionAsker
    from toolbus.mcp.proxy.calls import CallRequest
    from toolbus.tools.calls.approvals import ApprovalRequest, Permit


_CLIENT = "client"


class ClientApprovals:
    """Decides about the calls of all clients of a proxy; *stored* keeps what guards ask.

    Unless it *outlives* the process, nobody but a person in front of the client can answer.
    """

    def __init__(self, stored: StoredApprovals, *, outlives: bool) -> None:
        self.stored, self.outlives = stored, outlives
        self.states = RequestStates()
        self._key = secrets.token_bytes(32)

    def session_of(self, identity: Iterable[tuple[str, str]]) -> str:
        """Return the session of the questions of a client without sessions.

        Of *identity*, headers that are the same in all its requests, it tells nothing.
        """
        facts = repr(sorted(identity)).encode()
        return f"stateless-{hmac.new(self._key, facts, hashlib.sha256).hexdigest()[:32]}"


class CallApprovals(Approvals):
    """Decides about one call, *request*, by questions that are kept in *session_id*.

    *elicit* puts one to the person in front of the client, if it shows forms by itself. Until
    *client_left* is set, somebody waits for an answer.
    """

    def __init__(
        self,
        clients: ClientApprovals,
        request: CallRequest,
        session_id: str,
        elicit: QuestionAsker | None,
        client_left: asyncio.Event,
    ) -> None:
        super().__init__()
        self._clients, self._request, self._session_id = clients, request, session_id
        self._elicit, self._client_left = elicit, client_left
        self._asks_back = asks_back(request.params)

    async def take_verdict(self) -> None:
        """Put into the question what the client brought as its answer, if it repeats the call.

        Raises `ForeignStateError`.
        """
        request, store = self._request, self._clients.stored.store
        if STATE not in request.params or store is None:
            return
        repeated = self._clients.states.read(request.params, self._session_id)
        if repeated is None:
            return
        request.restore(repeated.params)
        if repeated.verdict is not None:
            await answer(
                store,
                repeated.question_id,
                repeated.digest,
                approve=repeated.verdict,
                by=_CLIENT,
                channel=_CLIENT,
                session_id=self._session_id,
            )

    async def decide(self, asked: ApprovalRequest) -> Permit | Pending | Deny:
        """Return what is decided; meanwhile the client hears that the call waits."""
        request, clients = self._request, self._clients
        if not (clients.outlives or self._elicit or self._asks_back):
            return await super().decide(asked)
        wait = None if clients.outlives and not self._asks_back else 0.0
        stored = clients.stored.asking(self._elicit, name=_CLIENT, wait=wait)
        asked = asked._replace(scope=replace(asked.scope, session_id=self._session_id))
        async with telling_progress(request.params, request.directions.to_client):
            decision = await _unless(self._client_left, stored.decide(asked))
        if isinstance(decision, Pending) and not (clients.outlives or self._asks_back):
            await self._withdraw(decision.question_id)
            return Deny("approval is needed, and the client could not ask", asked.ask.prompt)
        return decision

    async def _withdraw(self, question_id: str) -> None:
        """Withdraw a question that nobody can answer."""
        store = self._clients.stored.store
        assert store is not None  # noqa: S101 - a proxy has one, if only in memory
        question = await read_question(store, self._session_id, question_id)
        if question is not None:
            await take_step(store, question, "withdraw")

    async def result_of(self, pending: Sequence[str]) -> dict[str, Any] | None:
        """Return the result by which the client puts a *pending* question itself, or None."""
        store, params = self._clients.stored.store, self._request.params
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
        # What it has asked it takes back.
        work.cancel()
        leaving.cancel()
        await asyncio.wait({work, leaving})
