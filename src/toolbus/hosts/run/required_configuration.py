"""The person's configuration that was in force at an installation: hooks stop without it."""

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
    """Return the named *config*, else the person's own, if it names components; else None.

    Hooks that are installed now stop every event once that file names none. A file that cannot be
    read counts: it stops every event already. A trusted project's file does not: its trust stops
    the events of that project when the file is changed or gone.
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
    """Return why every event is stopped, if *required* has no part in *configuration*; else "".

    *required* is what an installation recorded, *configuration* is in force.
    """
    if required is None:
        return ""
    configured = () if configuration is None else configuration.configured
    real = os.path.realpath(required)
    if any(each.entry.where.rpartition(":")[0] == real for each in configured):
        return ""
    change = "names no component now" if Path(required).is_file() else "is gone"
    reason = f"{required} was in force when the hooks were installed, and {change}"
    return f"{reason}; a person puts it back, or runs: toolbus setup"
