"""Machine-wide settings that keep projects from switching hooks off; they belong to root.

One committed line, such as `"disableAllHooks": true`, switches off the hooks of three hosts, whose
machine-wide settings override a project's: tested with Claude Code 2.1.329, Gemini CLI 0.61.0 and
Codex 0.169.0 and each file of `vendors.toml`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

from toolbus.errors import ToolbusError

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.hosts.doctor.vendors import Managed

_SUDO = 'umask 022 && mkdir -p -- "$1" && set -C && cat > "$2"'
"""Writes standard input to a new file; its arguments are the folder and the file."""


class MachineFileError(ToolbusError):
    """A failure to write the machine-wide settings in *file*, because of *reason*."""

    def __init__(self, file: str, reason: str) -> None:
        self.file, self.reason = file, reason
        super().__init__(file, reason)

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


def write_machine_file(managed: Managed) -> Path:
    """Write the file of *managed*, with the user's rights, else by `sudo`, which may prompt.

    Raises `MachineFileError`, with the lines to add, if the file exists or cannot be written.
    """
    file, text = managed.path, managed.text
    if os.path.lexists(file):
        reason = f"the file exists already; add to it: {text.strip()}"
        raise MachineFileError(str(file), reason)
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
        file.chmod(0o644)  # Each user's host reads it, whatever the umask of this process.
    except PermissionError:
        _write_as_root(file, text)
    except OSError as error:
        raise MachineFileError(str(file), str(error.strerror)) from error
    return file


def _write_as_root(file: Path, text: str) -> None:
    by_hand = f"as root: mkdir -p {shlex.quote(str(file.parent))}, and write {text.strip()} to it"
    if (sudo := shutil.which("sudo", path="/usr/bin:/bin:/usr/local/bin")) is None:
        raise MachineFileError(str(file), f"it needs root, and there is no sudo; {by_hand}")
    words = [sudo, "--", "/bin/sh", "-c", _SUDO, "sh", str(file.parent), str(file)]
    done = subprocess.run(words, input=text.encode(), check=False)  # noqa: S603 - our own words, to a fixed path
    if done.returncode:
        raise MachineFileError(str(file), f"sudo ended with {done.returncode}; {by_hand}")
