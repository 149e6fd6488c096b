"""A webhook: each question is sent to a URL, signed; answers come back in requests of their own.

The message has the text for the person, with every character visible, and no raw arguments.
Answers go to `toolbus.approvals.receive_answer`, which `toolbus approvals serve` calls.

**Limits.** A failed message is repeated a few times with the same id, while the question is pending
and this process runs; after that the question stays in the store. Proxies named by environment
variables are not used.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from toolbus.approvals.display import channel_text, moment
from toolbus.approvals.webhook_signatures import LIMIT, message_id, read_secret
from toolbus.errors import RegistrationError, ToolbusError
from toolbus.http.client import HttpClient, Timeouts, TransportError
from toolbus.http.urls import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from toolbus.approvals.questions import Question
    from toolbus.approvals.webhook_signatures import WebhookSecret

_WAIT = 5.0
_GOOD, _REDIRECTS = range(200, 300), range(300, 400)
_LATER = {408, 425, 429}
"""Statuses that allow a retry: RFC 9110, 15.5.9; RFC 8470, 5.2; RFC 6585, 4."""

PAUSES = (1.0, 5.0, 25.0, 125.0)


class WebhookError(ToolbusError):
    """A message could not be sent; *address* has no path and query, which may be secret.

    *may_retry*: a later attempt may succeed.
    """

    def __init__(self, address: str, reason: str, *, may_retry: bool = False) -> None:
        self.address, self.reason, self.may_retry = address, reason, may_retry
        super().__init__(address, reason)

    def __str__(self) -> str:
        return f"the webhook at {self.address!r} was not notified: {self.reason}"


class Webhook:
    """A channel that sends questions to *url*, by https unless it is on this machine.

    Args:
        url: the target of each POST; redirects are not followed.
        secret_file: the signing key, in a file that only its owner can read; see `read_secret`.
        seconds: the time limit of a request.
        limit: the most characters of a question; a longer one is sent as a notice.
        pauses: seconds before each repetition of a failed request.
        clock: returns seconds since the epoch.

    Raises `RegistrationError`.

    >>> channel = Webhook("https://example.com/asked", secret_file="~/.config/toolbus/webhook.key")
    >>> approvals = StoredApprovals(notify=[channel])
    """

    def __init__(
        self,
        url: str,
        *,
        secret_file: str | Path,
        seconds: float = _WAIT,
        limit: int = LIMIT,
        pauses: Sequence[float] = PAUSES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url = read_webhook_url(url)
        if not (type(seconds) in {int, float} and 0 < seconds < inf):
            reason = f"expected a positive number of seconds, not {seconds!r}"
            raise RegistrationError("webhook", reason)
        if type(limit) is not int or limit <= 0:
            raise RegistrationError("webhook", f"expected a number of characters, not {limit!r}")
        if not all(type(pause) in {int, float} and 0 <= pause < inf for pause in pauses):
            raise RegistrationError("webhook", f"expected pauses in seconds, not {pauses!r}")
        self.pauses = tuple(pauses)
        self._secret = read_secret(secret_file)
        self._seconds, self._limit, self._clock = seconds, limit, clock

    def __repr__(self) -> str:
        return f"Webhook({_address(self._url)!r})"

    async def notify(self, question: Question) -> None:
        """Send *question*; raises `WebhookError` unless the reply is a success."""
        body = question_body(question, self._limit)
        name = message_id("question", question.id, question.digest)
        await post_signed(
            self._url, self._secret, name, body, seconds=self._seconds, clock=self._clock
        )


async def post_signed(
    url: SplitResult,
    secret: WebhookSecret,
    name: str,
    body: bytes,
    *,
    seconds: float,
    clock: Callable[[], float] = time.time,
) -> None:
    """Send the JSON *body* as message *name*; raises `WebhookError` unless the reply is a success.

    *seconds* is the time limit.
    """
    address = _address(url)
    headers = secret.headers(name, int(clock()), body)
    fields = [("content-type", "application/json"), *headers.items()]
    client = HttpClient()
    try:
        async with asyncio.timeout(seconds):
            reply = await client.send(url, "POST", fields, body, Timeouts())
        reply.close()
    except TimeoutError as error:
        reason = f"no reply within {seconds:g} seconds"
        raise WebhookError(address, reason, may_retry=True) from error
    except TransportError as error:
        may_retry = not isinstance(error.__cause__, ssl.SSLError)
        raise WebhookError(address, error.reason, may_retry=may_retry) from error
    finally:
        client.close()
    status = reply.status
    if status not in _GOOD:
        note = "; redirects are not followed" if status in _REDIRECTS else ""
        may_retry = status in _LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        raise WebhookError(address, f"it replied {status}{note}", may_retry=may_retry)


def question_body(question: Question, limit: int) -> bytes:
    """Return the body about *question*: a JSON object of `type`, `timestamp` and `data`.

    `data` has `id` and `digest`, which an answer names, the `text` to show, and `whole`: if false,
    a yes does not count. `may_have_run` is the start of a call like it whose end is unknown, else
    null.
    """
    shown = channel_text(question, limit)
    data = {
        "id": question.id,
        "digest": question.digest,
        "text": shown.text,
        "whole": shown.is_whole,
        "session_id": question.session_id,
        "host": question.host,
        "expires": moment(question.expires_ns),
        "may_have_run": moment(question.may_have_run_ns) if question.may_have_run_ns else None,
    }
    message = {"type": "toolbus.question", "timestamp": moment(question.asked_ns), "data": data}
    return json.dumps(message).encode()


def read_webhook_url(url: str) -> SplitResult:
    """Return the parts of *url*; raises `RegistrationError`, without the URL: it may be secret."""
    # The order of the checks decides which of several defects of an address is named.
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # Both may raise.
    except ValueError as error:
        raise RegistrationError("webhook", "its address is not a URL") from error
    reason = None
    if not (url.isascii() and url.isprintable()) or " " in url:
        reason = "its address has characters that are invalid in a URL"
    elif parts.scheme not in {"http", "https"} or not host:
        reason = "expected an address with https:// and a host"
    elif parts.username is not None or parts.fragment:
        reason = "its address must not have a user name, password or fragment"
    elif parts.scheme == "http" and not is_loopback(host):
        reason = f"it would be sent unencrypted to {host!r}; use https://"
    if reason is not None:
        raise RegistrationError("webhook", reason)
    return parts


def _address(url: SplitResult) -> str:
    return f"{url.scheme}://{url.netloc}"
