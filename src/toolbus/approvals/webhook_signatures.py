"""Signatures of webhook messages: HMAC-SHA256 over id, time and body.

The format is Standard Webhooks 1.0.0, "Signature scheme" (https://www.standardwebhooks.com), so
its libraries work at the other end. The id contains the question's id, its digest and the
direction, so that a message cannot be sent back as an answer.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolbus.errors import RegistrationError
from toolbus.settings.files import reason_of
from toolbus.settings.private_files import UnfitFileError, read_secret_file

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT = 100_000
"""The most characters of a question as text; a longer one is sent as a notice."""

TOLERANCE = 300
"""The most seconds between the time of a message and ours."""

_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64
"""The bytes of a key, by the specification."""
_MOST_BYTES = 1_024
_MOST_SIGNATURES = 8

Direction = Literal["question", "answer"]


class WebhookSecret:
    """The key of both ends; its repr does not show it.

    >>> sorted(WebhookSecret(b"k" * 32).headers("q1", 1_790_000_000, b"{}"))
    ['webhook-id', 'webhook-signature', 'webhook-timestamp']
    """

    def __init__(self, key: bytes) -> None:
        if not _SHORTEST <= len(key) <= _LONGEST:
            reason = f"expected a key of {_SHORTEST} to {_LONGEST} bytes, not of {len(key)}"
            raise RegistrationError("webhook's secret", reason)
        self._key = key

    def headers(self, message_id: str, seconds: int, body: bytes) -> dict[str, str]:
        """Return the headers of a message sent at *seconds* since the epoch."""
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": self._sign(message_id, str(seconds), body),
        }

    def refusal(self, headers: Mapping[str, str], body: bytes, seconds: float) -> str | None:
        """Return why a message with *headers*, in lower case, is invalid; None if it is valid."""
        message_id, time, signatures = (
            headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
        )
        if "." in message_id:
            return "its id contains a full stop"
        expected = self._sign(message_id, time, body).encode()
        offered = signatures.split(" ")[:_MOST_SIGNATURES]
        if not any(
            hmac.compare_digest(each.encode(errors="replace"), expected) for each in offered
        ):
            return "its signature does not match the secret"
        if not (time.isascii() and time.isdecimal() and len(time) <= len(str(2**63))):
            return "its time is not a number of seconds"
        if abs(int(time) - seconds) > TOLERANCE:
            return f"its time is more than {TOLERANCE} seconds from ours"
        return None

    def _sign(self, message_id: str, seconds: str, body: bytes) -> str:
        head = f"{message_id}.{seconds}.".encode(errors="backslashreplace")
        digest = hmac.digest(self._key, head + body, hashlib.sha256)
        return f"v1,{base64.b64encode(digest).decode()}"


def message_id(direction: Direction, question_id: str, digest: str) -> str:
    """Return the id of the message about a question, the same for each repetition."""
    return f"{direction}_{question_id}_{digest}"


def read_secret(file: str | Path) -> WebhookSecret:
    """Return the secret in *file*: ``whsec_`` and a key in base64, or the key itself.

    The file must belong to this user, be private, and not be a symlink. Raises
    `RegistrationError`, which never contains the key.

    >>> file = Path("webhook.secret")
    >>> _ = file.write_text("k" * 43)
    >>> file.chmod(0o600)
    >>> secret = read_secret(file)
    """
    path = Path(file).expanduser()
    try:
        text = read_secret_file(path, _MOST_BYTES)
    except UnfitFileError as error:
        raise RegistrationError(f"secret file {str(path)!r}", error.reason) from None
    except OSError as error:
        raise RegistrationError(f"secret file {str(path)!r}", reason_of(error)) from None
    return WebhookSecret(_key(text.strip(), path))


def _key(text: bytes, path: Path) -> bytes:
    if not text.startswith(_PREFIX.encode()):
        return text
    try:
        return base64.b64decode(text.removeprefix(_PREFIX.encode()), validate=True)
    except binascii.Error:
        reason = f"the text after {_PREFIX} is not base64"
        # Without the cause, which may contain the key.
        raise RegistrationError(f"secret file {str(path)!r}", reason) from None
