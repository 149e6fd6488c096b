"""The folder of an installation, and the record of the edited files' previous state in it."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from toolbus.settings.user_folders import state_folder

if TYPE_CHECKING:
    from pathlib import Path

RECORD = "record.json"


class RecordedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a file before it was edited.

    Args:
        existed: whether the file existed.
        blank: its whole text, if it existed and was blank.
        parts: the texts of added parts that existed before, by their paths in the JSON: empty
            objects and arrays, which stay, and variables, which are not ours.
    """

    existed: bool = False
    blank: str | None = None
    parts: dict[str, str] = {}  # msgspec makes a new one each time.


class InstallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The edited *files* by path, and the created *folders*, outermost first."""

    files: dict[str, RecordedFile] = {}
    folders: tuple[str, ...] = ()


def install_folder(host: str, project: Path | None) -> Path:
    """Return the folder of the installation for *host*, of the user or of *project*.

    It has the client, its settings and the record. Raises `RuntimeError` without a home folder.
    """
    owner = "user"
    if project is not None:
        owner = f"project-{sha256(os.fsencode(project)).hexdigest()[:12]}"
    return state_folder() / "hooks" / f"{host}.{owner}"


def read_record(folder: Path) -> InstallRecord | None:
    """Return the record in *folder*; None if it is missing or unreadable."""
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=InstallRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
