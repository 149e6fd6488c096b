"""The word `hooks`: a name for the store of coding agents' sessions, so that no path is typed."""

from __future__ import annotations

from pathlib import Path

from toolbus.terminal.screen import UsageError

HOOKS = "hooks"
"""In the place of a store, unless a file here has that name."""


def store_address(named: str | None) -> str:
    """Return the address that *named* stands for, without one that of the hooks' store.

    Raises `UsageError` if no hook has written that store yet.
    """
    if named is not None and (named != HOOKS or Path(named).exists()):
        return named
    from toolbus.hosts.run.hook_settings import default_store  # noqa: PLC0415 - for few

    try:
        path = default_store()
    except RuntimeError as error:
        raise UsageError(f"{error}; name a store") from error
    if not path.exists():
        raise UsageError(
            f"no hook of a coding agent has run: there is no {str(path)!r}; name a store"
        )
    return str(path)
