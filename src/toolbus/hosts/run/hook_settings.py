"""What an installation settled for its hook command; nothing of it comes from the environment."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from toolbus.settings.user_folders import state_folder

STORE = "hooks.db"
"""The file in `state_folder()` where all hosts' sessions are kept."""

LIMIT = 20.0
"""Seconds that an event may take: all hosts wait longer, the least of them 30 s."""


class HookSettings(Struct, frozen=True, kw_only=True):
    """How the events of a host's hooks are answered.

    Args:
        config: the configuration that was named; None: the user's own and, behind it, that of the
            project in which a session began, if it is trusted.
        store: the SQLite file of all sessions.
        limit: seconds that an event may take; then it is blocked.
        required: the configuration that was in force at the installation, if any: once it names no
            component, every event is blocked.
    """

    config: str | None = None
    store: Path
    limit: float = LIMIT
    required: str | None = None


def default_store() -> Path:
    """Return where sessions are kept by default; raises `RuntimeError` without a home folder."""
    return state_folder() / STORE
