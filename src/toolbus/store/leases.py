"""The right to write a session: a lease refuses a second writer early, an epoch at each append."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import SessionBusyError

if TYPE_CHECKING:
    from toolbus.store.jobs import OpenSessionJob
    from toolbus.store.protocol import Position

LEASE_SECONDS = 30.0
"""Seconds of a lease without an extension: the session of a failed machine is free afterwards."""

# The end of a killed agent is detected; an agent on a full disk may be unable to release its lease.
_RUNNING = (
    "another agent uses the session, or ended without releasing it; wait for its end, or "
    f"{LEASE_SECONDS:.0f} seconds, or give another `session_id`"
)
_TAKEN = (
    "another agent took over the session, and nothing was written; "
    "run again to continue from its last message"
)


class Lease(NamedTuple):
    """The lease of a session to *holder* in *process*, under *epoch*, until *until_ns* at least."""

    epoch: int = 0
    holder: str = ""
    process: str = ""
    until_ns: int = 0

    def taken(self, job: OpenSessionJob, process: str, now_ns: int) -> Lease:
        """Return the lease of the next epoch for the holder in *job*, which runs in *process*.

        Raises `SessionBusyError` while this lease is another holder's, unless its process ended.
        """
        is_held = self.holder != job.holder and self.until_ns > now_ns
        if is_held and not is_gone(self.process):
            raise SessionBusyError(job.session_id, _RUNNING)
        return Lease(self.epoch + 1, job.holder, process, after_seconds(now_ns, job.seconds))

    def extended(self, holder: str, seconds: float, now_ns: int) -> Lease:
        """Return the lease until *seconds* after *now_ns*; unchanged for any other *holder*."""
        if self.holder != holder:
            return self
        return self._replace(until_ns=after_seconds(now_ns, seconds))


def after_seconds(now_ns: int, seconds: float) -> int:
    """Return the time *seconds* after *now_ns*, in nanoseconds."""
    return now_ns + round(seconds * 1e9)


def check_position(session_id: str, expected: Position | None, actual: Position) -> None:
    """Raise `SessionBusyError` if *actual* differs from the position that the writer expects."""
    if expected is not None and expected != actual:
        raise SessionBusyError(session_id, _TAKEN, actual.epoch, actual.length)


def this_process() -> str:
    """Return the name of this process, for other processes that open the same store."""
    return f"{_machine()}:{os.getpid()}"


def is_gone(process: str) -> bool:
    """Return whether *process* has certainly ended; False for a process of another machine."""
    machine, _, pid = process.rpartition(":")
    if machine != _machine() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    # A killed process is a zombie until its parent reaps it.
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    return False


def _machine() -> str:
    """Return the name of the namespace in which a process id is unique."""
    name = os.uname().nodename
    # Containers may share a host name, and each numbers its processes from 1.
    with suppress(OSError):
        name += f"/{Path('/proc/self/ns/pid').readlink()}"
    return name
