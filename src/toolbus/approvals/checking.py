"""What `StoredApprovals` can be given: seconds, limits, channels, a key."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.approvals.channels import Notifier

DAY = 86_400.0
LONGEST = 3_650 * DAY
"""Seconds after which every question expires."""

SHORTEST_KEY = 32
"""Bytes."""


def check_limits(**limits: object) -> None:
    """Raise `RegistrationError` for what limits nothing."""
    for name, limit in limits.items():
        if limit is not None and not (type(limit) is int and limit > 0):
            raise RegistrationError(name, f"expected a positive number or None, not {limit!r}")


def check_arguments(
    wait: object, expires_after: object, notify: Sequence[Notifier], key: object
) -> None:
    """Raise `RegistrationError` for what questions cannot be stored with."""
    if not (type(wait) in {int, float} and 0 <= wait < inf):  # type: ignore[operator]  # a number
        raise RegistrationError("wait", f"expected seconds to wait, not {wait!r}")
    if not (type(expires_after) in {int, float} and 0 < expires_after <= LONGEST):  # type: ignore[operator]  # as above
        reason = f"expected a number of seconds from 0 to {LONGEST:.0f}, not {expires_after!r}"
        raise RegistrationError("expires_after", reason)
    for channel in notify:
        if isinstance(channel, type) or not callable(getattr(channel, "notify", None)):
            reason = "it has no method `async def notify(question)`"
            raise RegistrationError(f"channel {channel!r}", reason)
    if key is not None and not (isinstance(key, bytes) and len(key) >= SHORTEST_KEY):
        # Not the value: it may be a key all the same.
        raise RegistrationError("key", f"expected at least {SHORTEST_KEY} bytes")
