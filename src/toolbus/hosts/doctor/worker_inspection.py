"""Whether workers run in the background, for the settings of an installed client."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.hosts.doctor.inspections import Finding
from toolbus.hosts.run import hook_client
from toolbus.settings.private_files import is_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.hosts.install.state import InstalledState

_DIGITS = 16
"""Of the settings' digest, with which the name of a worker's socket begins."""


def inspect_workers(state: InstalledState) -> Iterator[Finding]:
    """Yield how many workers run for the client of *state*, and what keeps them from being asked.

    Without them each event is judged by a process of its own, so nothing here is open.
    """
    settings = hook_client.read_settings(str(Path(state.script or "").parent / "settings"))
    folder = Path(os.fsdecode(settings[b"sockets"][0]))
    digest = os.fsdecode(settings[b"digest"][0])[:_DIGITS]
    try:
        status = folder.lstat()
    except FileNotFoundError:
        yield Finding(severity="fact", text="no worker runs; the first event starts one")
        return
    if folder.is_symlink() or not is_private(status):
        text = f"{str(folder)!r} is not yours alone, so that no worker is asked, and hooks are slow"
        yield Finding(severity="warning", text=text)
        return
    running = [lock for lock in folder.glob("*.lock") if _is_held(lock)]
    ours = [lock for lock in running if lock.name.startswith(digest)]
    others = f", and {len(running) - len(ours)} of other settings" if running != ours else ""
    text = f"workers of toolbus {state.version} that run: {len(ours)}{others}"
    yield Finding(severity="fact", text=text)


def _is_held(lock: Path) -> bool:
    """Tell whether a worker has the file *lock*."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
