"""`toolbus proxy`: handlers in front of an MCP server that somebody else wrote."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import AsyncExitStack, redirect_stdout
from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import RegistrationError
from toolbus.hosts.mcp import Limits, Proxy, read_url, run_remote, run_stdio
from toolbus.loading import load, load_configuration
from toolbus.store.sqlite import SqliteStore
from toolbus.terminal import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from toolbus.bus import EventBus
    from toolbus.components import AgentComponent
    from toolbus.launching import Launched


TOKEN = "TOOLBUS_PROXY_TOKEN"  # noqa: S105 - the name of a variable of the environment


class Options(NamedTuple):
    """What a proxy is asked for; *timeout* and *grace* are in seconds, *frame* in bytes.

    *launched* is the server, if it was started already.
    """

    targets: Sequence[str] = ()
    config: str | None = None
    store: Path | None = None
    timeout: float | None = None
    frame: int = Limits().frame
    grace: float = Limits().grace
    launched: Launched | None = None


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
        if url is not None:
            token = os.environ.get(TOKEN)
            return await run_remote(proxy, url, limits, token=token, output=output)
        try:
            return await run_stdio(proxy, command, limits, output=output, launched=options.launched)
        except (FileNotFoundError, PermissionError) as error:
            raise UsageError(f"cannot start {command[0]!r}: {error.strerror}") from error
