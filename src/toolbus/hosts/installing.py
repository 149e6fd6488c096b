"""Install our command as a host's hooks, and take it out again: plan, show, then write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.errors import ConfigurationError
from toolbus.hosts.bridges import bridge_source
from toolbus.hosts.codex_trust import trust_block, trusted_hashes
from toolbus.hosts.dialects import dialect
from toolbus.hosts.edit_targets import (
    BRIDGE_MARK,
    EditTarget,
    JsonHooks,
    OwnFile,
    TomlBlock,
)
from toolbus.hosts.hook_events import HookAnswer
from toolbus.hosts.host_files import hook_entry, hooks_file, host_files, host_folder
from toolbus.hosts.install_notes import install_notes
from toolbus.hosts.install_records import (
    InstallRecord,
    RecordedFile,
    client_folder,
    copy_of,
    digest_of,
    keep_copy,
    read_record,
    remove_record,
    write_record,
)
from toolbus.hosts.installation import (
    SCRIPT,
    ClientSettings,
    client_files,
    client_settings,
    remove_client,
    shell_line,
    write_client,
)
from toolbus.hosts.json_positions import locate
from toolbus.hosts.settings_files import SettingsFile, make_folders, read_settings, replace_settings

if TYPE_CHECKING:
    from collections.abc import Iterator


class FileEdit(Struct, frozen=True, kw_only=True):
    """What becomes of a *file*: *after* it holds that, None: it is gone; *before* without ours."""

    file: SettingsFile
    before: bytes | None
    after: bytes | None

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
    edits: tuple[FileEdit, ...]
    notes: tuple[str, ...] = ()


def plan_install(host: str, project: Path | None = None, config: str | None = None) -> InstallPlan:
    """Return what an installation for *host* writes; nothing is written yet.

    *config* names a configuration that counts instead of those in force. Raises `LoadError`,
    `UsageError` for an interpreter that cannot be named, `ConfigurationError` for a file that
    cannot be edited safely.
    """
    host_files(host)
    if config is not None:
        config = str(Path(config).expanduser().absolute())
        if not Path(config).is_file():
            raise ConfigurationError("there is no such file; write one, or name another", config)
    settings = client_settings(config)
    script = client_folder(project, config) / SCRIPT
    blocks = blocks_of(host)
    record = read_record(host, project)
    edits: list[FileEdit] = []
    if (target := install_target(host, project, script, settings.python)) is not None:
        edits.append(_plan_edit(target, record, project))
    if host == "codex":
        edits.append(_plan_edit(_codex_trust(edits[0]), record, project))
    return InstallPlan(
        host=host,
        project=project,
        config=config,
        script=script,
        settings=settings,
        blocks=blocks,
        edits=tuple(edits),
        notes=tuple(install_notes(host, project, script, settings.python)),
    )


def plan_removal(host: str, project: Path | None = None) -> InstallPlan:
    """Return what is written to take all of ours out again; raises as `plan_install`."""
    host_files(host)
    record = read_record(host, project)
    script = client_folder(project, None) / SCRIPT if record is None else Path(record.script)
    edits: list[FileEdit] = []
    for target in removal_targets(host, project):
        file = read_settings(target.path, _root(target.path, project))
        before = _without_ours(target, file, record)
        edits.append(FileEdit(file=file, before=before, after=before))
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
    make_folders(plan.script.parent)
    write_client(plan.script.parent, plan.settings, plan.host, plan.blocks)
    # Before the files are changed: who is killed in between finds what stood there.
    _write_record(plan, record)
    _write_edits(plan.edits)
    if record is not None and record.script != str(plan.script):
        remove_client(Path(record.script).parent, plan.host)


def blocks_of(host: str) -> dict[str, HookAnswer]:
    """Return by event of *host* what stops it when nothing of ours can judge it."""
    spoken = dialect(host)
    reason = "toolbus could not judge this event, so it is stopped; see: toolbus doctor"
    return {event: spoken.block(event, None, reason) for event in host_files(host).events}


def install_target(host: str, project: Path | None, script: Path, python: str) -> EditTarget | None:
    """Return what is put into the file of hooks; None for a host that has none."""
    path, files = hooks_file(host, project), host_files(host)
    lines = {
        event: shell_line(python, script, host, event, block)
        for event, block in blocks_of(host).items()
    }
    entries = tuple([(event, hook_entry(host, event, line)) for event, line in lines.items()])
    match files.form:
        case "groups" | "entries":
            return _json_hooks(host, path, entries)
        case "toml":
            return TomlBlock(path=path, label="hooks", block=_toml_tables(entries))
        case "bridge":
            return OwnFile(path=path, content=_bridge(host, script, python))
        case "options":
            return None


def removal_targets(host: str, project: Path | None) -> Iterator[EditTarget]:
    """Yield where something of ours may stand."""
    path = hooks_file(host, project)
    match host_files(host).form:
        case "groups" | "entries":
            yield _json_hooks(host, path, ())
        case "toml":
            yield TomlBlock(path=path, label="hooks", block="")
        case "bridge":
            yield OwnFile(path=path, content="")
    if host == "codex":
        yield TomlBlock(path=_codex_config(), label=_trust_label(path), block="")


def _codex_trust(hooks_edit: FileEdit) -> TomlBlock:
    path = hooks_edit.file.path
    hooks = locate(path, (hooks_edit.after or b"{}").decode()).value.get("hooks", {})
    block = trust_block(trusted_hashes(path, hooks))
    return TomlBlock(path=_codex_config(), label=_trust_label(path), block=block)


def _json_hooks(
    host: str, path: Path, entries: tuple[tuple[str, dict[str, object]], ...]
) -> JsonHooks:
    initial = {"version": 1} if host_files(host).form == "entries" else {}
    return JsonHooks(path=path, host=host, entries=entries, initial=initial)


def _plan_edit(target: EditTarget, record: InstallRecord | None, project: Path | None) -> FileEdit:
    file = read_settings(target.path, _root(target.path, project))
    before = _without_ours(target, file, record)
    if file.text is not None and target.holds(file.text):
        return FileEdit(file=file, before=before, after=file.data)
    after = target.install(None if before is None else before.decode())
    return FileEdit(file=file, before=before, after=after.encode())


def _without_ours(
    target: EditTarget, file: SettingsFile, record: InstallRecord | None
) -> bytes | None:
    """Return what *file* holds besides; what stood there before, if nothing changed since."""
    if file.text is None or file.data is None:
        return None
    known = None if record is None else record.files.get(str(target.path))
    if record is not None and known is not None and known.digest == digest_of(file.data):
        copy = copy_of(record, target.path)
        if copy is None:
            return None
        with suppress(OSError):
            return copy.read_bytes()
    text = target.remove(file.text)
    return None if text is None else text.encode()


def _write_edits(edits: tuple[FileEdit, ...]) -> None:
    """Write all, or leave all as it was."""
    written: list[FileEdit] = []
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


def _bridge(host: str, script: Path, python: str) -> str:
    command = [python, "-I", "-S", str(script), host]
    return BRIDGE_MARK + bridge_source(host_files(host).bridge, command)


def _bytes_of(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _root(path: Path, project: Path | None) -> Path | None:
    """Return *project* if *path* is in it: there nothing may be a symlink."""
    return project if project is not None and path.is_relative_to(project) else None


def _codex_config() -> Path:
    return host_folder("codex") / "config.toml"


def _trust_label(path: Path) -> str:
    return f"trust in {str(path)!r}"


def _toml_tables(entries: tuple[tuple[str, dict[str, object]], ...]) -> str:
    # A JSON string without a DEL is a TOML string; a command has none.
    tables = [
        "\n".join(["[[hooks]]", *[f"{key} = {_toml(value)}" for key, value in entry.items()], ""])
        for _, entry in entries
    ]
    return "\n".join(tables)


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
