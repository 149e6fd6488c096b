"""A comparison in a process of its own: its handlers cannot hang or end the process that asks.

The request is one JSON value on standard input; standard output has the part that is done as a
number a line, and then the comparison.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from toolbus.config.targets import load, load_configuration
from toolbus.errors import ToolbusError
from toolbus.presence.agents import JUDGED
from toolbus.replay.comparison import Comparison, ComparisonListener, recorded_verdicts
from toolbus.replay.replay import Replay, idle_events
from toolbus.replay.sources import find_sources, read_sources
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE = 2
"""The seconds for a handler that does not return; then the process is ended."""


class ComparisonRequest(Struct, frozen=True):
    """The *session* of the store at *address* past *target*, None for the active configuration."""

    address: str
    session: str
    target: str | None
    seconds: float = 60.0


def compare_elsewhere(request: ComparisonRequest, report: Callable[[float], object]) -> Comparison:
    """Return the comparison of *request*; *report* gets the part that is done, from 0 to 1."""
    # Not the folder of the process, which may hold a `json.py`, is searched for modules.
    command = [sys.executable, "-P", "-m", __name__]
    pipe = subprocess.PIPE
    errors = subprocess.DEVNULL
    # A target can neither type at the terminal of the person, nor answer a question for them.
    variables = {**os.environ, JUDGED: "1"}
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdin=pipe, stdout=pipe, stderr=errors, env=variables, start_new_session=True
    ) as process:
        assert process.stdin is not None  # noqa: S101 - for mypy: both are pipes
        assert process.stdout is not None  # noqa: S101 - as above
        # A handler may take the alarm of its process away.
        timer = threading.Timer(request.seconds + 2 * _GRACE, process.kill)
        timer.daemon = True
        timer.start()
        process.stdin.write(msgspec.json.encode(request))
        process.stdin.close()
        try:
            for line in process.stdout:
                value = msgspec.json.decode(line, type=float | Comparison)
                if isinstance(value, Comparison):
                    return value
                report(value)
        finally:
            timer.cancel()
    if process.returncode == -signal.SIGALRM:
        return Comparison(failure=f"a handler did not return within {request.seconds:g} s")
    return Comparison(failure=f"a handler ended the process: exit code {process.returncode}")


class ComparisonRun:
    """A comparison past the target *name*, in a thread; *done* goes from 0 to 1.

    *comparison* is None until its end.
    """

    def __init__(self, request: ComparisonRequest, name: str) -> None:
        self.session, self.name, self.done = request.session, name, 0.0
        self.comparison: Comparison | None = None
        threading.Thread(target=self._run, args=[request], daemon=True).start()

    def _run(self, request: ComparisonRequest) -> None:
        try:
            self.comparison = compare_elsewhere(request, self._note_progress)
        except (OSError, msgspec.DecodeError) as error:
            self.comparison = Comparison(failure=f"its process broke off: {error}")

    def _note_progress(self, done: float) -> None:
        self.done = done


def _compare(request: ComparisonRequest, report: Callable[[float], object]) -> Comparison:
    target = load_configuration() if request.target is None else load(request.target)
    listener = ComparisonListener(request.seconds, report)
    listener.comparison.idle = idle_events(target)
    sources, _ = find_sources([request.address])
    with (
        open_reader(request.address, live=True) as reader,
        closing(read_sources(sources, session=request.session)) as batches,
    ):
        session = reader.session(request.session)
        if session is None:
            raise UsageError(f"no session {request.session!r}")
        items = listener.follow(batches, recorded_verdicts(reader, session))
        asyncio.run(Replay(target, listener, collect=False).run(items))
    return listener.comparison


def _main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ComparisonRequest)
    signal.setitimer(signal.ITIMER_REAL, request.seconds + _GRACE)
    # Handlers may print, and so may the programs that they start.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def write(value: float | Comparison) -> None:
        output.write(msgspec.json.encode(value) + b"\n")
        output.flush()

    try:
        comparison = _compare(request, write)
    except (ToolbusError, UsageError) as error:
        comparison = Comparison(failure=str(error))
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything
        comparison = Comparison(failure=f"{type(error).__name__}: {error}")
    write(comparison)
    os._exit(0)  # Threads of handlers may go on.


if __name__ == "__main__":
    _main()
