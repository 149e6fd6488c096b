"""What was installed where, and what stood there before: for taking it out byte for byte."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolbus.settings.private_files import write_private
from toolbus.settings.user_folders import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


class RecordedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was edited.

    Args:
        digest: SHA-256 of what was written, in hex.
        before: the name of the copy of what stood there, without anything of ours; None: nothing.
    """

    digest: str
    before: str | None = None


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


def read_records() -> Iterator[InstallRecord]:
    """Yield all that was installed."""
    with suppress(RuntimeError):
        for file in sorted((hooks_folder() / "records").glob("*/record.json")):
            if (record := _decode(file)) is not None:
                yield record


def copy_of(record: InstallRecord, path: Path) -> Path | None:
    """Return the copy of what stood at *path* before, None if nothing did."""
    before = record.files[str(path)].before
    folder = _record_folder(record.host, Path(record.project) if record.project else None)
    return None if before is None else folder / before


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of *data*, in hex."""
    return sha256(data).hexdigest()


def keep_copy(host: str, project: Path | None, number: int, data: bytes) -> str:
    """Write what stood in the file of that *number*, for its owner alone; return the copy's name.

    It has the digest in its name: an older copy that a record still names is not overwritten.
    """
    name = f"{number}-{digest_of(data)[:12]}.before"
    write_private(_record_folder(host, project) / name, data)
    return name


def write_record(record: InstallRecord) -> None:
    """Write *record* in the place of the one before, and remove copies that it does not name."""
    folder = _record_folder(record.host, Path(record.project) if record.project else None)
    data = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    write_private(folder / "record.json", data)
    names = {each.before for each in record.files.values()}
    for copy in folder.glob("*.before"):
        if copy.name not in names:
            copy.unlink()


def remove_record(host: str, project: Path | None) -> None:
    """Remove the record and its copies."""
    folder = _record_folder(host, project)
    for file in [*folder.glob("*.before"), folder / "record.json"]:
        file.unlink(missing_ok=True)
    for each in (folder, folder.parent):
        with suppress(OSError):
            each.rmdir()


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
