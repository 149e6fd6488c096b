"""The pause before a retry that a provider asks for: parsing, limit and logging."""

from __future__ import annotations

import logging
import math
from email.utils import mktime_tz, parsedate_tz
from time import time
from typing import TYPE_CHECKING, Any

from toolbus.providers.failures import retries_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

logger = logging.getLogger("toolbus")

MAX_PAUSE = 60.0
"""The maximum seconds of a pause."""

_ERROR = 400

_LOGGED_FROM = 1.0
"""The seconds from which on a pause is logged."""


def retry_pause(headers: Mapping[str, str]) -> float:
    """Return the seconds of the requested pause, 0 if there is none.

    The headers are those that the SDKs obey: `Retry-After` of RFC 9110, 10.2.3, and their own
    `retry-after-ms`.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            pause = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return 0.0 if math.isnan(pause) else max(0.0, pause)
    try:
        date = parsedate_tz(headers.get("retry-after", ""))
        return 0.0 if date is None else max(0.0, mktime_tz(date) - time())
    except (ValueError, OverflowError):
        return 0.0


def excessive_pause(headers: Mapping[str, str]) -> str:
    """Return an addition to an error text for a pause that is too long, else ""."""
    pause = retry_pause(headers)
    if pause <= MAX_PAUSE:
        return ""
    return f"; the server asks for a pause of {pause:,.0f} seconds, the limit is {MAX_PAUSE:.0f}"


def pause_limit(model: str, max_retries: int) -> Callable[[Any], Awaitable[None]]:
    """Return a hook for an SDK's HTTP client, called with each response before the SDK.

    A response with a pause that is too long is not retried; a pause is logged from `_LOGGED_FROM`.
    """

    async def limit(response: Any) -> None:
        pause = retry_pause(response.headers)
        if response.status_code < _ERROR or not pause:
            return
        if pause > MAX_PAUSE:
            # The providers' own header, which both SDKs obey in `_should_retry`.
            response.headers["x-should-retry"] = "false"
        elif pause >= _LOGGED_FROM and retries_of(response) < max_retries:
            status = f"HTTP {response.status_code}"
            logger.warning("model %r: %s; retrying in %.1f s", model, status, pause)

    return limit
