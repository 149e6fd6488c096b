"""Questions inside of results: a call that needs a yes is answered with what to ask, and repeated.

See MCP 2026-07-28, basic/patterns/mrtr ("Multi Round-Trip Requests"): a result of the type
`input_required` has `inputRequests`, and a `requestState` that the client sends back, with its
`inputResponses`, when it asks the same again. A server behind the proxy may ask like that, too, so
what the client brought for it goes through our state and is put back.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from toolbus.mcp.protocol.revisions import CAPABILITIES, VERSION
from toolbus.mcp.session.client_questions import ELICIT, can_elicit, verdict_of

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE, RESPONSES = "requestState", "inputResponses"
_KEY = "toolbus-approval"
_TAG = hashlib.sha256().digest_size


class AskedBefore(Struct, frozen=True, kw_only=True):
    """What our state says: which question was put to the client, and what was shown of it.

    *session_id* is that of the question. *restored* holds the `requestState` and `inputResponses`
    that are the server's.
    """

    question_id: str
    digest: str
    session_id: str
    restored: dict[str, Any] = {}  # msgspec makes a new one each time.


class RepeatedCall(NamedTuple):
    """A call that was asked about before; *verdict* is what the person said, None: nothing.

    *params* are those for the server.
    """

    params: dict[str, Any]
    question_id: str
    digest: str
    verdict: bool | None


class ForeignStateError(ValueError):
    """A state looks like one of ours, and was changed, or given to somebody else."""

    def __init__(self) -> None:
        super().__init__("its `requestState` is none that was given here; call again without it")


class RequestStates:
    """Writes and reads the states of one proxy; what others wrote is the server's business.

    They protect nothing from being read, nor from being used twice: a question is answered and its
    yes taken once, which the store sees to, whoever brings its id.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        # One proxy may stand behind another one.
        self._prefix = f"toolbus-{secrets.token_hex(8)}."

    def write(self, asked: AskedBefore) -> str:
        """Return the state that says *asked*."""
        body = msgspec.json.encode(asked)
        return self._prefix + urlsafe_b64encode(self._tag(body) + body).decode()

    def read(self, params: Mapping[str, Any], session_id: str) -> RepeatedCall | None:
        """Return what was asked in *session_id* about the call with *params*; None: nothing.

        Raises `ForeignStateError`.
        """
        state = params.get(STATE)
        if not (isinstance(state, str) and state.startswith(self._prefix)):
            return None
        asked = self._opened(state)
        if asked.session_id != session_id:
            raise ForeignStateError
        plain = {name: value for name, value in params.items() if name not in {STATE, RESPONSES}}
        verdict = _verdict_in(params.get(RESPONSES))
        return RepeatedCall({**plain, **asked.restored}, asked.question_id, asked.digest, verdict)

    def _opened(self, state: str) -> AskedBefore:
        try:
            text = state.removeprefix(self._prefix)
            # One state is written in one way: what does not belong to it is not passed over.
            data = b64decode(text.encode(), altchars=b"-_", validate=True)
        except ValueError:
            raise ForeignStateError from None
        tag, body = data[:_TAG], data[_TAG:]
        if not hmac.compare_digest(tag, self._tag(body)):
            raise ForeignStateError
        return msgspec.json.decode(body, type=AskedBefore)

    def _tag(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")


def asks_back(params: Mapping[str, Any]) -> bool:
    """Tell whether a result may ask the client who sent *params*, and it shows forms.

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
