"""Models, components, MCP servers and sessions by the options of commands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.cli.output.deferred_output import relay_lines
from toolbus.config.entry_points import find_maker
from toolbus.config.factory import make_component
from toolbus.config.prices import find_price, make_price
from toolbus.errors import DecodeError, RegistrationError, StoreError, ToolServerError
from toolbus.history.lookup import find_session
from toolbus.models.names import model_named
from toolbus.providers.replay import ReplayModel
from toolbus.settings.files import format_os_error
from toolbus.settings.hints import nearest
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AsyncExitStack

    from toolbus.cli.output.stream import Output
    from toolbus.components.components import AgentComponent
    from toolbus.config.configuration import Configuration
    from toolbus.config.prices import Price
    from toolbus.config.servers import ServerEntry
    from toolbus.mcp.client import McpOptions
    from toolbus.models.protocol import Model
    from toolbus.tools.toolset import Toolset

_RECORDED = "replay:"
_WORKSPACE = {
    "files": "toolbus.workspace.file_tools:FileTools",
    "shell": "toolbus.workspace.shell_tool:ShellTool",
}
"""Names that no other package can take over."""


def find_model(name: str, base_url: str | None = None, key_env: str | None = None) -> Model:
    """Return the model *name*, or one that replays a file; raises `UsageError`.

    A model at a *base_url* gets only the key in the variable *key_env*.
    """
    try:
        if name.startswith(_RECORDED):
            if base_url or key_env:
                raise UsageError("a recording has no address and no key; leave them out")
            return _recorded(name.removeprefix(_RECORDED))
        return model_named(name, base_url=base_url, key_env=key_env)
    except OSError as error:
        raise UsageError(f"--model {name!r}: {format_os_error(error)}") from error
    except RegistrationError as error:
        way_out = nearest(name.partition(":")[0], [_RECORDED[:-1]])
        raise UsageError(f"{error}{way_out}") from error
    except (DecodeError, StoreError, ImportError) as error:
        raise UsageError(str(error)) from error


def _recorded(place: str) -> ReplayModel:
    """Return a model that replays the file or store *place*, or its session after a `#`."""
    file, mark, session = place.rpartition("#")
    if mark and not Path(place).exists():
        return ReplayModel.from_file(file, session=session)
    return ReplayModel.from_file(place)


def find_components(tools: Iterable[str], config: Configuration | None) -> list[AgentComponent]:
    """Return the components of *config*, and after them those of the names *tools*.

    A component of the configuration, with its settings, is not made again. Raises `UsageError`
    and `LoadError`.
    """
    components = [] if config is None else list(config.components)
    folder = Path.cwd()
    for name in dict.fromkeys(tools):
        maker = find_maker(_WORKSPACE.get(name, name), folder)
        if isinstance(maker, type) and any(type(each) is maker for each in components):
            continue
        try:
            components.append(make_component(maker, {}, folder))
        except MisfitError as error:
            raise UsageError(f"--tools {name}: {error.reason}") from error
    return components


async def open_servers(
    opened: AsyncExitStack,
    servers: Iterable[str],
    entries: Iterable[ServerEntry],
    side: Output,
) -> list[Toolset]:
    """Connect to the MCP *servers*, commands or URLs, and to those of *entries*.

    The standard error of commands goes to *side*. Raises `UsageError` and `ToolServerError`; the
    error of an entry names its place.
    """
    toolsets = [await _open(opened, side, server_words(server), {}) for server in servers]
    for entry in entries:
        try:
            toolsets.append(await _open(opened, side, *entry_address(entry)))
        except ToolServerError as error:
            where = f"{entry.where}: server {entry.name!r}"
            raise ToolServerError(where, error.reason, error.kind) from error
    return toolsets


async def _open(
    opened: AsyncExitStack, side: Output, words: Sequence[str], options: McpOptions
) -> Toolset:
    name, *rest = words
    try:
        from toolbus.mcp.client import tools  # noqa: PLC0415 - it needs an extra

        if not is_url(name):
            options["stderr"] = opened.enter_context(relay_lines(side))
        made = tools(name, rest, **options)
        return await opened.enter_async_context(made)
    except ImportError as error:
        raise UsageError(str(error)) from error


def entry_address(entry: ServerEntry) -> tuple[Sequence[str], McpOptions]:
    """Return the command or URL of *entry*, and options that prefix its tools with its name."""
    from toolbus.mcp.group.settings import settings_of  # noqa: PLC0415 - loads the proxy

    settings = settings_of(entry)
    options: McpOptions = {"name": entry.name, "prefix": f"{entry.name}_"}
    if entry.url is not None:
        return [entry.url], {**options, "headers": dict(settings.headers)}
    return settings.command, {**options, "env": settings.env}


def is_url(server: str) -> bool:
    """Return whether *server* is the URL of a remote server, not a command."""
    return server.lower().startswith(("http://", "https://"))


def split_names(options: Iterable[str]) -> list[str]:
    """Return the names in the values of a repeated option, each with commas."""
    return [name for names in options for name in names.split(",") if name]


def server_words(server: str) -> Sequence[str]:
    """Return the words of a `--mcp` option; raises `UsageError`."""
    try:
        words = shlex.split(server)
    except ValueError as error:
        raise UsageError(f"--mcp {server!r}: {str(error).lower()}") from error
    if not words:
        raise UsageError("--mcp is empty; give a command or an address")
    return words


def find_model_price(words: str | None, config: Configuration | None, model: str) -> Price | None:
    """Return the price of *model* in *words*, `input=3,output=15`, else in *config*; or None.

    Raises `UsageError`.
    """
    if words is None:
        return None if config is None else find_price(config.prices, model)
    values: dict[str, Any] = {}
    for word in words.split(","):
        key, equals, value = word.strip().partition("=")
        if not equals or key == "model":
            raise UsageError(f"--price expects input=NUMBER,output=NUMBER, not {word!r}")
        try:
            values[key] = value if key == "currency" else float(value)
        except ValueError:
            raise UsageError(f"--price {key!r}: expected a number, not {value!r}") from None
    try:
        return make_price(values)
    except MisfitError as error:
        raise UsageError(f"--price: {error.reason}") from None


def find_session_id(store: str | None, resume: str | None) -> str | None:
    """Return the session of *store* to continue, None for a new one; raises `UsageError`.

    An empty *resume* means the session written to last, of any agent but a sub-agent.
    """
    if resume is None:
        return None
    if store is None:
        raise UsageError("--resume needs the store; add --store STORE")
    with open_reader(store) as reader:
        if resume:
            return find_session(reader, resume).id
        latest = max(
            (each for each in reader.sessions() if each.has_entries and "/" not in each.id),
            key=lambda session: session.updated_ns,
            default=None,
        )
    if latest is None:
        raise UsageError(f"{store!r} has no session to resume; leave out --resume")
    return latest.id
