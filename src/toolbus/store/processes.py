"""Which process has a lease, and whether it has ended: a killed one gives nothing back."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def this_process() -> str:
    """Return what names this process to others that may see its file."""
    return f"{_machine()}:{os.getpid()}"


def is_gone(process: str) -> bool:
    """Tell whether *process* has certainly ended; of another machine's that cannot be told."""
    machine, _, pid = process.rpartition(":")
    if machine != _machine() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    # One that was killed stays listed until its parent has asked for it.
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    return False


def _machine() -> str:
    """Return what tells apart those among whom a number means one process."""
    name = os.uname().nodename
    # Containers may share a name, and each counts its processes from 1.
    with suppress(OSError):
        name += f"/{Path('/proc/self/ns/pid').readlink()}"
    return name
