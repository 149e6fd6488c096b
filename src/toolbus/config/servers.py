"""What a configuration says of MCP servers: behind one proxy, or for an agent.

[[server]]
name = "files"                  # its tools are called files_read, files_write, …
command = "npx"
args = ["-y", "@scope/server", "."]
env = { LEVEL = "3", KEY = "env:FILES_KEY" }   # besides HOME, LOGNAME, PATH, SHELL, TERM, USER

[[server]]
name = "wiki"
url = "https://example.com/mcp"
headers = { Authorization = "Bearer env:WIKI_TOKEN" }   # from a variable of the environment
enabled = false
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.settings.hints import unknown_key
from toolbus.toml.values import MisfitError, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.config.documents import Document

SERVERS = "server"
_KINDS: dict[str, Any] = {
    "name": str,
    "command": str,
    "args": tuple[str, ...],
    "env": dict[str, str],
    "url": str,
    "headers": dict[str, str],
    "enabled": bool,
}
_NAME = re.compile(r"[A-Za-z0-9-]{1,32}")


class ServerEntry(Struct, frozen=True, kw_only=True):
    """One `[[server]]`: a *command* with its words and what it adds to the environment, or a *url*.

    *where* is "file:line".
    """

    name: str
    where: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}


def read_servers(document: Document, before: Sequence[ServerEntry] = ()) -> tuple[ServerEntry, ...]:
    """Return the servers of *document* that are enabled; *before* has those of other files.

    Raises `ConfigurationError`.
    """
    tables = document.table.get(SERVERS, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise document.error(f"{SERVERS!r} is no array of tables; write [[{SERVERS}]]", SERVERS)
    entries: dict[str, ServerEntry] = {}
    others = {entry.name.lower(): entry for entry in before}
    for index, table in enumerate(tables):
        entry = _entry(document, index, table)
        key = entry.name.lower()
        if (other := entries.get(key) or others.get(key)) is not None:
            reason = f"two servers are called {entry.name!r}, the other at {other.where}"
            raise document.error(f"{reason}; rename one", SERVERS, index, "name")
        entries[key] = entry
    disabled = {str(table["name"]).lower() for table in tables if table.get("enabled") is False}
    return tuple([entry for key, entry in entries.items() if key not in disabled])


def _entry(document: Document, index: int, table: dict[str, Any]) -> ServerEntry:
    values = {key: _value(document, index, key, value) for key, value in table.items()}
    name, command, url = values.get("name", ""), values.get("command"), values.get("url")
    if not _NAME.fullmatch(name):
        # The first "_" of a tool's name ends the server's, so no two can make the same name.
        reason = f"a server needs a `name` of at most 32 letters, digits and hyphens, not {name!r}"
        raise document.error(reason, SERVERS, index, "name")
    if bool(command) == bool(url):
        reason = f"server {name!r} needs a `command` or a `url`, and not both"
        raise document.error(reason, SERVERS, index)
    for key in ("headers",) if command else ("args", "env"):
        if key in values:
            other = "a server at an address" if command else "a command"
            raise document.error(f"key {key!r} is for {other}; leave it out", SERVERS, index, key)
    return ServerEntry(
        name=name,
        where=f"{document.file.resolve()}:{document.lines[SERVERS, index]}",
        command=(command, *values.get("args", ())) if command else (),
        env=values.get("env", {}),
        url=url,
        headers=values.get("headers", {}),
    )


def _value(document: Document, index: int, key: str, value: object) -> Any:
    if key not in _KINDS:
        raise document.error(unknown_key(key, _KINDS), SERVERS, index, key)
    try:
        return fit(value, _KINDS[key], document.file.parent)
    except MisfitError as error:
        path = (SERVERS, index, key, *error.path)
        raise document.error(f"key {key!r}: {error.reason}", *path) from None
