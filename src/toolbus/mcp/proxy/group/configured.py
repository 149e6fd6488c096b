"""The servers of a group as a configuration names them, checked before any of them starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.config.documents import read_document
from toolbus.config.servers import read_servers
from toolbus.mcp.proxy.addresses import read_url
from toolbus.mcp.proxy.extra_headers import read_headers
from toolbus.mcp.proxy.group.grouped_server import ServerSettings
from toolbus.terminal.screen import UsageError

if TYPE_CHECKING:
    from toolbus.config.servers import ServerEntry


def read_settings(config: str | None) -> tuple[ServerSettings, ...]:
    """Return the servers that the file *config* names.

    Raises `ConfigurationError`, and `UsageError` for an address or a header that is none.
    """
    if config is None:
        return ()
    entries = read_servers(read_document(Path(config).expanduser()))
    return tuple([settings_of(entry) for entry in entries])


def settings_of(entry: ServerEntry) -> ServerSettings:
    """Return how to reach the server of *entry*; raises `UsageError`, which says where it is."""
    if entry.url is None:
        return ServerSettings(entry.name, entry.command, entry.env)
    if (url := read_url(entry.url)) is None:
        reason = f"expected an address of http or https, not {entry.url!r}"
        raise UsageError(f"{entry.where}: server {entry.name!r}: {reason}")
    try:
        words = [f"{name}: {value}" for name, value in entry.headers.items()]
        return ServerSettings(entry.name, url=url, headers=read_headers(words, os.environ))
    except UsageError as error:
        raise UsageError(f"{entry.where}: server {entry.name!r}: {error}") from None
