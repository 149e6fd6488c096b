"""The dialects by the names of their hosts; each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from toolbus.errors import LoadError
from toolbus.settings.hints import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.hosts.dialects.host_dialect import HostDialect

_CLASSES = {
    "claude-code": ("claude_code", "ClaudeCodeDialect"),
    "codex": ("codex", "CodexDialect"),
    "copilot": ("copilot", "CopilotDialect"),
    "gemini-cli": ("gemini_cli", "GeminiCliDialect"),
    "vibe": ("vibe", "VibeDialect"),
    "opencode": ("bridges", "OpenCodeDialect"),
    "pi": ("bridges", "PiDialect"),
    "cursor": ("cursor", "CursorDialect"),
}


class DialectTable(Mapping[str, "HostDialect"]):
    """All dialects by name; an event of one host imports one of them."""

    def __getitem__(self, name: str) -> HostDialect:
        module, kind = _CLASSES[name]
        made: HostDialect = getattr(import_module(f"toolbus.hosts.dialects.{module}"), kind)()
        return made

    # Not what `Mapping` makes of the method above: to be asked for a name must import nothing.
    def __contains__(self, name: object) -> bool:
        return name in _CLASSES

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


DIALECTS = DialectTable()


def no_such_host(name: str, known: Iterable[str]) -> LoadError:
    """Return the error for a *name* that is not among the *known* hosts, with the way out."""
    if name == "docker-gateway":
        way_out = ": put the proxy before the gateway's command; see: toolbus guide mcp"
    else:
        way_out = nearest(name, known) or f"; known: {', '.join(known)}"
    return LoadError(f"no host named {name!r}{way_out}")


def dialect(name: str) -> HostDialect:
    """Return the dialect of the host *name*; raises `LoadError` if there is none."""
    if name not in DIALECTS:
        raise no_such_host(name, DIALECTS)
    return DIALECTS[name]
