"""The call gate for a client: forms in the client, and questions in a store.

A question reaches the client as a form, MCP 2025-11-25, client/elicitation, "Form Mode", or in a
result, MCP 2026-07-28, basic/patterns/mrtr ("Multi Round-Trip Requests"): a result of the type
`input_required` has `inputRequests`, and a `requestState` that the client returns together with
its `inputResponses` in a repeated request. The server behind the proxy may do the same, so the
members that the client sent for the server are kept with the proxy's state and restored.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.json import encode
from msgspec.structs import replace

from toolbus.approvals import answer
from toolbus.approvals.display import channel_text
from toolbus.approvals.records import read_question
from toolbus.approvals.stored import StoredApprovals
from toolbus.events.catalogue import Deny
from toolbus.mcp.protocol.jsonrpc import write_frame
from toolbus.mcp.protocol.revisions import CAPABILITIES, ELICIT, PROGRESS, VERSION
from toolbus.store.memory import MemoryStore
from toolbus.tools.calls.gate import CallGate, Pending, deny_without_approver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence

    from toolbus.approvals import Question
    from toolbus.approvals.answer_wait import QuestionAsker
    from toolbus.mcp.session.named_sessions import NamedSession
    from toolbus.mcp.session.request_table import PendingRequests, Send
    from toolbus.mcp.session.tool_calls import ProxiedCall
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.gate import ApprovalRequest, Permit

_CLIENT = "client"
MAX_SHOWN = 10_000
"""The maximum characters of a form; a longer question is answered in another channel."""

PAUSE = 5.0
"""Seconds between two progress notifications."""

_STEP = 1e-6
_TEXT = "waiting for a person to approve this call"

_SCHEMA = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Run this tool call"}
    },
    "required": ["approve"],
}

STATE, RESPONSES = "requestState", "inputResponses"
_KEY = "toolbus-approval"
_LIMIT, _BYTES = 10_000, 2**24
"""The number and the total bytes of remembered questions; an older question is asked again."""


class ClientApprovals:
    """The approvals for all clients of a proxy; *stored* keeps the questions of guards.

    Without *stored*, questions are answered only in clients that show forms. Questions of a
    *named* session stay open for later clients.
    """

    def __init__(self, stored: StoredApprovals | None) -> None:
        self.stored, self.states = stored, RequestStates()
        self.named: NamedSession | None = None
        self._key = secrets.token_bytes(32)

    def session_of(self, identity: Iterable[tuple[str, str]]) -> str:
        """Return the id of the question session of a stateless client.

        The id is a keyed hash of *identity*, the headers common to all requests of the client.
        """
        facts = repr(sorted(identity)).encode()
        return f"stateless-{hmac.new(self._key, facts, hashlib.sha256).hexdigest()[:32]}"


class CallApprovals(CallGate):
    """The gate of *call*, whose questions belong to the session *session_id*.

    *elicit* shows a question as a form in the client, if the client supports forms. The gate waits
    for an answer until *client_left* is set.
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
        self._can_return_question = self._stored is not None and supports_input_required(
            call.params
        )

    async def record_answer(self) -> None:
        """Store the client's answer to a question, if *call* repeats a call with an answer.

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
        """Return the decision; the client gets progress notifications meanwhile."""
        if self._stored is not None:
            gone = None if self._clients.named is None else self._client_left
            wait = 0.0 if self._can_return_question else None
            stored = self._stored.for_caller(self._elicit, name=_CLIENT, wait=wait, gone=gone)
        elif self._elicit is not None:
            # Without a store, the question lives as long as the call.
            if self._for_this_call is None:
                self._for_this_call = StoredApprovals(store=MemoryStore())
            stored = self._for_this_call.for_caller(self._elicit, name=_CLIENT)
        else:
            return deny_without_approver(asked.ask)
        call = self._call
        asked = asked._replace(scope=replace(asked.scope, session_id=self._session_id), fill=None)
        async with progress_notifications(call.params, call.channels.to_client):
            deciding = stored.ask(asked)
            if self._stored is not None and self._clients.named is not None:
                decision = await deciding  # Returns when the client leaves; the question stays.
            else:
                decision = await _unless_client_left(self._client_left, deciding)
        if isinstance(decision, Pending) and self._stored is None:
            return Deny("approval required, but the client cannot ask", asked.ask.prompt)
        return decision

    @property
    def _store(self) -> Store | None:
        return None if self._stored is None else self._stored.store

    async def input_required_result(self, pending: Sequence[str]) -> dict[str, Any] | None:
        """Return the result that makes the client ask the first *pending* question, or None."""
        store, params = self._store, self._call.params
        if not (self._can_return_question and pending) or store is None:
            return None
        question = await read_question(store, self._session_id, pending[0])
        form = None if question is None else question_form(question)
        if question is None or form is None:
            return None
        asked = PriorQuestion(
            question_id=question.id,
            digest=question.digest,
            session_id=self._session_id,
            restored={name: params[name] for name in (STATE, RESPONSES) if name in params},
        )
        return input_required(form, self._clients.states.write(asked))


async def _unless_client_left(
    client_left: asyncio.Event, deciding: Coroutine[Any, Any, Permit | Pending | Deny]
) -> Permit | Pending | Deny:
    """Return the result of *deciding*, or a denial once *client_left* is set."""
    work, leaving = asyncio.create_task(deciding), asyncio.create_task(client_left.wait())
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else Deny("approval required, but the client is gone")
    finally:
        # Cancelling withdraws a form that the client shows.
        work.cancel()
        leaving.cancel()
        await asyncio.wait({work, leaving})


# --- forms, and progress during the wait for an answer --------------------------------------------


def question_form(question: Question) -> dict[str, Any] | None:
    """Return the params of an elicitation for *question*, None if the form would be cut off."""
    text, is_whole = channel_text(question, MAX_SHOWN)
    return {"message": text, "requestedSchema": _SCHEMA} if is_whole else None


async def elicit(
    pending: PendingRequests, to_client: Send, question: Question, _: ApprovalRequest
) -> bool | None:
    """Show *question* as a form in the client, one form at a time.

    Returns None if the form was not shown or not answered.
    """
    form = question_form(question)
    if form is None:
        return None
    reply = await pending.ask_client(ELICIT, form, to_client)
    return None if reply.failed else verdict_of(reply.result)


def verdict_of(result: Any) -> bool | None:
    """Return the verdict in an elicitation's *result*: True only for an accepted, approving form.

    None means that there is no answer.
    """
    match result:
        case {"action": "accept", "content": {"approve": True}}:
            return True
        case {"action": str()}:
            return False
    return None


def can_elicit(params: Any) -> bool:
    """Return whether *params* of `initialize` declare support for forms."""
    match params:
        case {"capabilities": {"elicitation": dict(modes)}}:
            return not modes or "form" in modes
    return False


@asynccontextmanager
async def progress_notifications(
    params: Mapping[str, Any], send: Send, pause: float = PAUSE
) -> AsyncIterator[None]:
    """Send progress every *pause* seconds for the call with *params*, if they have a token.

    A client's timeout may restart with each progress: MCP 2025-11-25, basic/utilities/progress and
    basic/lifecycle, "Timeouts".
    """
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if isinstance(token, bool) or not isinstance(token, str | int):
        yield
        return
    telling = asyncio.create_task(_notify(token, send, pause))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait({telling})


async def _notify(token: str | int, send: Send, pause: float) -> None:
    for number in count(1):
        await asyncio.sleep(pause)
        # Progress must increase, and the server's own progress will begin at 0 or 1.
        params = {"progressToken": token, "progress": number * _STEP, "message": _TEXT}
        send(write_frame(method=PROGRESS, params=params))


# --- questions in results -------------------------------------------------------------------------


class PriorQuestion(NamedTuple):
    """A question sent to the client, with the digest of its text and its session.

    *restored* holds the server's own `requestState` and `inputResponses`.
    """

    question_id: str
    digest: str
    session_id: str
    restored: dict[str, Any]


class RepeatedCall(NamedTuple):
    """A repeated call, with the question *asked* before and its *verdict*, None without an answer.

    *params* are the params for the server.
    """

    params: dict[str, Any]
    asked: PriorQuestion
    verdict: bool | None


class ForeignStateError(ValueError):
    """A `requestState` with the proxy's prefix is unknown, or belongs to another session."""

    def __init__(self) -> None:
        super().__init__("unknown `requestState`; call again without it")


class RequestStates:
    """The request states of one proxy; all other states are passed to the server.

    A state may be used twice: the store ensures that a question is answered once and its approval
    is spent once.
    """

    def __init__(self) -> None:
        # A random prefix, because one proxy may be behind another.
        self._prefix = f"toolbus-{secrets.token_hex(8)}."
        self._asked: OrderedDict[str, PriorQuestion] = OrderedDict()
        self._size = 0

    def write(self, asked: PriorQuestion) -> str:
        """Return a new state for *asked*."""
        state = self._prefix + secrets.token_hex(16)
        self._asked[state] = asked
        self._size += len(encode(asked.restored))
        while len(self._asked) > _LIMIT or (self._size > _BYTES and len(self._asked) > 1):
            self._size -= len(encode(self._asked.popitem(last=False)[1].restored))
        return state

    def read(self, params: Mapping[str, Any], session_id: str) -> RepeatedCall | None:
        """Return the repeated call with *params*, None if they have no state of this proxy.

        Raises `ForeignStateError` for an unknown state or one of another session than *session_id*.
        """
        state = params.get(STATE)
        if not (isinstance(state, str) and state.startswith(self._prefix)):
            return None
        asked = self._asked.get(state)
        if asked is None or asked.session_id != session_id:
            raise ForeignStateError
        plain = {name: value for name, value in params.items() if name not in {STATE, RESPONSES}}
        verdict = _verdict_in(params.get(RESPONSES))
        return RepeatedCall({**plain, **asked.restored}, asked, verdict)


def supports_input_required(params: Mapping[str, Any]) -> bool:
    """Return whether the client that sent *params* shows the form in an `input_required` result.

    A stateless client sends its capabilities in each request: MCP 2026-07-28, basic, "_meta".
    """
    meta = params.get("_meta")
    if not (isinstance(meta, dict) and VERSION in meta):
        return False
    return can_elicit({"capabilities": meta.get(CAPABILITIES)})


def input_required(question: Mapping[str, Any], state: str) -> dict[str, Any]:
    """Return the result that makes the client ask *question*, the params of an elicitation."""
    return {
        "resultType": "input_required",
        "inputRequests": {_KEY: {"method": ELICIT, "params": {"mode": "form", **question}}},
        STATE: state,
    }


def _verdict_in(responses: Any) -> bool | None:
    response = responses.get(_KEY) if isinstance(responses, dict) else None
    return verdict_of(response) if isinstance(response, dict) else None
