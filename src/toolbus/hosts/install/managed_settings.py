"""Settings of the whole machine that keep a project from switching hooks off.

One line that a repository commits, such as `"disableAllHooks": true`, switches the hooks of three
hosts off. Their settings of the machine win over a project's: found by running Claude Code 2.1.329,
Gemini CLI 0.61.0 and Codex 0.169.0 with each file below. Such a file belongs to root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import ToolbusError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.host_settings import on_this_system, read_machine_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SUDO = 'umask 022 && mkdir -p -- "$1" && set -C && cat > "$2"'
"""Writes standard input to a file that is not there yet; its arguments are a folder and a file."""


class MachineSwitch(NamedTuple):
    """The setting *path* of a host, which is *on* where hooks run, and how a machine says so.

    *file* is ours where the host reads a folder of files, else the only one of its kind.
    """

    path: tuple[str, ...]
    on: bool
    file: str
    text: str
    project_file: str


MACHINE_SWITCHES: Mapping[str, MachineSwitch] = {
    "claude-code": MachineSwitch(
        path=("disableAllHooks",),
        on=False,
        file="/etc/claude-code/managed-settings.d/toolbus.json",
        text='{"disableAllHooks": false}\n',
        project_file=".claude/settings.json",
    ),
    "codex": MachineSwitch(
        path=("features", "hooks"),
        on=True,
        file="/etc/codex/requirements.toml",
        text="[features]\nhooks = true\n",
        project_file=".codex/config.toml",
    ),
    "gemini-cli": MachineSwitch(
        path=("hooksConfig", "enabled"),
        on=True,
        file="/etc/gemini-cli/settings.json",
        text='{"hooksConfig": {"enabled": true}}\n',
        project_file=".gemini/settings.json",
    ),
}


class ManagedSettingsError(ToolbusError):
    """The machine's settings in *file* cannot be written, for *reason*."""

    def __init__(self, file: str, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(file, reason)

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


def is_kept_on(host: str) -> bool:
    """Return whether the machine's settings keep the hooks of *host* on, whatever a project says.

    What cannot be read keeps nothing on.
    """
    switch = MACHINE_SWITCHES.get(host)
    if switch is None:
        return False
    read = read_machine_settings(host)
    values = [value_at(each.value, switch.path) for each in read]
    return switch.on in values and (not switch.on) not in values


def switch_warning(host: str) -> str | None:
    """Return the sentence that a project can switch the hooks of *host* off, None if it cannot."""
    switch = MACHINE_SWITCHES.get(host)
    if switch is None or is_kept_on(host):
        return None
    setting = ".".join(switch.path)
    return (
        f"{setting} in a project's {switch.project_file} switches the hooks of "
        f"{dialect(host).title} off; `toolbus setup {host} --managed` prevents that"
    )


def files_to_write(hosts: Iterable[str]) -> tuple[tuple[str, MachineSwitch], ...]:
    """Return the hosts, of *hosts*, whose hooks a project can switch off, with their switches."""
    return tuple(
        [(host, MACHINE_SWITCHES[host]) for host in hosts if switch_warning(host) is not None]
    )


def write_managed(switch: MachineSwitch) -> Path:
    """Write the file of *switch*, with the person's rights, else by `sudo`, which may ask.

    Nothing is written over: raises `ManagedSettingsError`, with the lines to add, if the file is
    there, or cannot be written.
    """
    file = Path(on_this_system(switch.file))
    if os.path.lexists(file):
        reason = (
            f"it is there already, and belongs to the machine; add to it: {switch.text.strip()}"
        )
        raise ManagedSettingsError(str(file), reason)
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(switch.text)
        file.chmod(0o644)  # Whatever the mask of this process is: each user's host reads it.
    except PermissionError:
        _write_as_root(file, switch.text)
        return file
    except OSError as error:
        raise ManagedSettingsError(str(file), str(error.strerror)) from error
    return file


def _write_as_root(file: Path, text: str) -> None:
    words = ["/bin/sh", "-c", _SUDO, "sh", str(file.parent), str(file)]
    by_hand = f"as root: mkdir -p {shlex.quote(str(file.parent))}, and write {text.strip()} to it"
    if (sudo := shutil.which("sudo", path="/usr/bin:/bin:/usr/local/bin")) is None:
        raise ManagedSettingsError(str(file), f"it needs root, and there is no sudo; {by_hand}")
    done = subprocess.run([sudo, "--", *words], input=text.encode(), check=False)  # noqa: S603 - our own words, to a fixed path
    if done.returncode:
        raise ManagedSettingsError(str(file), f"sudo ended with {done.returncode}; {by_hand}")


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """Return what *path* leads to in *value*, None if nothing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
