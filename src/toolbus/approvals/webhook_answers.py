"""Answers by a webhook: signed, at most five minutes old, and each effective once.

A question is answered once, so a repeated answer has no effect, and its reply says so.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

from toolbus.approvals.display import channel_text
from toolbus.approvals.records import find_question
from toolbus.approvals.steps import answer
from toolbus.approvals.webhook_signatures import LIMIT, message_id
from toolbus.errors import DecodeError, FreezeError, StoreError
from toolbus.messages.codec import decoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toolbus.approvals.steps import AnswerStatus
    from toolbus.approvals.webhook_signatures import WebhookSecret
    from toolbus.store.protocol import Store

MOST_BYTES = 65_536
"""The most bytes of an answer's body."""


class WebhookAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of an answer: its person, *by*, and the question as it was shown."""

    id: str
    digest: str
    decision: Literal["approve", "deny"]
    by: str
    reason: str = ""


class WebhookReply(NamedTuple):
    """The reply to an answer: an HTTP *status*, and a *text* of one sentence."""

    status: int
    text: str


_decode_answer = decoder(WebhookAnswer)
_STATUSES: Mapping[AnswerStatus, int] = {
    "accepted": 200,
    "granted": 200,
    "unknown_question": 404,
    "too_late": 410,
}


async def receive_answer(
    store: Store,
    secret: WebhookSecret,
    headers: Mapping[str, str],
    body: bytes,
    *,
    limit: int = LIMIT,
    clock: Callable[[], int] = time.time_ns,
) -> WebhookReply:
    """Apply the answer in *headers*, with names in lower case, and *body*; return the reply.

    Args:
        store: the store of the question.
        secret: the secret of both ends.
        headers: `webhook-id` is ``answer_``, the question's id, ``_`` and its digest;
            `webhook-timestamp` and `webhook-signature` are those of Standard Webhooks.
        body: the JSON of a `WebhookAnswer`.
        limit: the limit of the `Webhook`: a longer question cannot be approved.
        clock: returns nanoseconds since the epoch.

    >>> async def take(store, secret, headers, body):
    ...     return await receive_answer(store, secret, headers, body)
    """
    if len(body) > MOST_BYTES:
        return WebhookReply(413, f"an answer has at most {MOST_BYTES} bytes")
    now = clock()
    if (reason := secret.refusal(headers, body, now / 1e9)) is not None:
        return WebhookReply(401, f"invalid message: {reason}")
    try:
        sent = _decode_answer(body)
    except DecodeError as error:
        return WebhookReply(400, f"invalid answer: {error}")
    if headers.get("webhook-id") != message_id("answer", sent.id, sent.digest):
        return WebhookReply(400, "the id of the message does not match its answer")
    try:
        return await _take(store, sent, limit, clock)
    except FreezeError as error:
        return WebhookReply(400, f"invalid answer: {error}")
    except (StoreError, DecodeError):
        return WebhookReply(503, "the store is not available now; send the answer again")


async def _take(
    store: Store, sent: WebhookAnswer, limit: int, clock: Callable[[], int]
) -> WebhookReply:
    approve = sent.decision == "approve"
    question = await find_question(store, sent.id)
    if question is None:
        return WebhookReply(404, f"there is no question {sent.id!r}")
    if approve and not channel_text(question, limit).is_whole:
        return WebhookReply(403, f"question {sent.id!r} is too long to be approved by a webhook")
    result = await answer(
        store,
        sent.id,
        sent.digest,
        approve=approve,
        by=sent.by,
        channel="webhook",
        reason=sent.reason,
        session_id=question.session_id,
        clock=clock,
    )
    return WebhookReply(_STATUSES.get(result.status, 409), result.text)
