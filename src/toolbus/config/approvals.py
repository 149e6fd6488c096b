"""What a configuration says of questions to a person: how long they wait, and who asks them.

[approvals]
wait = 30                # seconds that who asks waits by itself for the answer
expires_after = 3600     # seconds in which a question can be answered; a day if not given
max_open = 20            # questions of a session that may wait; beyond that calls are denied
max_hourly = 200         # questions of a session within an hour
max_denials = 3          # denials after which the same call is not asked about again
host_asks = false        # a coding agent with a question of its own: keep ours instead

[approvals.webhook]      # is told of each question; in your own file, or one that is named
url = "https://example.com/questions"
secret_file = "~/.config/toolbus/webhook.key"
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from toolbus.errors import RegistrationError
from toolbus.settings.hints import unknown_key
from toolbus.toml.values import MisfitError, fit

if TYPE_CHECKING:
    from toolbus.approvals import Notifier, StoredApprovals
    from toolbus.config.documents import Document
    from toolbus.store.protocol import Store

APPROVALS = "approvals"
_LEAST = {"wait": 0.0, "expires_after": 1.0}
_LONGEST = 366 * 86_400.0


class WebhookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a question is sent, and the file with the key that signs it."""

    url: str
    secret_file: Path


_KINDS: dict[str, Any] = {
    "wait": float,
    "expires_after": float,
    "max_open": int,
    "max_hourly": int,
    "max_denials": int,
    "host_asks": bool,
    "webhook": WebhookSettings,
}


class ApprovalSettings(Struct, frozen=True, kw_only=True):
    """What is said in `[approvals]`, and the *key* in `[store]`; None where nothing is said."""

    wait: float | None = None
    expires_after: float | None = None
    max_open: int | None = None
    max_hourly: int | None = None
    max_denials: int | None = None
    host_asks: bool | None = None
    webhook: WebhookSettings | None = None
    key: bytes | None = None

    def before(self, others: ApprovalSettings) -> ApprovalSettings:
        """Return these, and *others* where these say nothing."""
        return replace(
            others,
            **{name: value for name, value in asdict(self).items() if value is not None},
        )

    def make(self, store: Store, host: str, wait: float) -> StoredApprovals:
        """Return the keeper of questions in *store* for *host*, which waits *wait* seconds.

        What is not said is as `StoredApprovals` has it. A webhook that cannot be used raises
        `RegistrationError`.
        """
        from toolbus.approvals.stored import StoredApprovals  # noqa: PLC0415 - not for all

        names = ("expires_after", "max_open", "max_hourly", "max_denials", "key")
        settings = {name: value for name in names if (value := getattr(self, name)) is not None}
        return StoredApprovals(
            store=store, host=host, wait=wait, notify=self.channels(), **settings
        )

    def channels(self) -> tuple[Notifier, ...]:
        """Return what is told of each question; raises `RegistrationError`."""
        if self.webhook is None:
            return ()
        try:
            from toolbus.approvals.webhook import Webhook  # noqa: PLC0415 - as above
        except ImportError as error:  # Of the extra.
            raise RegistrationError("webhook", str(error)) from error
        return (Webhook(self.webhook.url, secret_file=self.webhook.secret_file),)


def read_approvals(
    document: Document, before: ApprovalSettings, *, is_project: bool = False
) -> ApprovalSettings:
    """Return what *document* says of approvals where *before*, of an earlier file, says nothing.

    One that *is_project* does not say where questions are sent. Raises `ConfigurationError`.
    """
    table = document.table.get(APPROVALS, {})
    if not isinstance(table, dict):
        raise document.error(f"{APPROVALS!r} is no table; write [{APPROVALS}]", APPROVALS)
    if is_project and "webhook" in table:
        way_out = "put it into your own configuration, or name this file"
        reason = f"key 'webhook' is no project's to give; {way_out}"
        raise document.error(reason, APPROVALS, "webhook")
    values = {key: _value(document, key, value) for key, value in table.items()}
    return before.before(ApprovalSettings(**values))


def _value(document: Document, key: str, value: object) -> Any:
    if key not in _KINDS:
        raise document.error(unknown_key(key, _KINDS), APPROVALS, key)
    try:
        fitted = fit(value, _KINDS[key], document.file.parent)
    except MisfitError as error:
        path = (APPROVALS, key, *error.path)
        raise document.error(f"key {key!r}: {error.reason}", *path) from None
    least = _LEAST.get(key)
    if least is not None and not (isfinite(fitted) and least <= fitted <= _LONGEST):
        reason = f"expected {least:g} to {_LONGEST:,.0f} seconds, not {value!r}"
        raise document.error(f"key {key!r}: {reason}", APPROVALS, key)
    if _KINDS[key] is int and fitted < 1:
        reason = f"expected a number of questions from 1 on, not {value!r}"
        raise document.error(f"key {key!r}: {reason}", APPROVALS, key)
    return fitted
