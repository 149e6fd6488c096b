"""The user's own folders for what we keep, by the XDG Base Directory Specification.

A variable with a relative path does not count there.
"""

from __future__ import annotations

import os
from pathlib import Path


def config_folder() -> Path | None:
    """Return the folder of the user's configuration, by its real path, there or not.

    None: there is no home folder.
    """
    try:
        path = _base("XDG_CONFIG_HOME", ".config")
    except RuntimeError:
        return None
    return Path(os.path.realpath(path)) / "toolbus"


def state_folder() -> Path:
    """Return the folder of logins and the history; raises `RuntimeError` without a home folder."""
    return _base("XDG_STATE_HOME", ".local/state") / "toolbus"


def logins_folder() -> Path:
    """Return the folder of the tokens of logins; raises `RuntimeError` without a home folder."""
    return state_folder() / "logins"


def value_key_file() -> Path:
    """Return the file of the key by which hidden values are known again; raises as `state_folder`.

    It is no part of a store, so that a copy of one gives nothing away.
    """
    return state_folder() / "hidden-values.key"


def approvals_secret() -> Path:
    """Return the file of the secret by which answers are signed; raises as `state_folder`."""
    folder = config_folder()
    if folder is None:
        raise RuntimeError("there is no home folder for the secret of approvals")
    return folder / "approvals.secret"


def _base(variable: str, default: str) -> Path:
    base = os.environ.get(variable, "")
    return Path(base) if base.startswith("/") else Path.home() / default
