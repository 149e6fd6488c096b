"""The factory of proxies from options and configurations, and the reload after a change.

A running session keeps its handlers, so a reload never weakens it.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from toolbus.config import configuration
from toolbus.config.approvals import ApprovalSettings
from toolbus.config.targets import install, load
from toolbus.errors import ToolbusError
from toolbus.mcp.proxy.proxy import WAIT, Proxy
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.components.components import AgentComponent
    from toolbus.mcp.http.options import ListenOptions
    from toolbus.mcp.session.request_log import RequestLog
    from toolbus.settings.private_files import Signature

logger = logging.getLogger("toolbus")

_PAUSE = 1.0
"""Seconds between two checks of the file; a file is read only if unchanged for so long."""


class ProxyOptions(NamedTuple):
    """The options of a proxy; *timeout* and *grace* are in seconds, *frame* in bytes.

    *search* finds the active configuration if neither targets nor *config* are given.
    """

    targets: Sequence[str] = ()
    config: str | None = None
    store: str | None = None
    timeout: float | None = None
    frame: int = 2**28
    grace: float = 5.0
    listening: ListenOptions | None = None
    search: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    """Names, in lower case, and values of extra headers for a remote server."""
    log: str | None = None
    """The file of the request log, "-" for standard error."""
    approval_wait: float | None = None
    """Seconds for which a call waits for an approval; None for the configured time."""
    session: str | None = None
    """The name of a question session in *store*, shared by successive processes."""


def load_components(
    targets: Sequence[str],
    config: str | None = None,
    *,
    search: bool = False,
    changed: bool = False,
) -> tuple[EventBus | None, list[AgentComponent], ApprovalSettings]:
    """Return the bus, if a target names one, the components, and the approval settings.

    A target is `FILE.py[:name]` or a configuration. Without targets and *config*, *search* takes
    the active configuration. A *changed* config must be trusted. Raises `LoadError`.
    """
    # Targets come from three places, and only one of all may be a bus, and none an agent.
    bus, components, approvals = None, [], ApprovalSettings()
    read = configuration.read_changed if changed else configuration.read
    loaded = [] if config is None else [install(read(config))]
    if search and config is None and not targets and (nearest := configuration.read_nearest()):
        loaded.append(install(nearest))
    for target in (*loaded, *map(load, targets)):
        match target.kind:
            case "agent":
                reason = "an agent, but a proxy has no model; give its components"
                raise UsageError(f"{target.target} is {reason}")
            case "bus" if bus is not None:
                raise UsageError(f"{target.target} is a second bus; give only one bus")
            case "bus":
                bus = target.bus
        if target.configuration is not None:
            approvals = approvals.before(target.configuration.approvals)
        for component in target.components:
            component.teardown()  # Loading has installed it on a bus of its own.
            components.append(component)
    return bus, components, approvals


def make_proxy(
    options: ProxyOptions, log: RequestLog | None = None, *, changed: bool = False
) -> Proxy:
    """Return a proxy with *options*; *changed*: its configuration was edited since the start."""
    bus, components, approvals = load_components(
        options.targets, options.config, search=options.search, changed=changed
    )
    wait = options.approval_wait if options.approval_wait is not None else approvals.wait
    make = partial(approvals.make, host="proxy", wait=WAIT if wait is None else wait)
    return Proxy(components, bus=bus, timeout=options.timeout, log=log, approvals=make)


@asynccontextmanager
async def follow_changes(config: str, options: ProxyOptions, proxy: Proxy) -> AsyncIterator[None]:
    """Reload *config* when it changes; a process with a single session only logs the change."""
    import asyncio  # noqa: PLC0415 - not before a server starts

    # A bus made by a module cannot be made again, so it is shared by all sessions.
    many = options.listening is not None and not proxy.shares_bus
    async with AsyncExitStack() as made:
        make = partial(make_proxy, options, proxy.log, changed=True) if many else None
        task = asyncio.create_task(_follow(config, proxy, make, made))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


async def _follow(
    file: str, proxy: Proxy, make: Callable[[], Proxy] | None, made: AsyncExitStack
) -> None:
    """Replace *proxy* by a new one of *make* whenever *file* has changed; never return.

    New proxies are closed with *made*. Without *make* there is a single session, which keeps its
    handlers, and a warning says so.
    """
    import asyncio  # noqa: PLC0415 - as above

    from toolbus.config.trust import TRUSTED  # noqa: PLC0415 - as above
    from toolbus.settings.private_files import signature  # noqa: PLC0415 - as above
    from toolbus.settings.user_folders import config_folder  # noqa: PLC0415 - as above

    folder = config_folder()
    active = previous = signature(file)
    refused: tuple[Signature, Signature] | None = None
    while True:
        await asyncio.sleep(_PAUSE)
        now, trusted = signature(file), None if folder is None else signature(folder / TRUSTED)
        # A half-written file may be valid but have fewer guards, so wait until it is unchanged.
        settled, previous = now == previous, now
        if now == active:
            refused = None
        elif settled and refused != (now, trusted):
            if await _replace(file, proxy, make, made):
                active = now
            else:
                refused = now, trusted


async def _replace(
    file: str, proxy: Proxy, make: Callable[[], Proxy] | None, made: AsyncExitStack
) -> bool:
    """Apply the changed *file* to new sessions; return whether it is active."""
    if make is None:
        logger.warning("%s has changed; restart the server to apply it to this session", file)
        return True
    try:
        new = make()
        new.adopt_state(proxy)
        await made.enter_async_context(new)
    except Exception as error:  # noqa: BLE001 - foreign code, and the old version stays active
        known = isinstance(error, ToolbusError | UsageError | OSError)
        reason = error if known else type(error).__name__
        logger.warning("%s has changed but is NOT active, the old version is: %s", file, reason)
        return False
    proxy.current.next_version = new
    logger.warning("%s has changed: the new version is active for new sessions", file)
    return True
