"""The dialects by the names of their hosts; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from toolbus.errors import LoadError
from toolbus.settings.hints import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

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


DIALECTS = tuple(_CLASSES)
"""The names of the hosts."""


def no_such_host(name: str, known: Iterable[str]) -> LoadError:
    """Return the error for a *name* that is not among the *known* hosts, with the way out."""
    if name == "docker-gateway":
        way_out = ": put the proxy before the gateway's command; see: toolbus guide mcp"
    else:
        way_out = nearest(name, known) or f"; known: {', '.join(known)}"
    return LoadError(f"no host named {name!r}{way_out}")


def dialect(name: str) -> HostDialect:
    """Return the dialect of the host *name*; raises `LoadError` if there is none."""
    if name not in _CLASSES:
        raise no_such_host(name, DIALECTS)
    module, kind = _CLASSES[name]
    made: HostDialect = getattr(import_module(f"toolbus.hosts.dialects.{module}"), kind)()
    return made
