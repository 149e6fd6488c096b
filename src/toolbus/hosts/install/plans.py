"""The plan of an installation, or of its end: made first, then written as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.errors import ConfigurationError
from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.install.client_files import (
    SCRIPT,
    ClientSettings,
    client_files,
    client_settings,
    remove_client,
    write_client,
)
from toolbus.hosts.install.host_files import host_files
from toolbus.hosts.install.notes import install_notes
from toolbus.hosts.install.records import (
    InstallRecord,
    RecordedFile,
    client_folder,
    read_record,
    remove_record,
    write_record,
)
from toolbus.hosts.install.settings_files import SettingsFile, read_settings, replace_settings
from toolbus.hosts.install.targets import (
    OwnFile,
    blocks_of,
    codex_trust,
    install_target,
    removal_targets,
)
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.required_configuration import required_now
from toolbus.settings.private_files import make_private_folders

if TYPE_CHECKING:
    from toolbus.hosts.install.targets import EditTarget


class SettingsEdit(Struct, frozen=True, kw_only=True):
    """The change of a *file*: *after* is its new content; None: it goes.

    *before* is what removal has to know. *added* are the lines that are put in, none where
    something is only taken out; *summary* says them shorter, *is_program* that nobody reads them.
    """

    file: SettingsFile
    after: bytes | None
    before: RecordedFile = RecordedFile()
    added: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    is_program: bool = False

    @property
    def is_change(self) -> bool:
        """Whether anything of the file is to be written."""
        return self.after != self.file.data


class InstallPlan(Struct, frozen=True, kw_only=True):
    """The changes for a host; *edits* are written in that order.

    Args:
        host: the dialect's name.
        project: the project's folder, None for the user's own configuration.
        config: the configuration that is named to the client.
        script: the client.
        settings: what the client is given; None: it is to be removed.
        blocks: by event the answer that stops it when nothing of ours runs.
        edits: the host's files.
        notes: what the person has to know or to do besides.
    """

    host: str
    project: Path | None
    config: str | None
    script: Path
    settings: ClientSettings | None = None
    blocks: Mapping[str, HookAnswer] = {}
    edits: tuple[SettingsEdit, ...] = ()
    notes: tuple[str, ...] = ()


# --- planning ------------------------------------------------------------------------------------


def plan_install(
    host: str,
    project: Path | None = None,
    config: str | None = None,
    *,
    required: str | None = None,
) -> InstallPlan:
    """Return what an installation for *host* writes; nothing is written yet.

    *config* names a configuration that counts instead of those in force; *required* is one that is
    written before the plan, if it is not there yet. Raises `LoadError`, `UsageError` for an
    interpreter that cannot be named, `ConfigurationError` for a file that cannot be edited safely.
    """
    host_files(host)
    if config is not None:
        config = str(Path(config).expanduser().absolute())
        if not Path(config).is_file():
            raise ConfigurationError("there is no such file; write one, or name another", config)
    script = client_folder(project, config) / SCRIPT
    settings = client_settings(
        config,
        required=required or required_now(config) or _required_of_others(script.parent, host),
    )
    record = read_record(host, project)
    edits = [_plan_edit(install_target(host, project, script, settings.python), record, project)]
    if host == "codex":
        edits.append(_plan_trust(edits[0], record, project))
    return InstallPlan(
        host=host,
        project=project,
        config=config,
        script=script,
        settings=settings,
        blocks=blocks_of(host),
        edits=tuple(edits),
        notes=tuple(install_notes(host, project)),
    )


def plan_removal(host: str, project: Path | None = None) -> InstallPlan:
    """Return what is written to take all of ours out again; raises as `plan_install`."""
    host_files(host)
    record = read_record(host, project)
    return InstallPlan(
        host=host,
        project=project,
        config=None if record is None else record.config,
        script=Path(record.script) if record else client_folder(project, None) / SCRIPT,
        edits=tuple([_plan_end(each, record, project) for each in removal_targets(host, project)]),
    )


def _plan_edit(
    target: EditTarget, record: InstallRecord | None, project: Path | None
) -> SettingsEdit:
    """Return the edit that puts *target* in the place of an older installation's part."""
    end = _plan_end(target, record, project)
    before = None if end.after is None else end.after.decode()
    edit = replace(end, before=target.record(before))
    if end.file.text is not None and target.holds(end.file.text):
        return replace(edit, after=end.file.data)
    return replace(
        edit,
        after=target.install(before).encode(),
        added=target.added(before),
        summary=target.summary,
        is_program=isinstance(target, OwnFile),
    )


def _plan_trust(
    hooks: SettingsEdit, record: InstallRecord | None, project: Path | None
) -> SettingsEdit:
    """Return the edit of the file in which Codex stores its trust, with *hooks* as planned."""
    *_, place = removal_targets("codex", project)
    end = _plan_end(place, record, project)
    text = (hooks.after or b"{}").decode()
    target = codex_trust(hooks.file.path, text, (end.after or b"").decode())
    return end if target is None else _plan_edit(target, record, project)


def _plan_end(
    target: EditTarget, record: InstallRecord | None, project: Path | None
) -> SettingsEdit:
    """Return the edit that takes *target* out of its file."""
    path = target.path
    # In a project nothing may be a symlink; what is kept for a person beside it may.
    is_inside = project is not None and path.is_relative_to(project)
    file = read_settings(path, project if is_inside else None)
    if file.text is None:
        return SettingsEdit(file=file, after=None)
    before = None if record is None else record.files.get(str(path))
    rest = target.remove(file.text, before)
    return SettingsEdit(file=file, after=None if rest is None else rest.encode())


def _required_of_others(folder: Path, host: str) -> str | None:
    """Return what the client in *folder* requires for hosts besides *host*: it is not taken away.

    Another host's installation must not open theirs.
    """
    if not any(blocks.stem != host for blocks in folder.glob("*.blocks")):
        return None
    with suppress(OSError):
        values = hook_client.read_settings(str(folder / "settings")).get(b"required")
        return os.fsdecode(values[0]) if values else None
    return None


# --- writing -------------------------------------------------------------------------------------


def is_needed(plan: InstallPlan) -> bool:
    """Return whether *plan* writes anything: a file of the host, or our client."""
    if any(edit.is_change for edit in plan.edits):
        return True
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
    folder = plan.script.parent
    if plan.settings is None:
        write_edits(plan.edits)
        remove_client(folder, plan.host)
        _remove_folders(record)
        remove_record(plan.host, plan.project)
        return
    make_private_folders(folder)
    write_client(folder, plan.settings, plan.host, plan.blocks)
    # Before the files are changed: after a kill in between, removal knows what was there.
    write_record(_record_of(plan, record))
    try:
        write_edits(plan.edits)
    except BaseException:
        if record is None:
            remove_client(folder, plan.host)
            remove_record(plan.host, plan.project)
        else:
            write_record(record)
        raise
    if record is not None and record.script != str(plan.script):
        remove_client(Path(record.script).parent, plan.host)


def write_edits(edits: tuple[SettingsEdit, ...]) -> None:
    """Write all *edits*, or leave all files as they were."""
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


def _record_of(plan: InstallPlan, record: InstallRecord | None) -> InstallRecord:
    missing = {
        str(each)
        for edit in plan.edits
        for each in edit.file.real.parents
        if edit.is_change and not each.exists()
    }
    made = () if record is None else record.folders
    return InstallRecord(
        host=plan.host,
        project=None if plan.project is None else str(plan.project),
        script=str(plan.script),
        config=plan.config,
        files={str(edit.file.path): edit.before for edit in plan.edits},
        folders=tuple(dict.fromkeys([*made, *sorted(missing, key=len)])),
    )


def _remove_folders(record: InstallRecord | None) -> None:
    for folder in reversed(() if record is None else record.folders):
        with suppress(OSError):
            Path(folder).rmdir()  # Unless other things are kept in it.


def _bytes_of(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
