"""The plan of an installation or a removal, and its atomic execution."""

from __future__ import annotations

import os
import py_compile
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.json import encode
from msgspec.structs import replace

from toolbus.errors import ConfigurationError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.vendors import switch_warning
from toolbus.hosts.install.client_files import (
    CLIENT_FILES,
    SCRIPT,
    ClientSettings,
    client_files,
    client_settings,
)
from toolbus.hosts.install.host_files import HOSTS, host_files, untested_notice
from toolbus.hosts.install.records import (
    RECORD,
    InstallRecord,
    RecordedFile,
    install_folder,
    read_record,
)
from toolbus.hosts.install.settings_files import SettingsFile, read_settings, replace_settings
from toolbus.hosts.install.targets import (
    JsonHooks,
    OwnFile,
    codex_trust,
    fail_closed_answers,
    install_target,
    removal_targets,
)
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.required_configuration import required_now

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolbus.hosts.install.targets import EditTarget


class SettingsEdit(Struct, frozen=True, kw_only=True):
    """The edit of a file.

    Args:
        file: the file as it was read.
        after: its new content; None: the file is removed.
        before: the record for the removal of our hooks.
        added: the added lines, none if something is only removed.
        summary: a short form of *added*.
        is_program: whether the lines are a program of ours, too long to show.
        is_closed: whether others lose access to it.
    """

    file: SettingsFile
    after: bytes | None
    before: RecordedFile = RecordedFile()
    added: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    is_program: bool = False
    is_closed: bool = False

    @property
    def is_change(self) -> bool:
        """Whether the edit changes the file."""
        return self.is_closed or self.after != self.file.data


class InstallPlan(Struct, frozen=True, kw_only=True):
    """The changes for a host.

    Args:
        host: the dialect's name.
        project: the project's folder, None for the user's own configuration.
        script: the client, in the folder of the installation.
        settings: the client's settings; None: the client is removed.
        edits: the edits of the host's files.
        client: the edits of our own files: the client and the record.
        made: folders that an installation created for the host's files; removed once empty.
        notes: sentences for the person about further conditions and steps.
    """

    host: str
    project: Path | None
    script: Path
    settings: ClientSettings | None = None
    edits: tuple[SettingsEdit, ...] = ()
    client: tuple[SettingsEdit, ...] = ()
    made: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether the plan changes any file."""
        return any(edit.is_change for edit in self.in_order)

    @property
    def in_order(self) -> tuple[SettingsEdit, ...]:
        """All edits, in the order of writing."""
        if self.settings is None:
            return (*self.edits, *self.client)
        return (*self.client, *self.edits)


# --- planning ------------------------------------------------------------------------------------


def plan_install(
    host: str,
    project: Path | None = None,
    config: str | None = None,
    *,
    required: str | None = None,
) -> InstallPlan:
    """Return the plan of an installation for *host*; nothing is written yet.

    *config* replaces the active configurations; *required* is a configuration that the caller
    writes before the plan, if it does not exist yet. Raises `LoadError`, `UsageError` for an
    unusable interpreter, and `ConfigurationError` for a file that cannot be edited safely.
    """
    host_files(host)
    if config is not None:
        config = str(Path(config).expanduser().absolute())
        if not Path(config).is_file():
            raise ConfigurationError("there is no such file; write one, or name another", config)
    folder = install_folder(host, project)
    required = required or required_now(config) or _required_of_others(folder, config)
    settings = client_settings(config, required)
    record = read_record(folder) or InstallRecord()
    target = install_target(host, project, folder / SCRIPT, settings.python)
    edits = [_plan_edit(target, record, project)]
    if host == "codex":
        edits.append(_plan_trust(edits[0], record, project))
    made = tuple(dict.fromkeys([*record.folders, *_missing_folders(edits)]))
    files = {str(edit.file.path): edit.before for edit in edits}
    # The script is the last: without it the command gives the fail-closed answer.
    contents = {
        RECORD: encode(InstallRecord(files=files, folders=made)),
        **client_files(settings, host, fail_closed_answers(host)),
    }
    return InstallPlan(
        host=host,
        project=project,
        script=folder / SCRIPT,
        settings=settings,
        edits=tuple(edits),
        client=tuple([_own_edit(folder / name, data) for name, data in contents.items()]),
        notes=tuple(_notes(host, project)),
    )


def plan_removal(host: str, project: Path | None = None) -> InstallPlan:
    """Return the plan that removes everything of ours; raises as `plan_install`."""
    host_files(host)
    folder = install_folder(host, project)
    record = read_record(folder) or InstallRecord()
    names = (SCRIPT, *CLIENT_FILES, f"{host}.blocks", RECORD)
    return InstallPlan(
        host=host,
        project=project,
        script=folder / SCRIPT,
        edits=tuple([_plan_end(each, record, project) for each in removal_targets(host, project)]),
        client=tuple([_own_edit(folder / name, None) for name in names]),
        made=record.folders,
    )


def _plan_edit(target: EditTarget, record: InstallRecord, project: Path | None) -> SettingsEdit:
    """Return the edit that replaces an older installation's part by *target*."""
    end = _plan_end(target, record, project)
    installed = target.install(None if end.after is None else end.after.decode())
    if end.file.text is not None and target.holds(end.file.text):
        return replace(end, before=installed.before, after=end.file.data)
    return SettingsEdit(
        file=end.file,
        before=installed.before,
        after=installed.text.encode(),
        added=installed.added,
        summary=target.summary if isinstance(target, JsonHooks) else (),
        is_program=isinstance(target, OwnFile),
    )


def _plan_trust(hooks: SettingsEdit, record: InstallRecord, project: Path | None) -> SettingsEdit:
    """Return the edit of the file with Codex's trust, for the planned *hooks*."""
    *_, place = removal_targets("codex", project)
    end = _plan_end(place, record, project)
    text = (hooks.after or b"{}").decode()
    target = codex_trust(hooks.file.path, text, (end.after or b"").decode())
    return end if target is None else _plan_edit(target, record, project)


def _plan_end(target: EditTarget, record: InstallRecord, project: Path | None) -> SettingsEdit:
    """Return the edit that removes *target* from its file."""
    path = target.path
    # Symlinks are refused in a project, but not in the user's own files.
    is_inside = project is not None and path.is_relative_to(project)
    file = read_settings(path, project if is_inside else None)
    if file.text is None:
        return SettingsEdit(file=file, after=None)
    rest = target.remove(file.text, record.files.get(str(path)))
    return SettingsEdit(file=file, after=None if rest is None else rest.encode())


def _own_edit(path: Path, data: bytes | None) -> SettingsEdit:
    """Return the edit of a file of ours, private to its owner; it must not be a symlink."""
    file = read_settings(path, path.parent)
    closed = replace(file, mode=0o600)
    return SettingsEdit(file=closed, after=data, is_closed=data is not None and file != closed)


def _required_of_others(folder: Path, config: str | None) -> str | None:
    """Return the configuration that other installations of the same user or project require.

    An installation for another host must not weaken them.
    """
    for file in folder.parent.glob(f"*{folder.suffix}/settings"):
        with suppress(OSError):
            settings = hook_client.read_settings(str(file))
            same = settings.get(b"config") == (None if config is None else [os.fsencode(config)])
            if same and file.parent != folder and b"required" in settings:
                return os.fsdecode(settings[b"required"][0])
    return None


def _notes(host: str, project: Path | None) -> Iterator[str]:
    """Yield sentences about conditions and steps that no edit covers."""
    files = HOSTS[host]
    if (warning := switch_warning(host)) is not None:
        yield warning
    if not dialect(host).facts.version:
        yield untested_notice(host)
    if files.note:
        yield files.note
    if project is not None and files.project_note:
        yield files.project_note
    if project is not None and files.is_committed:
        yield "the hook's command contains paths of this machine: do not commit it"


# --- writing -------------------------------------------------------------------------------------


def apply_plans(plans: Sequence[InstallPlan]) -> None:
    """Write all edits of *plans*, or none.

    Raises `ConfigurationError` if a file changed since it was read. The client and the record are
    written before the commands that run it, and removed after them, so that removal works after a
    kill in between.
    """
    write_edits([edit for plan in plans for edit in plan.in_order])
    for plan in plans:
        folder = plan.script.parent
        if plan.settings is not None:
            py_compile.compile(str(folder / CLIENT_FILES[0]), doraise=True)
            continue
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        _remove_empty([*plan.made, str(folder)])


def write_edits(edits: Iterable[SettingsEdit]) -> None:
    """Write all *edits*, or leave all files and folders as they were."""
    edits = tuple(edits)
    missing = _missing_folders(edits)
    written: list[SettingsEdit] = []
    try:
        for edit in edits:
            if edit.is_change:
                replace_settings(edit.file, edit.after)
                written.append(edit)
    except BaseException:
        for edit in reversed(written):
            with suppress(ConfigurationError):
                current = replace(read_settings(edit.file.path), mode=edit.file.mode)
                replace_settings(current, edit.file.data)
        _remove_empty(missing)
        raise


def _missing_folders(edits: Iterable[SettingsEdit]) -> list[str]:
    """Return the folders that writing *edits* creates, the outermost first."""
    folders = {each for edit in edits if edit.is_change for each in edit.file.real.parents}
    return sorted([str(each) for each in folders if not each.exists()], key=len)


def _remove_empty(folders: Sequence[str]) -> None:
    """Remove the empty ones of *folders*, which are listed outermost first."""
    for folder in reversed(folders):
        with suppress(OSError):
            Path(folder).rmdir()
