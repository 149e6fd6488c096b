"""The user's configuration that was active at the installation: without it, hooks deny."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.config.documents import NAME
from toolbus.config.entries import read_entries
from toolbus.config.trust import read_owned
from toolbus.errors import ConfigurationError
from toolbus.settings.user_folders import config_folder

if TYPE_CHECKING:
    from toolbus.config.configuration import Configuration


def required_now(config: str | None) -> str | None:
    """Return *config*, else the user's own configuration, if it names components; else None.

    Hooks installed now block every event once that file names no component. An unreadable file
    counts, since it blocks every event already. A trusted project's file does not count: its trust
    blocks the project's events once the file is changed or removed.
    """
    folder = config_folder()
    file = config or (None if folder is None else str(folder / NAME))
    if file is None or not Path(file).is_file():
        return None
    try:
        entries = read_entries(read_owned(file))
    except ConfigurationError:
        return file
    return file if any(entry.enabled for entry in entries) else None


def missing_required(required: str | None, configuration: Configuration | None) -> str:
    """Return why every event is blocked, if *configuration* does not include *required*; else "".

    *required* was recorded by the installation, *configuration* is the active one.
    """
    if required is None:
        return ""
    configured = () if configuration is None else configuration.configured
    real = os.path.realpath(required)
    if any(each.entry.where.rpartition(":")[0] == real for each in configured):
        return ""
    change = "names no component now" if Path(required).is_file() else "is gone"
    reason = f"{required} was active when the hooks were installed, and {change}"
    return f"{reason}; a person must restore it, or run: toolbus setup"
