"""The user's folders for files of toolbus, by the XDG Base Directory Specification.

The specification demands that a variable with a relative path is ignored.
"""

from __future__ import annotations

import os
from pathlib import Path


def config_folder() -> Path | None:
    """Return the real path of the user's configuration folder, which may not exist.

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
    """Return the file of the key for digests of hidden values; raises as `state_folder`.

    It is outside any store, so that a copy of a store does not reveal the key.
    """
    return state_folder() / "hidden-values.key"


def approvals_secret() -> Path:
    """Return the file of the secret that signs answers; raises as `state_folder`."""
    folder = config_folder()
    if folder is None:
        raise RuntimeError("there is no home folder for the secret of approvals")
    return folder / "approvals.secret"


def _base(variable: str, default: str) -> Path:
    base = os.environ.get(variable, "")
    return Path(base) if base.startswith("/") else Path.home() / default
