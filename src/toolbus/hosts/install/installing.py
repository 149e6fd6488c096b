"""Write what was planned: all of it, or nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.errors import ConfigurationError
from toolbus.hosts.install.install_records import (
    InstallRecord,
    RecordedFile,
    digest_of,
    keep_copy,
    read_record,
    remove_record,
    write_record,
)
from toolbus.hosts.install.installation import client_files, remove_client, write_client
from toolbus.hosts.install.settings_files import read_settings, replace_settings
from toolbus.settings.private_files import make_private_folders

if TYPE_CHECKING:
    from toolbus.hosts.install.install_plans import InstallPlan, SettingsEdit


def needs_client(plan: InstallPlan) -> bool:
    """Tell whether the client is to be written, or removed, whatever becomes of the files."""
    folder = plan.script.parent
    if plan.settings is None:
        is_there = (folder / f"{plan.host}.blocks").exists()
        return is_there or read_record(plan.host, plan.project) is not None
    files = client_files(plan.settings, plan.host, plan.blocks)
    return any(_bytes_of(folder / name) != data for name, data in files.items())


def apply_plan(plan: InstallPlan) -> None:
    """Write what *plan* says; raises `ConfigurationError` where a file changed since it was read.

    The client comes before the commands that run it, and goes after them.
    """
    record = read_record(plan.host, plan.project)
    if plan.settings is None:
        _write_edits(plan.edits)
        remove_client(plan.script.parent, plan.host)
        _remove_folders(record)
        remove_record(plan.host, plan.project)
        return
    make_private_folders(plan.script.parent)
    write_client(plan.script.parent, plan.settings, plan.host, plan.blocks)
    # Before the files are changed: who is killed in between finds what stood there.
    _write_record(plan, record)
    try:
        _write_edits(plan.edits)
    except BaseException:
        if record is None:
            remove_client(plan.script.parent, plan.host)
            remove_record(plan.host, plan.project)
        else:
            write_record(record)
        raise
    if record is not None and record.script != str(plan.script):
        remove_client(Path(record.script).parent, plan.host)


def _write_edits(edits: tuple[SettingsEdit, ...]) -> None:
    """Write all, or leave all as it was."""
    written: list[SettingsEdit] = []
    try:
        for edit in edits:
            if edit.is_change:
                replace_settings(edit.file, edit.after)
                written.append(edit)
    except BaseException:
        for edit in reversed(written):
            current = read_settings(edit.file.path)
            with suppress(ConfigurationError):
                replace_settings(current, edit.file.data)
        raise


def _write_record(plan: InstallPlan, record: InstallRecord | None) -> None:
    files = {}
    for number, edit in enumerate(plan.edits):
        copy = None
        if edit.before is not None:
            copy = keep_copy(plan.host, plan.project, number, edit.before)
        digest = digest_of(edit.after or b"")
        files[str(edit.file.path)] = RecordedFile(digest=digest, before=copy)
    made = () if record is None else record.folders
    missing = {
        str(each)
        for edit in plan.edits
        for each in edit.file.real.parents
        if edit.is_change and not each.exists()
    }
    write_record(
        InstallRecord(
            host=plan.host,
            project=None if plan.project is None else str(plan.project),
            script=str(plan.script),
            config=plan.config,
            files=files,
            folders=tuple(dict.fromkeys([*made, *sorted(missing, key=len)])),
        )
    )


def _remove_folders(record: InstallRecord | None) -> None:
    for folder in reversed(() if record is None else record.folders):
        with suppress(OSError):
            Path(folder).rmdir()  # Unless somebody keeps other things in it.


def _bytes_of(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
