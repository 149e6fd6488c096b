"""Records of installations: where, and what removal needs to give each file back as it was."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from toolbus.settings.private_files import write_private
from toolbus.settings.user_folders import state_folder


class RecordedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What removal has to know of a file before it was edited, and cannot see in it.

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
    """An installation for a host.

    Args:
        host: the dialect's name.
        project: the folder of the project, None for the user's own.
        script: the client that its commands run.
        config: the configuration that was named.
        files: what was edited, by path.
        folders: folders that were made for that, the outermost first.
    """

    host: str
    project: str | None
    script: str
    config: str | None = None
    files: dict[str, RecordedFile] = {}  # msgspec makes a new one each time.
    folders: tuple[str, ...] = ()


def hooks_folder() -> Path:
    """Return the folder of all clients and records; raises `RuntimeError` without a home folder."""
    return state_folder() / "hooks"


def client_folder(project: Path | None, config: str | None) -> Path:
    """Return where the client for hooks of the user or of *project* stands, under *config*."""
    return hooks_folder() / (_owner(project) + (f"-{_short(config)}" if config else ""))


def read_record(host: str, project: Path | None) -> InstallRecord | None:
    """Return what was installed for *host*; None if nothing was, or nobody can read it."""
    return _decode(_record_folder(host, project) / "record.json")


def write_record(record: InstallRecord) -> None:
    """Write *record* in the place of the one before."""
    folder = _record_folder(record.host, Path(record.project) if record.project else None)
    data = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    write_private(folder / "record.json", data)


def remove_record(host: str, project: Path | None) -> None:
    """Remove the record, and copies of files that an older toolbus kept beside it."""
    folder = _record_folder(host, project)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def _record_folder(host: str, project: Path | None) -> Path:
    return hooks_folder() / "records" / f"{host}.{_owner(project)}"


def _owner(project: Path | None) -> str:
    return "user" if project is None else f"project-{_short(str(project))}"


def _short(text: str) -> str:
    return sha256(os.fsencode(text)).hexdigest()[:12]


def _decode(file: Path) -> InstallRecord | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=InstallRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
