"""The `[[server]]` tables of a configuration: MCP servers for a proxy or an agent.

[[server]]
name = "files"                  # the prefix of its tools: files_read, files_write, …
command = "npx"
args = ["-y", "@scope/server", "."]
env = { LEVEL = "3", KEY = "env:FILES_KEY" }   # besides HOME, LOGNAME, PATH, SHELL, TERM, USER

[[server]]
name = "wiki"
url = "https://example.com/mcp"
headers = { Authorization = "Bearer env:WIKI_TOKEN" }   # from an environment variable
resources = ["wiki://*"]   # answered by this server if others list them too
enabled = false
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.config.tables import SERVER, ServerTable, read_array, read_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.config.documents import Document

_NAME = re.compile(r"[A-Za-z0-9-]{1,32}")


class ServerEntry(Struct, frozen=True, kw_only=True):
    """One `[[server]]`: a *command* with its arguments and added environment, or a *url*.

    *resources* are globs of the addresses for this server, if further servers list them too.
    *where* is "file:line".
    """

    name: str
    where: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    resources: tuple[str, ...] = ()


def read_servers(document: Document, before: Sequence[ServerEntry] = ()) -> tuple[ServerEntry, ...]:
    """Return the enabled servers of *document*; *before* has the servers of earlier files.

    Raises `ConfigurationError`.
    """
    tables = read_array(document, SERVER)
    entries: dict[str, ServerEntry] = {}
    others = {entry.name.lower(): entry for entry in before}
    for index, table in enumerate(tables):
        entry = _entry(document, index, table)
        key = entry.name.lower()
        if (other := entries.get(key) or others.get(key)) is not None:
            reason = f"two servers are called {entry.name!r}, the other at {other.where}"
            raise document.error(f"{reason}; rename one", SERVER, index, "name")
        entries[key] = entry
    disabled = {str(table["name"]).lower() for table in tables if table.get("enabled") is False}
    return tuple([entry for key, entry in entries.items() if key not in disabled])


def _entry(document: Document, index: int, table: dict[str, Any]) -> ServerEntry:
    values = read_values(document, ServerTable, table, SERVER, index)
    name, command, url = values.get("name", ""), values.get("command"), values.get("url")
    if not _NAME.fullmatch(name):
        # Without "_" in it the name ends at a tool's first "_": no two servers can share a prefix.
        reason = f"a server needs a `name` of at most 32 letters, digits and hyphens, got {name!r}"
        raise document.error(reason, SERVER, index, "name")
    if bool(command) == bool(url):
        reason = f"server {name!r} needs a `command` or a `url`, and not both"
        raise document.error(reason, SERVER, index)
    for key in ("headers",) if command else ("args", "env"):
        if key in values:
            other = "a remote server" if command else "a command"
            raise document.error(f"key {key!r} is for {other}; leave it out", SERVER, index, key)
    return ServerEntry(
        name=name,
        where=f"{document.file.resolve()}:{document.lines[SERVER, index]}",
        command=(command, *values.get("args", ())) if command else (),
        env=values.get("env", {}),
        url=url,
        headers=values.get("headers", {}),
        resources=tuple(values.get("resources", ())),
    )
