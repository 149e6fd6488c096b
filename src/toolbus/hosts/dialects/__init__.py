"""The dialects of the hosts by name; each is imported on first use."""

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
    """Return the error for an unknown host *name*, with a hint; *known* are the hosts."""
    if name == "docker-gateway":
        way_out = ": put the proxy before the gateway's command; see: toolbus guide mcp"
    else:
        way_out = nearest(name, known) or f"; known: {', '.join(known)}"
    return LoadError(f"no host named {name!r}{way_out}")


def dialect(name: str) -> HostDialect:
    """Return the dialect of the host *name*; raises `LoadError` for an unknown host."""
    if name not in _CLASSES:
        raise no_such_host(name, DIALECTS)
    module, kind = _CLASSES[name]
    made: HostDialect = getattr(import_module(f"toolbus.hosts.dialects.{module}"), kind)()
    return made
