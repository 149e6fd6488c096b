"""The place where a worker is found: a socket in a folder of ours alone, under a lock."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress

from toolbus.hosts.run import hook_client

LOCK = 3
"""The descriptor of the lock that a client took for the worker that it starts."""

_BACKLOG = 128


class WorkerSocket:
    """A socket *name* in *folder*, listening; who has its lock alone may make or remove it.

    Raises `OSError` if the folder is not ours alone, or the lock is not that of *name*.
    """

    def __init__(self, folder: bytes, name: bytes, lock: int = LOCK) -> None:
        self._path, self._lock = os.path.join(folder, name), lock  # noqa: PTH118 - bytes
        hook_client.enter(folder)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock), os.lstat(name + b".lock")):
            raise PermissionError(f"no lock of {name!r}")
        os.set_inheritable(lock, False)  # noqa: FBT003 - its only signature
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108 - bytes, in the working folder
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(name)
        os.chmod(name, 0o600)  # noqa: PTH101 - as above
        self.listener.listen(_BACKLOG)
        self._identity = self._look()

    def is_found(self) -> bool:
        """Return whether a client that looks for it comes here."""
        return self._look() == self._identity

    def withdraw(self) -> None:
        """Make room for another worker: no client comes here from now on."""
        if self._lock < 0:
            return
        if self.is_found():
            with suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108 - as above
                os.unlink(self._path + b".lock")  # noqa: PTH108 - as above
        os.close(self._lock)
        self._lock = -1

    def _look(self) -> tuple[int, int] | None:
        try:
            status = os.lstat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino
