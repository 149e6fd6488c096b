"""Questions inside of results: a call that needs a yes is answered with what to ask, and repeated.

See MCP 2026-07-28, basic/patterns/mrtr ("Multi Round-Trip Requests"): a result of the type
`input_required` has `inputRequests`, and a `requestState` that the client sends back, with its
`inputResponses`, when it asks the same again. A server behind the proxy may ask like that, too, so
what the client brought for it goes through our state and is put back.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.json import encode

from toolbus.mcp.protocol.revisions import CAPABILITIES, VERSION
from toolbus.mcp.session.client_questions import ELICIT, can_elicit, verdict_of

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE, RESPONSES = "requestState", "inputResponses"
_KEY = "toolbus-approval"
_LIMIT, _BYTES = 10_000, 2**24
"""How many questions, of how many bytes, are remembered; older ones are asked again."""


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
