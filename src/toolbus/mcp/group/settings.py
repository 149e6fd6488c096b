"""The settings of a group's servers, read from a configuration and validated."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.config.documents import read_document
from toolbus.config.servers import read_servers
from toolbus.http.urls import read_url
from toolbus.mcp.transport.extra_headers import read_headers
from toolbus.mcp.transport.launch import INHERITED, LISTEN_TOKEN, TOKEN
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from urllib.parse import SplitResult

    from toolbus.config.servers import ServerEntry

_REFERENCE = "env:"
_AMBIENT = re.compile(
    "_|[A-Z_]*PWD|SHLVL|LANG(UAGE)?|LC_.*|TZ|XDG_.*|DISPLAY|WAYLAND_DISPLAY|DBUS_.*|SSH_.*|GPG_.*"
    "|HOST(NAME)?|MAIL|EDITOR|VISUAL|PAGER|LESS.*|LS_COLORS|COLORTERM|TERM_.*|WINDOWID|HIST.*|TMUX.*"
    "|VIRTUAL_ENV.*|PS[0-4]|TOOLBUS_.*"
)
"""Variables of a user's terminal and desktop, which do not configure servers."""


class ServerSettings(NamedTuple):
    """A server of a group: a *command* with additions to its environment, or a *url*.

    The names of *headers* are in lower case. *resources* are globs of the addresses for this
    server alone, if further servers list them too.
    """

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: SplitResult | None = None
    headers: tuple[tuple[str, str], ...] = ()
    resources: tuple[str, ...] = ()


def read_settings(config: str | None) -> tuple[ServerSettings, ...]:
    """Return the servers in the file *config*.

    Raises `ConfigurationError`, and `UsageError` for an invalid URL or header.
    """
    if config is None:
        return ()
    entries = read_servers(read_document(Path(config).expanduser()))
    return tuple([settings_of(entry) for entry in entries])


def settings_of(entry: ServerEntry) -> ServerSettings:
    """Return the settings of *entry*; raises `UsageError` with its place in the file."""
    try:
        if entry.url is None:
            env = _environment_of(entry)
            return ServerSettings(entry.name, entry.command, env, resources=entry.resources)
        words = [f"{name}: {value}" for name, value in entry.headers.items()]
        headers = read_headers(words, os.environ)
        url = _url_of(entry.url)
        return ServerSettings(entry.name, url=url, headers=headers, resources=entry.resources)
    except UsageError as error:
        raise UsageError(f"{entry.where}: server {entry.name!r}: {error}") from None


def _url_of(text: str) -> SplitResult:
    if (url := read_url(text)) is None:
        raise UsageError(f"expected an http or https URL, got {text!r}")
    return url


def _environment_of(entry: ServerEntry) -> dict[str, str]:
    """Return the `env` of *entry*, with the values of referenced variables (`env:VARIABLE`)."""
    env = dict(entry.env)
    for name, value in env.items():
        if value.startswith(_REFERENCE):
            variable = value.removeprefix(_REFERENCE)
            if variable not in os.environ:
                problem = f"{variable!r} is not set in the environment; set it"
                raise UsageError(f"env {name!r}: {problem}")
            env[name] = os.environ[variable]
    return env


def left_out(servers: Sequence[ServerSettings]) -> str | None:
    """Return a note on variables that are not passed to the commands of *servers*, or None."""
    commands = [server for server in servers if server.url is None]
    named = {name for server in commands for name in server.env}
    passed = {*INHERITED, TOKEN, LISTEN_TOKEN, *named}
    missing = sorted(
        name for name in os.environ if name not in passed and not _AMBIENT.fullmatch(name)
    )
    if not (commands and missing):
        return None
    names = "server" if len(commands) == 1 else "servers"
    names += " " + ", ".join([repr(server.name) for server in commands])
    return (
        f"{names}: started with {', '.join(INHERITED)} and the `env` of the [[server]] table;"
        f" not passed on: {', '.join(missing)};"
        ' to pass a variable on, add env = { NAME = "env:NAME" }'
    )
