"""How messages of a webhook are signed: HMAC-SHA256 over id, time and body.

That is Standard Webhooks 1.0.0, "Signature scheme" (https://www.standardwebhooks.com), whose
libraries can be used at the other end. The id holds the question's id and digest, and which way it
goes, so that no message can be sent back as an answer.
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
"""Characters of a question as text; one that is longer gets a notice, and no yes."""

TOLERANCE = 300
"""Seconds by which the time of a message and ours may differ."""

_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64
"""Bytes of a key, by the specification."""
_MOST_BYTES = 1_024
_MOST_SIGNATURES = 8

Direction = Literal["question", "answer"]


class WebhookSecret:
    """A key that both ends have; it shows in no text.

    >>> sorted(WebhookSecret(b"k" * 32).headers("q1", 1_790_000_000, b"{}"))
    ['webhook-id', 'webhook-signature', 'webhook-timestamp']
    """

    def __init__(self, key: bytes) -> None:
        if not _SHORTEST <= len(key) <= _LONGEST:
            reason = f"expected a key of {_SHORTEST} to {_LONGEST} bytes, not of {len(key)}"
            raise RegistrationError("webhook's secret", reason)
        self._key = key

    def headers(self, message_id: str, seconds: int, body: bytes) -> dict[str, str]:
        """Return the headers of a message that is sent at *seconds* since the epoch."""
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": self._sign(message_id, str(seconds), body),
        }

    def refusal(self, headers: Mapping[str, str], body: bytes, seconds: float) -> str | None:
        """Return why a message of these *headers*, in lower case, does not count; None: it does."""
        message_id, time, signatures = (
            headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
        )
        if "." in message_id:
            return "its id has a full stop"
        expected = self._sign(message_id, time, body).encode()
        offered = signatures.split(" ")[:_MOST_SIGNATURES]
        if not any(
            hmac.compare_digest(each.encode(errors="replace"), expected) for each in offered
        ):
            return "its signature is not of this secret"
        if not (time.isascii() and time.isdecimal() and len(time) <= len(str(2**63))):
            return "its time is no number of seconds"
        if abs(int(time) - seconds) > TOLERANCE:
            return f"its time is more than {TOLERANCE} seconds from ours"
        return None

    def _sign(self, message_id: str, seconds: str, body: bytes) -> str:
        head = f"{message_id}.{seconds}.".encode(errors="backslashreplace")
        digest = hmac.digest(self._key, head + body, hashlib.sha256)
        return f"v1,{base64.b64encode(digest).decode()}"


def message_id(direction: Direction, question_id: str, digest: str) -> str:
    """Return the id of the message about a question; it is the same however often it is sent."""
    return f"{direction}_{question_id}_{digest}"


def read_secret(file: str | Path) -> WebhookSecret:
    """Return the secret in *file*: ``whsec_`` and a key in base64, or the key itself.

    It must be a file of ours that nobody else may read or replace, and no symlink. Raises
    `RegistrationError`, which never says what is in it.

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
        reason = f"what follows {_PREFIX} is no base64"
        # Not the cause: it may say what was found.
        raise RegistrationError(f"secret file {str(path)!r}", reason) from None
