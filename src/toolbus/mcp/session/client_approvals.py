"""The gate of a client's calls: forms that the client shows, and questions that a store keeps.

A client is asked by a form, MCP 2025-11-25, client/elicitation, "Form Mode", or inside of a result,
MCP 2026-07-28, basic/patterns/mrtr ("Multi Round-Trip Requests"): a result of the type
`input_required` has `inputRequests`, and a `requestState` that the client sends back, with its
`inputResponses`, when it asks the same again. A server behind the proxy may ask like that, too, so
the members that the client brought for it are kept with our state and put back.
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
from toolbus.tools.calls.gate import CallGate, Pending, nobody_to_ask

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
"""Characters of a question that a form shows; what is longer is answered elsewhere."""

PAUSE = 5.0
"""Seconds between two notifications."""

_STEP = 1e-6
_TEXT = "a person is asked to approve this call"

_SCHEMA = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Allow it", "description": "Run this tool call"}
    },
    "required": ["approve"],
}

STATE, RESPONSES = "requestState", "inputResponses"
_KEY = "toolbus-approval"
_LIMIT, _BYTES = 10_000, 2**24
"""How many questions, of how many bytes, are remembered; older ones are asked again."""


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
            stored = self._stored.for_caller(self._elicit, name=_CLIENT, wait=wait, gone=gone)
        elif self._elicit is not None:
            # A question that only this client is asked is kept for as long as the call takes.
            if self._for_this_call is None:
                self._for_this_call = StoredApprovals(store=MemoryStore())
            stored = self._for_this_call.for_caller(self._elicit, name=_CLIENT)
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


# --- forms, and progress while a person is waited for ---------------------------------------------


def question_form(question: Question) -> dict[str, Any] | None:
    """Return the params of an elicitation that asks *question*; None if they would not show all."""
    text, is_whole = channel_text(question, MAX_SHOWN)
    return {"message": text, "requestedSchema": _SCHEMA} if is_whole else None


async def elicit(
    pending: PendingRequests, to_client: Send, question: Question, _: ApprovalRequest
) -> bool | None:
    """Put *question* to the person in front of the client, one question at a time.

    Returns None if that person was not asked, or said nothing.
    """
    form = question_form(question)
    if form is None:
        return None
    reply = await pending.ask_client(ELICIT, form, to_client)
    return None if reply.failed else verdict_of(reply.result)


def verdict_of(result: Any) -> bool | None:
    """Return what the person said: only a filled-in form that approves is a yes; None: nothing."""
    match result:
        case {"action": "accept", "content": {"approve": True}}:
            return True
        case {"action": str()}:
            return False
    return None


def can_elicit(params: Any) -> bool:
    """Return whether *params* of `initialize` declare a client that shows forms."""
    match params:
        case {"capabilities": {"elicitation": dict(modes)}}:
            return not modes or "form" in modes
    return False


@asynccontextmanager
async def telling_progress(
    params: Mapping[str, Any], send: Send, pause: float = PAUSE
) -> AsyncIterator[None]:
    """Tell *send* every *pause* seconds that the call with *params* waits, if it gave a token.

    A client's own limit may begin anew with each progress: MCP 2025-11-25, basic/utilities/progress
    and basic/lifecycle, "Timeouts".
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
        # It has to grow, and what the server tells later begins at 0 or 1.
        params = {"progressToken": token, "progress": number * _STEP, "message": _TEXT}
        send(write_frame(method=PROGRESS, params=params))


# --- questions inside of results ------------------------------------------------------------------


class AskedBefore(NamedTuple):
    """The question that was put to the client, the digest of its text, and the question's session.

    *restored* holds the `requestState` and `inputResponses` that are the server's.
    """

    question_id: str
    digest: str
    session_id: str
    restored: dict[str, Any]


class RepeatedCall(NamedTuple):
    """A call that was *asked* about before; *verdict* is the person's, None if there is none.

    *params* are those for the server.
    """

    params: dict[str, Any]
    asked: AskedBefore
    verdict: bool | None


class ForeignStateError(ValueError):
    """A state looks like one of ours, and was changed, or given to somebody else."""

    def __init__(self) -> None:
        super().__init__("its `requestState` is none that was given here; call again without it")


class RequestStates:
    """The states that one proxy has given to clients; states of others are the server's business.

    A state may be used twice: a question is answered and its yes taken once, which the store sees
    to, whoever brings its id.
    """

    def __init__(self) -> None:
        # One proxy may stand behind another one.
        self._prefix = f"toolbus-{secrets.token_hex(8)}."
        self._asked: OrderedDict[str, AskedBefore] = OrderedDict()
        self._size = 0

    def write(self, asked: AskedBefore) -> str:
        """Return a state that stands for *asked*."""
        state = self._prefix + secrets.token_hex(16)
        self._asked[state] = asked
        self._size += len(encode(asked.restored))
        while len(self._asked) > _LIMIT or (self._size > _BYTES and len(self._asked) > 1):
            self._size -= len(encode(self._asked.popitem(last=False)[1].restored))
        return state

    def read(self, params: Mapping[str, Any], session_id: str) -> RepeatedCall | None:
        """Return what was asked in *session_id* about the call with *params*; None: nothing.

        Raises `ForeignStateError`.
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


def asks_back(params: Mapping[str, Any]) -> bool:
    """Return whether a result may ask the client that sent *params*: it shows forms.

    Its capabilities stand in each of its requests: MCP 2026-07-28, basic, "_meta".
    """
    meta = params.get("_meta")
    if not (isinstance(meta, dict) and VERSION in meta):
        return False
    return can_elicit({"capabilities": meta.get(CAPABILITIES)})


def input_required(question: Mapping[str, Any], state: str) -> dict[str, Any]:
    """Return the result that has the client put *question*, the params of an elicitation."""
    return {
        "resultType": "input_required",
        "inputRequests": {_KEY: {"method": ELICIT, "params": {"mode": "form", **question}}},
        STATE: state,
    }


def _verdict_in(responses: Any) -> bool | None:
    response = responses.get(_KEY) if isinstance(responses, dict) else None
    return verdict_of(response) if isinstance(response, dict) else None
