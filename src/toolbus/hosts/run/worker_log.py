"""What workers do, in a small file for who looks for a reason; no text of an event is in it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 2**18


class WorkerLog:
    """Lines at the end of *file*, ours alone; when it is full it begins anew."""

    def __init__(self, file: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        self.handle = os.open(file, flags, 0o600)
        os.fchmod(self.handle, 0o600)

    def write(self, text: str) -> None:
        """Add a line; a disk that is full is no reason to end."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with suppress(OSError):
            if os.fstat(self.handle).st_size > MAX_BYTES:
                os.ftruncate(self.handle, 0)
            os.write(self.handle, f"{stamp} {os.getpid()} {text}\n".encode(errors="replace"))
