"""The parent process of a command: on Linux it adopts the command's orphans, and ends them.

It runs as a program, ``python -I -S process_keeper.py FD MARK COMMAND...``, so that the process of
a library's user neither adopts nor reaps other processes. It writes the command's process id to FD,
and the exit status once all descendants have ended. A descendant that it may not kill keeps it
alive, so that the ancestors of that process still include MARK. SIGTERM ends the command.
"""

from __future__ import annotations

import os
import signal
import sys
import time

# Few imports: each command waits for them.
_SET_CHILD_SUBREAPER = 36
"""prctl(2): Linux makes orphaned descendants children of a subreaper; other systems have none."""

_PATIENCE, _PAUSE = 1.0, 0.02
"""Seconds until the exit status is reported despite remaining processes, and between two checks."""

_NOT_FOUND = 127
"""The exit status of a command that cannot be started (POSIX, sh)."""


def keep(ended: int, command: list[str]) -> None:
    """Run *command* in a session of its own, and report its end to the descriptor *ended*."""
    os.set_inheritable(ended, False)  # noqa: FBT003 - its only signature
    _adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    child = os.fork()
    if not child:
        _become(command)
    signal.signal(signal.SIGTERM, lambda *_: _kill_group(child))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _report(ended, f"{child} ")
    pid, status = os.wait()
    while pid != child:
        pid, status = os.wait()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _kill_group(child)
    deadline = time.monotonic() + _PATIENCE
    while _has_children() and time.monotonic() < deadline:
        _kill_children()
    _report(ended, str(os.waitstatus_to_exitcode(status)))
    os.close(ended)
    while _has_children():
        _kill_children()


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - only on Linux

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _become(command: list[str]) -> None:
    """Replace this process by *command*, with default signal handling."""
    try:
        os.setsid()
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.execvp(command[0], command)  # noqa: S606 - the judged command
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_FOUND)


def _report(ended: int, text: str) -> None:
    try:
        os.write(ended, text.encode())
    except OSError:
        return  # The reader of the descriptor has ended.


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        return  # It has ended, or belongs to another user.


def _has_children() -> bool:
    """Reap ended children; return whether a child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _kill_children() -> None:
    """Kill the children of this process; their own children are adopted then."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - quicker to start without
        try:
            if name.isdecimal() and _parent_of(name) == os.getpid():
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            continue  # As above.
    time.sleep(_PAUSE)


def _parent_of(name: str) -> int:
    """Return the parent of a process, the second field after its name (proc(5))."""
    with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
        return int(file.read().rpartition(b")")[2].split()[1])


if __name__ == "__main__":
    keep(int(sys.argv[1]), sys.argv[3:])
