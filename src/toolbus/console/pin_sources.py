"""What there is to pin: the tools of programs, and what MCP servers say of themselves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.components.participants import ComponentHost
from toolbus.config.loading import load
from toolbus.console.assembly import find_components, server_words
from toolbus.console.side_output import relay_lines
from toolbus.errors import RegistrationError
from toolbus.mcp.transport.launching import own_environment
from toolbus.policy.pins.pinned_items import (
    PinnedServer,
    ToolPins,
    pin_instructions,
    pin_program,
    pin_prompt,
    pin_tool,
)
from toolbus.terminal.output import Output
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.config.servers import ServerEntry
    from toolbus.events.catalogue import ToolSpec
    from toolbus.mcp.client import McpOptions
    from toolbus.mcp.client.surfaces import ServerSurface

_ADDRESS = ("http://", "https://")


class PinSources(NamedTuple):
    """Where the tools are: *targets*, components called *tools*, and MCP servers.

    *servers* are commands in one text, or addresses; *command* are the words of one more, which
    *name* names. Addresses get *headers*.
    """

    targets: Sequence[str] = ()
    tools: Sequence[str] = ()
    servers: Sequence[str] = ()
    command: Sequence[str] = ()
    name: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


async def read_pins(sources: PinSources) -> ToolPins:
    """Return what all *sources* say now.

    Raises `LoadError`, `UsageError` and `ToolServerError`.
    """
    specs, entries = _own_specs(sources)
    servers: dict[str, PinnedServer] = {}
    for entry in entries:
        _add(servers, await _read_entry(entry))
    for server in sources.servers:
        _add(servers, await _read(server_words(server), {}, sources.headers))
    if sources.command:
        # As `toolbus proxy` starts it; those of an agent get less.
        options: McpOptions = {"env": own_environment()}
        if sources.name is not None:
            options["name"] = sources.name
        _add(servers, await _read(sources.command, options, sources.headers))
    _refuse_doubles(specs, servers)
    return ToolPins(pin_program(specs), servers)


def _own_specs(sources: PinSources) -> tuple[list[ToolSpec], list[ServerEntry]]:
    """Return the tools of programs, and the servers that configurations name."""
    specs: list[ToolSpec] = []
    entries: list[ServerEntry] = []
    for target in sources.targets:
        loaded = load(target)
        specs += loaded.host.tools.specs
        entries += () if loaded.configuration is None else loaded.configuration.servers
    host = ComponentHost()
    for component in find_components(sources.tools, None):
        component.setup(host)
    return _unique([*specs, *host.tools.specs]), entries


def _unique(specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    by_name: dict[str, ToolSpec] = {}
    for spec in specs:
        if by_name.setdefault(spec.name, spec) != spec:
            raise UsageError(f"two tools are called {spec.name!r}; pin their programs apart")
    return list(by_name.values())


def _refuse_doubles(specs: Iterable[ToolSpec], servers: dict[str, PinnedServer]) -> None:
    """Raise `UsageError` if a program and a server have a tool of the same name."""
    for spec in specs:
        for name, server in servers.items():
            if spec.name in server.tools:
                both = f"this program and server {name!r} both have a tool {spec.name!r}"
                raise UsageError(f"{both}; give the server a name of its own as a [[server]]")


def _add(servers: dict[str, PinnedServer], surface: ServerSurface) -> None:
    if surface.label in servers:
        reason = f"two servers are called {surface.label!r}"
        raise UsageError(f"{reason}; name them, as [[server]] in a toolbus.toml")
    servers[surface.label] = PinnedServer(
        {spec.name: pin_tool(spec) for spec in surface.tools},
        {prompt["name"]: pin_prompt(prompt["name"], prompt) for prompt in surface.prompts},
        pin_instructions(surface.instructions),
    )


async def _read_entry(entry: ServerEntry) -> ServerSurface:
    from toolbus.mcp.group.configured import settings_of  # noqa: PLC0415 - loads the proxy

    settings = settings_of(entry)
    options: McpOptions = {"name": entry.name, "prefix": f"{entry.name}_"}
    if entry.url is not None:
        return await _read([entry.url], options, settings.headers)
    return await _read(settings.command, {**options, "env": settings.env}, ())


async def _read(
    words: Sequence[str], options: McpOptions, headers: Iterable[tuple[str, str]]
) -> ServerSurface:
    name, *rest = words
    try:
        from toolbus.mcp.client.surfaces import read_surface  # noqa: PLC0415 - it needs an extra

        if name.lower().startswith(_ADDRESS):
            options["headers"] = dict(headers)
            options.pop("env", None)
            return await read_surface(name, rest, **options)
        with relay_lines(Output(sys.stderr)) as options["stderr"]:
            return await read_surface(name, rest, **options)
    except (ImportError, RegistrationError) as error:
        raise UsageError(str(error)) from error


def nearest_lock(lock: str | None, targets: Sequence[str], name: str) -> Path:
    """Return the file *lock*, else *name* beside the first configuration, else here."""
    if lock is not None:
        return Path(lock).expanduser()
    configurations = [target for target in targets if target.endswith(".toml")]
    folder = Path(configurations[0]).expanduser().parent if configurations else Path()
    return folder / name
