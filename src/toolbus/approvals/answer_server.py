"""The HTTP server for answers of a webhook: POST to any path, with limits on size and time.

It has no TLS; a server with TLS goes in front of it for answers from other machines. A request
without a valid signature reaches only the code of HTTP and of the signature, and no store.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from toolbus.approvals.webhook_answers import MOST_BYTES, WebhookReply, receive_answer
from toolbus.http.server import HttpServer, RequestError, listen_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from toolbus.approvals.webhook_signatures import WebhookSecret
    from toolbus.http.server import HttpRequest
    from toolbus.store.protocol import Store

MOST_CONNECTIONS = 32
_HEAD_SECONDS, _BODY_SECONDS, _GRACE = 3.0, 10.0, 1.0


class ServerAddress(NamedTuple):
    """The address of a listening server."""

    host: str
    port: int


@asynccontextmanager
async def serving_answers(
    store: Store,
    secret: WebhookSecret,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    on_reply: Callable[[WebhookReply], None] = lambda _: None,
) -> AsyncIterator[ServerAddress]:
    """Accept answers while the block runs; raises `OSError`.

    *on_reply* gets the reply to each complete POST.
    """

    async def answer(request: HttpRequest) -> None:
        fields = [("content-type", "application/json")]
        if request.method != "POST":
            reply = WebhookReply(HTTPStatus.METHOD_NOT_ALLOWED, "answers come by POST")
            fields.append(("allow", "POST"))
        else:
            try:
                body = await request.read(MOST_BYTES, _BODY_SECONDS)
            except RequestError as error:
                reply = WebhookReply(error.status, error.reason)
            else:
                reply = await receive_answer(store, secret, request.headers, body)
                on_reply(reply)
        await request.answer(reply.status, fields, json.dumps({"text": reply.text}).encode())

    server = HttpServer(answer, seconds=_HEAD_SECONDS, limit=MOST_CONNECTIONS, unique=("webhook-",))
    bound = listen_on(host, port)
    await server.start(bound)
    try:
        address = bound.getsockname()
        yield ServerAddress(address[0], address[1])
    finally:
        await server.close(_GRACE)
