"""A proxy as a command line and configurations name it, made anew when a configuration changes.

A session keeps the handlers that it began with, so nothing loosens for it.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from toolbus.config.approvals import ApprovalSettings
from toolbus.config.targets import load, load_changed, load_configuration, load_nearest
from toolbus.errors import RegistrationError, ToolbusError
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
"""Seconds between two looks at the file; a file that is read has not changed for so long."""


class ProxyOptions(NamedTuple):
    """The options of a proxy; *timeout* and *grace* are in seconds, *frame* in bytes.

    Without targets and a configuration *search* takes what is in force here.
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
    """Names, in lower case, and values that a server at an address gets with each request."""
    log: str | None = None
    """A file that gets a line for each request, "-" for standard error."""
    approval_wait: float | None = None
    """Seconds for which a call waits for a person; None: as the configuration says."""
    session: str | None = None
    """A name by which the questions of one process are those of the next one, with a *store*."""


def load_components(
    targets: Sequence[str],
    config: str | None = None,
    *,
    search: bool = False,
    changed: bool = False,
) -> tuple[EventBus | None, list[AgentComponent], ApprovalSettings]:
    """Return the bus, if one is named, the components of *config* and *targets*, and approvals.

    A target is `FILE.py[:name]` or a configuration. If none is named, *search* takes what is in
    force here. A *config* that has *changed* has to be trusted. Raises `LoadError`.
    """
    bus, components, approvals = None, [], ApprovalSettings()
    read = load_changed if changed else load_configuration
    loaded = [] if config is None else [read(config)]
    if search and config is None and not targets and (nearest := load_nearest()) is not None:
        loaded.append(nearest)
    for target in (*loaded, *map(load, targets)):
        match target.kind:
            case "agent":
                reason = "an agent, which a proxy has no model for; give its components"
                raise UsageError(f"{target.target} is {reason}")
            case "bus" if bus is not None:
                raise UsageError(f"{target.target} is a second bus; give one, and components")
            case "bus":
                bus = target.bus
        if target.configuration is not None:
            approvals = approvals.before(target.configuration.approvals)
        for component in target.components:
            component.teardown()  # Loading has installed it for show.
            components.append(component)
    return bus, components, approvals


def make_proxy(
    options: ProxyOptions, log: RequestLog | None = None, *, changed: bool = False
) -> Proxy:
    """Return the proxy that *options* name; its configuration may have *changed*."""
    bus, components, approvals = load_components(
        options.targets, options.config, search=options.search, changed=changed
    )
    wait = options.approval_wait if options.approval_wait is not None else approvals.wait
    make = partial(approvals.make, host="proxy", wait=WAIT if wait is None else wait)
    try:
        return Proxy(components, bus=bus, timeout=options.timeout, log=log, approvals=make)
    except RegistrationError as error:
        raise UsageError(str(error)) from error


@asynccontextmanager
async def following(config: str, options: ProxyOptions, proxy: Proxy) -> AsyncIterator[None]:
    """Follow the changes of *config*; a process with one session only tells of them."""
    import asyncio  # noqa: PLC0415 - not before a server starts

    # A bus that a module made is one for all: there is no other one for new sessions.
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
    """Have *proxy* replaced by what *make* returns whenever *file* has changed; without an end.

    The new one is closed with *made*. Without *make* there is one session, which keeps its
    handlers, and the person is told so.
    """
    import asyncio  # noqa: PLC0415 - as above

    from toolbus.config.trust import TRUSTED  # noqa: PLC0415 - as above
    from toolbus.settings.private_files import signature  # noqa: PLC0415 - as above
    from toolbus.settings.user_folders import config_folder  # noqa: PLC0415 - as above

    folder = config_folder()
    in_force = previous = signature(file)
    refused: tuple[Signature, Signature] | None = None
    while True:
        await asyncio.sleep(_PAUSE)
        now, trusted = signature(file), None if folder is None else signature(folder / TRUSTED)
        # Half a file may be a valid one with fewer guards, so it has to be as it was before.
        settled, previous = now == previous, now
        if now == in_force:
            refused = None
        elif settled and refused != (now, trusted):
            if await _replace(file, proxy, make, made):
                in_force = now
            else:
                refused = now, trusted


async def _replace(
    file: str, proxy: Proxy, make: Callable[[], Proxy] | None, made: AsyncExitStack
) -> bool:
    """Return whether what *file* says now is in force from now on."""
    if make is None:
        logger.warning("%s has changed: start the server anew; its session keeps the old", file)
        return True
    try:
        new = make()
        new.adopt_state(proxy)
        await made.enter_async_context(new)
    except Exception as error:  # noqa: BLE001 - code of others, and the old is in force
        known = isinstance(error, ToolbusError | UsageError | OSError)
        reason = error if known else type(error).__name__
        logger.warning("%s has changed and is NOT in force, the old stays: %s", file, reason)
        return False
    proxy.current.next_version = new
    logger.warning("%s has changed: it is in force for new sessions", file)
    return True
