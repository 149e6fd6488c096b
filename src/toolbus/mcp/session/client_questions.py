"""A client asks its person: by a form, and with progress while the person is waited for.

See MCP 2025-11-25, client/elicitation, "Form Mode"; basic/utilities/progress; and basic/lifecycle,
"Timeouts": a client's own limit may begin anew with each progress.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from toolbus.approvals.display import channel_text
from toolbus.mcp.protocol.jsonrpc import write_frame
from toolbus.mcp.protocol.revisions import PROGRESS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from toolbus.approvals import Question
    from toolbus.mcp.session.request_table import PendingRequests, Send
    from toolbus.tools.calls.gate import ApprovalRequest

ELICIT = "elicitation/create"

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
    """Tell *send* every *pause* seconds that the call with *params* waits, if it gave a token."""
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
