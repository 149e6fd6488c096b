"""The folder of an installation, and the record in it: what removal cannot see in a file."""

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
    """A file before it was edited.

    Args:
        existed: whether it was there.
        blank: all of its text, if it was there and held blanks at most.
        parts: by path in its JSON the text of what was there of the parts that were added: empty
            objects and arrays, which stay, and variables, which are not ours.
    """

    existed: bool = False
    blank: str | None = None
    parts: dict[str, str] = {}  # msgspec makes a new one each time.


class InstallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The *files* that were edited, by path, and the *folders* that were made, outermost first."""

    files: dict[str, RecordedFile] = {}
    folders: tuple[str, ...] = ()


def install_folder(host: str, project: Path | None) -> Path:
    """Return the folder of ours for *host*, the user's or that for *project*.

    It has the client, its settings and the record. Raises `RuntimeError` without a home folder.
    """
    owner = "user"
    if project is not None:
        owner = f"project-{sha256(os.fsencode(project)).hexdigest()[:12]}"
    return state_folder() / "hooks" / f"{host}.{owner}"


def read_record(folder: Path) -> InstallRecord | None:
    """Return the record in *folder*; None if there is none, or it cannot be read."""
    try:
        return msgspec.json.decode((folder / RECORD).read_bytes(), type=InstallRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
