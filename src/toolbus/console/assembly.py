"""What the options of a run name: a model, components, MCP servers, a session."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.config import configuration
from toolbus.config.making import make_component
from toolbus.config.offers import find_maker
from toolbus.console.side_output import relay_lines
from toolbus.errors import DecodeError, RegistrationError
from toolbus.inspect.lookup import find_session
from toolbus.models.naming import model_named
from toolbus.models.replay import ReplayModel
from toolbus.settings.values import MisfitError
from toolbus.store.archive import Archive
from toolbus.terminal.files import worded
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AsyncExitStack

    from toolbus.components.components import AgentComponent
    from toolbus.mcp.client import McpOptions
    from toolbus.models.protocol import Model
    from toolbus.terminal.output import Output
    from toolbus.tools.toolset import Toolset

_RECORDED = "replay:"
_WORKSPACE = {
    "files": "toolbus.workspace.file_tools:FileTools",
    "shell": "toolbus.workspace.shell_tool:ShellTool",
}
"""Names that no other package takes over."""


def find_model(name: str) -> Model:
    """Return the model *name*, or one that plays a file; raises `UsageError`."""
    try:
        if name.startswith(_RECORDED):
            return ReplayModel.from_file(name.removeprefix(_RECORDED))
        return model_named(name)
    except OSError as error:
        raise UsageError(f"--model {name!r}: {worded(error)}") from error
    except (RegistrationError, DecodeError, ImportError) as error:
        raise UsageError(str(error)) from error


def find_components(tools: Iterable[str], config: str | None) -> list[AgentComponent]:
    """Return those of the configuration, and behind them those that *tools* names.

    What the configuration has already, with its settings, is not made again. Raises `UsageError`
    and what `toolbus.config` raises.
    """
    read = configuration.read_nearest() if config is None else configuration.read(config)
    components = [] if read is None else list(read.components)
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
    opened: AsyncExitStack, servers: Iterable[str], side: Output
) -> list[Toolset]:
    """Connect to MCP *servers*, commands or addresses; what commands complain of goes to *side*.

    Raises `UsageError` and `ToolServerError`.
    """
    toolsets: list[Toolset] = []
    for server in servers:
        try:
            from toolbus.mcp.client import tools  # noqa: PLC0415 - it needs an extra

            name, *words = _words(server)
            options: McpOptions = {}
            if not name.lower().startswith(("http://", "https://")):
                options["stderr"] = opened.enter_context(relay_lines(side))
            made = tools(name, words, **options)
            toolsets.append(await opened.enter_async_context(made))
        except (ImportError, RegistrationError) as error:
            raise UsageError(str(error)) from error
    return toolsets


def _words(server: str) -> Sequence[str]:
    try:
        words = shlex.split(server)
    except ValueError as error:
        raise UsageError(f"--mcp {server!r}: {str(error).lower()}") from error
    if not words:
        raise UsageError("--mcp is empty; give a command or an address")
    return words


def find_session_id(store: str | None, resume: str | None) -> str | None:
    """Return the session of *store* to go on with, None for a fresh one; raises `UsageError`.

    An empty *resume* means the session that was written to last, and no one of a sub-agent.
    """
    if resume is None:
        return None
    if store is None:
        raise UsageError("--resume needs the store; add --store FILE")
    with Archive(store) as archive:
        if resume:
            return find_session(archive, resume).id
        latest = max(
            (session for session in archive.sessions() if "/" not in session.id),
            key=lambda session: session.updated_ns,
            default=None,
        )
    if latest is None:
        raise UsageError(f"{store!r} has no session to resume; leave out --resume")
    return latest.id
