"""The pause that a provider asks for before it is asked again: read, bounded and told."""

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
"""Seconds that a provider is waited for at most where it asks for a pause."""

_ERROR = 400

_TOLD = 1.0
"""Seconds of a pause that is told while it lasts; a shorter one nobody notices."""


def asked_pause(headers: Mapping[str, str]) -> float:
    """Return the seconds for which a server wants to be left alone, 0 if it does not say.

    The headers are those that the SDKs obey: RFC 9110, 10.2.3, and milliseconds of their own.
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


def excess_of(headers: Mapping[str, str]) -> str:
    """Return that a server asks for too long a pause, in words; "" if it does not."""
    pause = asked_pause(headers)
    if pause <= MAX_PAUSE:
        return ""
    return (
        f"; the server asks for a pause of {pause:,.0f} seconds, expected at most {MAX_PAUSE:.0f}"
    )


def pause_limit(model: str, max_retries: int) -> Callable[[Any], Awaitable[None]]:
    """Return what an SDK's HTTP client calls with each response, before the SDK looks at it.

    A pause that is too long becomes an error; one that is kept is logged, from `_TOLD` on.
    """

    async def limit(response: Any) -> None:
        pause = asked_pause(response.headers)
        if response.status_code < _ERROR or not pause:
            return
        if pause > MAX_PAUSE:
            # A header of the providers' own, which both SDKs obey in `_should_retry`.
            response.headers["x-should-retry"] = "false"
        elif pause >= _TOLD and retries_of(response) < max_retries:
            status = f"HTTP {response.status_code}"
            logger.warning("model %r: %s; asked again in %.1f s", model, status, pause)

    return limit
