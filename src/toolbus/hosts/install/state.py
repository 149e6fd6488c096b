"""The state of our hooks in a host: installed or not, and whole or damaged."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.hosts.install.client_files import CLIENT_FILES, SCRIPT
from toolbus.hosts.install.host_files import hooks_file
from toolbus.hosts.install.records import install_folder, read_record
from toolbus.hosts.install.settings_files import read_settings
from toolbus.hosts.install.targets import install_target, removal_targets
from toolbus.hosts.run import hook_client
from toolbus.settings.private_files import is_private

Presence: TypeAlias = Literal["installed", "changed", "broken", "absent"]
"""All is as it was written; something in the host's file is not; what the hooks run is not there
or not as it must be; nothing of ours is there."""


_NO_FILTER = (
    ", installed with --filter-shell, which is gone: what a failed command wrote reaches the model "
    "as it is"
)


class InstalledState(Struct, frozen=True, kw_only=True):
    """The state of our hooks in *host*.

    Args:
        host: the dialect's name.
        project: the project's folder, None for the user's own configuration.
        file: the host's file.
        presence: whether they are there.
        problems: what is wrong, each with its way out.
        script: the client that they run; None if nothing is there.
        config: the configuration that was named.
        version: that of the toolbus that installed them.
        python: the interpreter that they run.
        required: the configuration that was in force then; the hooks stop every event without it.
    """

    host: str
    project: str | None
    file: str
    presence: Presence
    problems: tuple[str, ...] = ()
    script: str | None = None
    config: str | None = None
    version: str | None = None
    python: str | None = None
    required: str | None = None


def installed_state(host: str, project: Path | None = None) -> InstalledState:
    """Return the state of *host*, for the user or in *project*; changes nothing.

    Raises `ConfigurationError` for a file that is not to be read.
    """
    path, folder = hooks_file(host, project), install_folder(host, project)
    text = read_settings(path, project).text
    again = install_again(host, in_project=project is not None)
    state = InstalledState(
        host=host,
        project=None if project is None else str(project),
        file=str(path),
        presence="absent",
    )
    if text is None or not next(removal_targets(host, project)).is_present(text):
        if read_record(folder) is None:
            return state
        lost = f"{path} lost the hooks that were installed; {again}"
        return replace(state, presence="changed", problems=(lost,))
    if f"/{folder.name}/{SCRIPT}" not in text:
        filters = _NO_FILTER if "-filter/hook.py" in text else ""
        older = f"the hooks in {path} run the client of an older toolbus{filters}; {again}"
        return replace(state, presence="changed", problems=(older,))
    settings: hook_client.Settings = {}
    with suppress(OSError):
        settings = hook_client.read_settings(str(folder / "settings"))
    broken = [f"{each}; {again}" for each in _problems_of_client(folder, host, settings)]
    changed: list[str] = []
    python = _value(settings, b"python")
    if python and not install_target(host, project, folder / SCRIPT, python).holds(text):
        changed.append(f"the hooks in {path} are not those that this toolbus writes; {again}")
    return replace(
        state,
        presence="broken" if broken else "changed" if changed else "installed",
        problems=(*broken, *changed),
        script=str(folder / SCRIPT),
        config=_value(settings, b"config"),
        version=_value(settings, b"version"),
        python=python,
        required=_value(settings, b"required"),
    )


def install_again(host: str, *, in_project: bool) -> str:
    """Return the command that installs the hooks of *host* anew, as a way out."""
    return f"run: toolbus hosts install {host}{' --project' if in_project else ''}"


def _problems_of_client(folder: Path, host: str, settings: hook_client.Settings) -> list[str]:
    """Return the parts of the client that are gone, changed or open to others."""
    problems = []
    for name in (SCRIPT, *CLIENT_FILES, f"{host}.blocks"):
        file = folder / name
        if not file.is_file() or file.is_symlink():
            problems.append(f"{str(file)!r}, which the hooks run, is gone")
        elif not is_private(file.lstat()):
            problems.append(f"others may read or write {str(file)!r}, which the hooks run")
    if problems:
        return problems
    python, installed = _value(settings, b"python") or "", _value(settings, b"version")
    if not os.access(python, os.X_OK):
        problems.append(f"the interpreter {python!r}, which the hooks run, is gone")
    if installed != version("toolbus"):
        problems.append(
            f"the hooks are those of toolbus {installed}, and this is {version('toolbus')}"
        )
    elif (folder / "hook_client.py").read_bytes() != Path(hook_client.__file__).read_bytes():
        problems.append(f"{str(folder / 'hook_client.py')!r} is not that of this toolbus")
    return problems


def _value(settings: hook_client.Settings, key: bytes) -> str | None:
    values = settings.get(key)
    return os.fsdecode(values[0]) if values else None
