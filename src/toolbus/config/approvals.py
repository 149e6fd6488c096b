"""The `[approvals]` of a configuration, limits of questions and their channels, and its `[store]`.

[approvals]
wait = 30                # seconds that a call waits for its answer
expires_after = 3600     # seconds until a question expires; a day by default
max_open = 20            # open questions of a session; more calls are denied
max_hourly = 200         # questions of a session in an hour
max_denials = 3          # denials after which the same call is not asked about again
host_asks = false        # toolbus asks instead of a coding agent with its own prompt

[approvals.webhook]      # gets each question; only in your own file, or a named one
url = "https://example.com/questions"
secret_file = "~/.config/toolbus/webhook.key"

[store]                  # in your own file, or a named one
key = "env:TOOLBUS_KEY"  # a variable with 32 to 64 characters, or
key = "store.key"        # a file with 32 to 64 bytes, in the folder of your own configuration

All machines with the key hide a value behind the same placeholder, and recognize a repeated call.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from toolbus.config.named_keys import KeySettingError, named_key
from toolbus.config.tables import (
    APPROVALS,
    STORE,
    ApprovalTable,
    StoreTable,
    read_single,
    read_values,
)
from toolbus.errors import RegistrationError

if TYPE_CHECKING:
    from toolbus.approvals import Notifier, StoredApprovals
    from toolbus.config.documents import Document
    from toolbus.store.protocol import Store

_LEAST = {"wait": 0.0, "expires_after": 1.0}
_LONGEST = 366 * 86_400.0


class ApprovalSettings(ApprovalTable, frozen=True, kw_only=True):
    """The values of `[approvals]`, and the *key* of `[store]`; None for absent ones."""

    key: bytes | None = None

    def before(self, others: ApprovalSettings) -> ApprovalSettings:
        """Return these values, completed by *others*."""
        return replace(
            others,
            **{name: value for name, value in asdict(self).items() if value is not None},
        )

    def make(self, store: Store, host: str, wait: float) -> StoredApprovals:
        """Return the approvals kept in *store* for *host*; a call waits *wait* seconds.

        Absent values have the defaults of `StoredApprovals`. Raises `RegistrationError` for an
        unusable webhook.
        """
        from toolbus.approvals.stored import StoredApprovals  # noqa: PLC0415 - not for all

        names = ("expires_after", "max_open", "max_hourly", "max_denials", "key")
        limits = {name: value for name in names if (value := getattr(self, name)) is not None}
        return StoredApprovals(store=store, host=host, wait=wait, notify=self.channels(), **limits)

    def channels(self) -> tuple[Notifier, ...]:
        """Return the receivers of each question; raises `RegistrationError`."""
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
    """Return *before*, of an earlier file, completed by the approvals of *document*.

    A file that *is_project* has no webhook. Raises `ConfigurationError`.
    """
    table = read_single(document, APPROVALS)
    if is_project and "webhook" in table:
        raise document.error(_not_for_projects("webhook"), APPROVALS, "webhook")
    values = read_values(document, ApprovalTable, table, APPROVALS)
    for key, value in values.items():
        least = _LEAST.get(key)
        if least is not None and not (isfinite(value) and least <= value <= _LONGEST):
            reason = f"expected {least:g} to {_LONGEST:,.0f} seconds, got {table[key]!r}"
            raise document.error(f"key {key!r}: {reason}", APPROVALS, key)
        if type(value) is int and value < 1:
            reason = f"expected a number of questions from 1 up, got {table[key]!r}"
            raise document.error(f"key {key!r}: {reason}", APPROVALS, key)
    return before.before(ApprovalSettings(**values))


def read_store_key(document: Document, *, is_project: bool = False) -> bytes | None:
    """Return the key that *document* names, None without one.

    A file that *is_project* must not name a key. Raises `ConfigurationError`.
    """
    table = read_single(document, STORE)
    if is_project and "key" in table:
        raise document.error(_not_for_projects("key"), STORE, "key")
    setting = read_values(document, StoreTable, table, STORE).get("key")
    if setting is None:
        return None
    try:
        return named_key(setting)
    except KeySettingError as error:
        raise document.error(f"key 'key': {error}", STORE, "key") from None


def _not_for_projects(key: str) -> str:
    way_out = "put it into your own configuration, or name this file"
    return f"key {key!r} may not be set by a project; {way_out}"
