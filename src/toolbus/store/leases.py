"""The right to write a session: the lease that refuses early, and the fence that decides."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toolbus.errors import SessionBusyError

if TYPE_CHECKING:
    from toolbus.store.jobs import ExtendLeaseJob, OpenSessionJob
    from toolbus.store.protocol import Position

LEASE_SECONDS = 30.0
"""Seconds of a lease without an extension: the session of a stopped machine rests so long."""

# An agent that is killed is known to have ended; one whose disk is full may not be able to say so.
_RUNNING = (
    "another agent runs in it, or ended without saying so; wait for its end, or "
    f"{LEASE_SECONDS:.0f} seconds, or give another `session_id`"
)
_TAKEN = (
    "another agent took it over, and nothing was written; "
    "run again to go on with what it left in the store"
)


class Lease(NamedTuple):
    """The writer of a session: *holder* in *process*, under *epoch*, until *until_ns* at least."""

    epoch: int = 0
    holder: str = ""
    process: str = ""
    until_ns: int = 0

    def taken(self, job: OpenSessionJob, process: str, now_ns: int) -> Lease:
        """Return the lease of the next epoch for the holder that *job* names, in *process*.

        Raises `SessionBusyError` while this lease of another holder lasts, and its process does.
        """
        is_held = self.holder != job.holder and self.until_ns > now_ns
        if is_held and not is_gone(self.process):
            raise SessionBusyError(job.session_id, _RUNNING)
        return Lease(self.epoch + 1, job.holder, process, after_seconds(now_ns, job.seconds))

    def extended(self, job: ExtendLeaseJob, now_ns: int) -> Lease:
        """Return the lease with the new end of *job*; unchanged for another holder."""
        if self.holder != job.holder:
            return self
        until_ns = after_seconds(now_ns, job.seconds)
        return Lease(self.epoch, self.holder, self.process, until_ns)


def after_seconds(now_ns: int, seconds: float) -> int:
    """Return the time of *seconds* after *now_ns*, in nanoseconds as that."""
    return now_ns + round(seconds * 1e9)


def check_position(session_id: str, expected: Position | None, actual: Position) -> None:
    """Raise `SessionBusyError` if the session is not where its writer expects it to be."""
    if expected is not None and expected != actual:
        raise SessionBusyError(session_id, _TAKEN, actual.epoch, actual.length)


def this_process() -> str:
    """Return a name of this process for other processes that open the same store."""
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
    # One that was killed stays listed until its parent has asked for it.
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    return False


def _machine() -> str:
    """Return a name of the namespace in which a number means one process."""
    name = os.uname().nodename
    # Containers may share a name, and each counts its processes from 1.
    with suppress(OSError):
        name += f"/{Path('/proc/self/ns/pid').readlink()}"
    return name
