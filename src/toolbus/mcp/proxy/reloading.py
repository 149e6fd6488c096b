"""A configuration that changes while a proxy runs: new sessions get the new one, if it holds.

A session keeps the handlers that it began with, so nothing loosens for it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from toolbus.config.trust import TRUSTED
from toolbus.errors import ToolbusError
from toolbus.settings.private_files import signature
from toolbus.settings.user_folders import config_folder
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.settings.private_files import Signature

logger = logging.getLogger("toolbus")

_PAUSE = 1.0
"""Seconds between two looks at the file; what is to be read has not changed for so long."""

_ERRORS = (ToolbusError, UsageError, OSError)


async def follow(
    file: str, proxy: Proxy, make: Callable[[], Proxy] | None, opened: AsyncExitStack
) -> None:
    """Let *proxy* be succeeded by what *make* makes whenever *file* has changed; without an end.

    Without *make* there is one session, which keeps what it has, and the person is told so. What
    was made is closed with *opened*.
    """
    in_force = previous = signature(file)
    refused: tuple[Signature, Signature] | None = None
    while True:
        await asyncio.sleep(_PAUSE)
        now, trusted = signature(file), _signature_of_trust()
        # Half a file may be a valid one with fewer guards, so it has to be as it was before.
        settled, previous = now == previous, now
        if now == in_force:
            refused = None
        elif settled and refused != (now, trusted):
            if await _replace(file, proxy, make, opened):
                in_force = now
            else:
                refused = now, trusted


async def _replace(
    file: str, proxy: Proxy, make: Callable[[], Proxy] | None, opened: AsyncExitStack
) -> bool:
    """Tell whether what *file* says now is in force from now on."""
    if make is None:
        logger.warning("%s has changed: start the server anew; its session keeps the old", file)
        return True
    try:
        made = make()
        made.adopt_state(proxy)
        await opened.enter_async_context(made)
    except _ERRORS as error:
        logger.warning("%s has changed and is NOT in force, the old stays: %s", file, error)
        return False
    except Exception as error:  # noqa: BLE001 - code of others, and the old is in force
        what = type(error).__name__
        logger.warning("%s has changed and is NOT in force, the old stays: %s", file, what)
        return False
    proxy.current.next_version = made
    logger.warning("%s has changed: it is in force for new sessions", file)
    return True


def _signature_of_trust() -> Signature:
    folder = config_folder()
    return None if folder is None else signature(folder / TRUSTED)
