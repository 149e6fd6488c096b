"""`toolbus proxy`: handlers in front of an MCP server that somebody else wrote."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from contextlib import AsyncExitStack, redirect_stdout
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult

from toolbus.errors import RegistrationError
from toolbus.hosts.mcp import (
    Limits,
    Listening,
    Proxy,
    is_loopback,
    read_url,
    run_remote,
    run_stdio,
)
from toolbus.loading import load, load_configuration
from toolbus.store.sqlite import SqliteStore
from toolbus.terminal import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from toolbus.bus import EventBus
    from toolbus.components import AgentComponent


logger = logging.getLogger("toolbus")

TOKEN = "TOOLBUS_PROXY_TOKEN"  # noqa: S105 - the name of a variable of the environment
"""What the server is shown."""

LISTEN_TOKEN = "TOOLBUS_LISTEN_TOKEN"  # noqa: S105 - as above
"""What clients must show, if the proxy listens for them."""


class Options(NamedTuple):
    """What a proxy is asked for; *timeout* and *grace* are in seconds, *frame* in bytes."""

    targets: Sequence[str] = ()
    config: str | None = None
    store: Path | None = None
    timeout: float | None = None
    frame: int = Limits().frame
    grace: float = Limits().grace
    listening: Listening | None = None


def run_proxy(command: Sequence[str], options: Options) -> int:
    """Run the server *command*, or the one at its address, behind handlers; return its exit code.

    Raises `UsageError`.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="toolbus: %(message)s")
    # Standard output belongs to the client: what handlers print goes elsewhere.
    stdout = sys.stdout
    with redirect_stdout(sys.stderr):
        bus, components = load_components(options.targets, options.config)
        return asyncio.run(_serve(command, options, bus, components, stdout.fileno()))


def load_components(
    targets: Sequence[str], config: str | None = None
) -> tuple[EventBus | None, list[AgentComponent]]:
    """Return the components that *config* and then *targets* name, and the bus if one is named.

    A target is `FILE.py[:name]` or a configuration. Raises `LoadError`.
    """
    bus, components = None, []
    loaded = [] if config is None else [load_configuration(config)]
    for found in (*loaded, *map(load, targets)):
        match found.kind:
            case "agent":
                reason = "an agent, which a proxy has no model for; give its components"
                raise UsageError(f"{found.target} is {reason}")
            case "bus" if bus is not None:
                raise UsageError(f"{found.target} is a second bus; give one, and components")
            case "bus":
                bus = found.bus
        for one in found.components:
            one.teardown()  # Loading has installed it for show.
            components.append(one)
    return bus, components


async def _serve(
    command: Sequence[str],
    options: Options,
    bus: EventBus | None,
    components: Sequence[AgentComponent],
    output: int,
) -> int:
    async with AsyncExitStack() as opened:
        store = None
        if options.store is not None:
            store = SqliteStore(options.store)
            opened.push_async_callback(store.close)
        try:
            proxy = Proxy(components, bus=bus, store=store, timeout=options.timeout)
        except RegistrationError as error:
            raise UsageError(str(error)) from error
        await opened.enter_async_context(proxy)
        limits = Limits(options.frame, options.grace)
        url = read_url(command[0]) if len(command) == 1 else None
        token = os.environ.get(TOKEN)
        try:
            if options.listening is not None:
                return await _listen(proxy, url or command, limits, options.listening, token)
            if url is not None:
                return await run_remote(proxy, url, limits, token=token, output=output)
            return await run_stdio(proxy, command, limits, output=output)
        except (FileNotFoundError, PermissionError) as error:
            raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from error


async def _listen(
    proxy: Proxy,
    server: SplitResult | Sequence[str],
    limits: Limits,
    listening: Listening,
    token: str | None,
) -> int:
    try:
        from toolbus.hosts.mcp.listener import run_listener  # noqa: PLC0415 - uvicorn is an extra
    except ImportError as error:
        raise UsageError(str(error)) from error
    if not isinstance(server, SplitResult) and shutil.which(server[0]) is None:
        # It would be started only when a client comes.
        raise UsageError(f"cannot start {server[0]!r}: there is no such program")
    shown = os.environ.get(LISTEN_TOKEN) or None
    if shown is None and not is_loopback(listening.host):
        if token is not None or not isinstance(server, SplitResult):
            raise UsageError(f"who is not on this machine needs a token: set {LISTEN_TOKEN}")
        logger.warning("everybody who reaches %s may use the proxy", listening.host)
    try:
        return await run_listener(proxy, server, limits, listening, token=token, shown=shown)
    except OSError as error:
        where = f"{listening.host}:{listening.port}"
        reason = os.strerror(error.errno) if error.errno else error
        raise UsageError(f"cannot listen on {where}: {reason}") from error
