"""A webhook: each question is sent to an address, signed; answers come back by another request.

    approvals = StoredApprovals(notify=[Webhook("https://example.com/ask", secret_file="...")])

It sends what a person is to be shown, as text in which nothing is invisible, and no arguments of
their own that somebody would have to make visible again. Answers are taken by
`toolbus.approvals.receive_answer`, which `toolbus approvals serve` does.

**Limits.** What fails is sent again a few times, with the same id, as long as the question waits
and this process lives; after that it waits in the store. The other end reads what that holds.
Proxies of the environment are not used.
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

_WAIT = 5.0
_GOOD, _REDIRECTS = range(200, 300), range(300, 400)
_LATER = {408, 425, 429}
"""RFC 9110, 15.5.9; RFC 8470, 5.2; RFC 6585, 4: another time it may be taken."""

PAUSES = (1.0, 5.0, 25.0, 125.0)


class WebhookError(ToolbusError):
    """A question could not be sent; *address* is without path and query, which may be secret.

    *may_retry* says that it may arrive another time.
    """

    def __init__(self, address: str, reason: str, *, may_retry: bool = False) -> None:
        self.address, self.reason, self.may_retry = address, reason, may_retry
        super().__init__(address, reason)

    def __str__(self) -> str:
        return f"the webhook at {self.address!r} was not told: {self.reason}"


class Webhook:
    """Sends questions to *url*, over https unless that is on this machine.

    Args:
        url: where a POST goes; redirects are not followed.
        secret_file: the key that signs, in a file that only its owner reads; see `read_secret`.
        seconds: that the other end has to answer.
        limit: characters of a question; of a longer one only a notice is sent.
        pauses: seconds, after each of which a question is sent again that did not arrive.
        clock: tells seconds since the epoch.

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
        self._url = _read_url(url)
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
        return f"Webhook({self._address!r})"

    @property
    def _address(self) -> str:
        return f"{self._url.scheme}://{self._url.netloc}"

    async def notify(self, question: Question) -> None:
        """Send *question*; raises `WebhookError` unless the other end says that it has it."""
        body = question_body(question, self._limit)
        name = message_id("question", question.id, question.digest)
        headers = self._secret.headers(name, int(self._clock()), body)
        fields = [("content-type", "application/json"), *headers.items()]
        client = HttpClient()
        try:
            async with asyncio.timeout(self._seconds):
                reply = await client.send(self._url, "POST", fields, body, Timeouts())
            reply.close()
        except TimeoutError as error:
            reason = f"it did not answer within {self._seconds:g} seconds"
            raise WebhookError(self._address, reason, may_retry=True) from error
        except TransportError as error:
            may_retry = not isinstance(error.__cause__, ssl.SSLError)
            raise WebhookError(self._address, error.reason, may_retry=may_retry) from error
        finally:
            client.close()
        status = reply.status
        if status not in _GOOD:
            note = "; redirects are not followed" if status in _REDIRECTS else ""
            may_retry = status in _LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR
            raise WebhookError(self._address, f"it answered {status}{note}", may_retry=may_retry)


def question_body(question: Question, limit: int) -> bytes:
    """Return what is sent about *question*: a JSON object of `type`, `timestamp` and `data`.

    `data` has `id` and `digest`, which an answer names, `text` to be shown as it is, and `whole`:
    without it no yes is taken. `may_have_run` is when a call like it was begun whose end is not
    known, null without such a call.
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


def _read_url(url: str) -> SplitResult:
    """Return the parts of *url*; raises `RegistrationError`.

    The error does not have the address: its path may be a secret.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # Both may raise.
    except ValueError as error:
        raise RegistrationError("webhook", "its address is no URL") from error
    reason = None
    if not (url.isascii() and url.isprintable()) or " " in url:
        reason = "its address has characters that belong into no URL"
    elif parts.scheme not in {"http", "https"} or not host:
        reason = "expected an address that begins with https://, and a host"
    elif parts.username is not None or parts.fragment:
        reason = "its address may have no name, password or fragment"
    elif parts.scheme == "http" and not is_loopback(host):
        reason = f"what is sent to {host!r} can be read on the way; use https://"
    if reason is not None:
        raise RegistrationError("webhook", reason)
    return parts
