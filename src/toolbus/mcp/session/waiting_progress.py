"""Progress that a client is told while a person is waited for: its own limit may begin anew by it.

See MCP 2025-11-25, basic/utilities/progress, and basic/lifecycle, "Timeouts".
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from toolbus.mcp.protocol.jsonrpc import write_frame
from toolbus.mcp.protocol.revisions import PROGRESS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from toolbus.mcp.session.request_table import Send

PAUSE = 5.0
"""Seconds between two notifications."""

_STEP = 1e-6
_TEXT = "a person is asked to approve this call"


@asynccontextmanager
async def telling_progress(
    params: Mapping[str, Any], send: Send, pause: float = PAUSE
) -> AsyncIterator[None]:
    """Tell *send* every *pause* seconds that the call with *params* waits, if it gave a token."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    if isinstance(token, bool) or not isinstance(token, str | int):
        yield
        return
    telling = asyncio.create_task(_notify(token, send, pause))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait({telling})


async def _notify(token: str | int, send: Send, pause: float) -> None:
    for number in count(1):
        await asyncio.sleep(pause)
        # It has to grow, and what the server tells later begins at 0 or 1.
        params = {"progressToken": token, "progress": number * _STEP, "message": _TEXT}
        send(write_frame(method=PROGRESS, params=params))
