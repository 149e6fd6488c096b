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
"""Installed: as written. Changed: our part of the host's file differs. Broken: the client is
missing or damaged. Absent: no hooks of ours."""


_NO_FILTER = (
    ", installed with --filter-shell, which was removed: the output of failed commands reaches the "
    "model unfiltered"
)


class InstalledState(Struct, frozen=True, kw_only=True):
    """The state of our hooks in *host*.

    Args:
        host: the dialect's name.
        project: the project's folder, None for the user's own configuration.
        file: the host's file.
        presence: their presence.
        problems: the problems, each with its way out.
        script: the client that they run; None if they are absent.
        config: the configuration named at the installation.
        version: the version of the toolbus that installed them.
        python: the interpreter that they run.
        required: the configuration active at the installation; without it every event is blocked.
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
    """Return the state of our hooks in *host*, for the user or in *project*.

    Raises `ConfigurationError` for a file that must not be read.
    """
    # Without our hooks or our client a closer look has no object, so these faults return first.
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
        lost = f"{path} no longer contains the installed hooks; {again}"
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
        changed.append(f"the hooks in {path} differ from those that this toolbus writes; {again}")
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
    """Return the command that reinstalls the hooks of *host*, as a way out."""
    return f"run: toolbus hosts install {host}{' --project' if in_project else ''}"


def _problems_of_client(folder: Path, host: str, settings: hook_client.Settings) -> list[str]:
    """Return the problems of client files that are missing, changed or open to others."""
    problems = []
    for name in (SCRIPT, *CLIENT_FILES, f"{host}.blocks"):
        file = folder / name
        if not file.is_file() or file.is_symlink():
            problems.append(f"{str(file)!r}, which the hooks use, is missing")
        elif not is_private(file.lstat()):
            problems.append(f"others may read or write {str(file)!r}, which the hooks use")
    if problems:
        return problems
    python, installed = _value(settings, b"python") or "", _value(settings, b"version")
    if not os.access(python, os.X_OK):
        problems.append(f"the interpreter {python!r}, which the hooks use, is missing")
    if installed != version("toolbus"):
        problems.append(
            f"toolbus {installed} installed the hooks, and this is {version('toolbus')}"
        )
    elif (folder / "hook_client.py").read_bytes() != Path(hook_client.__file__).read_bytes():
        problems.append(f"{str(folder / 'hook_client.py')!r} differs from the one of this toolbus")
    return problems


def _value(settings: hook_client.Settings, key: bytes) -> str | None:
    values = settings.get(key)
    return os.fsdecode(values[0]) if values else None
