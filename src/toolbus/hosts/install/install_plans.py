"""What an installation, or its end, is going to write; nothing is written here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.errors import ConfigurationError
from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.install.hook_targets import (
    blocks_of,
    codex_trust,
    install_target,
    removal_targets,
)
from toolbus.hosts.install.host_files import host_files
from toolbus.hosts.install.install_notes import install_notes
from toolbus.hosts.install.install_records import client_folder, copy_of, digest_of, read_record
from toolbus.hosts.install.installation import SCRIPT, ClientSettings, client_settings
from toolbus.hosts.install.settings_files import SettingsFile, read_settings
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.required_configuration import required_now

if TYPE_CHECKING:
    from toolbus.hosts.install.edit_targets import EditTarget
    from toolbus.hosts.install.install_records import InstallRecord


class SettingsEdit(Struct, frozen=True, kw_only=True):
    """What becomes of a *file*: *after* it holds that, None: it is gone; *before* without ours.

    *summary* has the additions in a few lines.
    """

    file: SettingsFile
    before: bytes | None
    after: bytes | None
    summary: tuple[str, ...] = ()

    @property
    def is_change(self) -> bool:
        """Whether anything of the file is to be written."""
        return self.after != self.file.data


class InstallPlan(Struct, frozen=True, kw_only=True):
    """What is to be written for a host; *edits* in that order.

    Args:
        host: the dialect's name.
        project: the project's folder, None for the user's own configuration.
        config: the configuration that is named to the client.
        script: the client.
        settings: what the client is given; None: it is to be removed.
        blocks: by event what stops it when nothing of ours runs.
        edits: the host's files.
        notes: what the person has to know or to do besides.
    """

    host: str
    project: Path | None
    config: str | None
    script: Path
    settings: ClientSettings | None
    blocks: Mapping[str, HookAnswer]
    edits: tuple[SettingsEdit, ...]
    notes: tuple[str, ...] = ()


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
    blocks = blocks_of(host)
    record = read_record(host, project)
    target = install_target(host, project, script, settings.python)
    edits = [_plan_edit(target, record, project)]
    if host == "codex":
        edits.append(_plan_trust(edits[0], record, project))
    return InstallPlan(
        host=host,
        project=project,
        config=config,
        script=script,
        settings=settings,
        blocks=blocks,
        edits=tuple(edits),
        notes=tuple(install_notes(host, project)),
    )


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


def plan_removal(host: str, project: Path | None = None) -> InstallPlan:
    """Return what is written to take all of ours out again; raises as `plan_install`."""
    host_files(host)
    record = read_record(host, project)
    script = client_folder(project, None) / SCRIPT if record is None else Path(record.script)
    edits: list[SettingsEdit] = []
    for target in removal_targets(host, project):
        file = read_settings(target.path, _root(target.path, project))
        before = _without_ours(target, file, record)
        edits.append(SettingsEdit(file=file, before=before, after=before))
    config = None if record is None else record.config
    return InstallPlan(
        host=host,
        project=project,
        config=config,
        script=script,
        settings=None,
        blocks={},
        edits=tuple(edits),
    )


def _plan_edit(
    target: EditTarget, record: InstallRecord | None, project: Path | None
) -> SettingsEdit:
    file = read_settings(target.path, _root(target.path, project))
    before = _without_ours(target, file, record)
    if file.text is not None and target.holds(file.text):
        return SettingsEdit(file=file, before=before, after=file.data)
    after = target.install(None if before is None else before.decode()).encode()
    return SettingsEdit(file=file, before=before, after=after, summary=target.summary)


def _plan_trust(
    hooks: SettingsEdit, record: InstallRecord | None, project: Path | None
) -> SettingsEdit:
    """Return what becomes of the file in which Codex stores its trust, with *hooks* as planned."""
    *_, place = removal_targets("codex", project)
    file = read_settings(place.path)
    before = _without_ours(place, file, record)
    text = (hooks.after or b"{}").decode()
    target = codex_trust(hooks.file.path, text, (before or b"").decode())
    if target is None:
        return SettingsEdit(file=file, before=before, after=before)
    return _plan_edit(target, record, project)


def _without_ours(
    target: EditTarget, file: SettingsFile, record: InstallRecord | None
) -> bytes | None:
    """Return what *file* holds besides; what stood there before, if nothing changed since.

    None: nothing, so that the file goes. A file that was there before us stays, empty or not.
    """
    if file.text is None or file.data is None:
        return None
    text = target.remove(file.text)
    known = None if record is None else record.files.get(str(target.path))
    if record is None or known is None:
        # Without a record of ours a file that holds nothing of ours was there before.
        is_ours = text != file.text and target.is_empty(text)
        return None if is_ours else text.encode()
    is_unchanged, copy = known.digest == digest_of(file.data), copy_of(record, target.path)
    if copy is None:
        return None if is_unchanged or target.is_empty(text) else text.encode()
    with suppress(OSError):
        before = copy.read_bytes()
        # Of an empty file one copy is as good as another, and the person's own is exact.
        if is_unchanged or (target.is_empty(text) and target.is_empty(before.decode())):
            return before
    return text.encode()


def _root(path: Path, project: Path | None) -> Path | None:
    """Return *project* if *path* is in it: there nothing may be a symlink."""
    return project if project is not None and path.is_relative_to(project) else None
