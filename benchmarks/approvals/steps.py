"""Steps of a scenario, each in a process of its own that knows only what is stored."""

from __future__ import annotations

import multiprocessing
import os
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.approvals import outside
from benchmarks.approvals.protocol import Outcome, Setup
from benchmarks.harness import CannotError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_PATIENCE_S = 60.0
_CONTEXT = multiprocessing.get_context("forkserver")


def preload(modules: tuple[str, ...]) -> None:
    """Let the server from which each step is forked import the systems, once for all steps."""
    wanted = [f"benchmarks.approvals.systems.{module}" for module in modules]
    _CONTEXT.set_forkserver_preload(["benchmarks.approvals.outside", *wanted])


class Steps:
    """Runs the methods of the system in `systems/<module>.py`."""

    def __init__(self, module: str) -> None:
        self._module = module

    def one(self, verb: str, setup: Setup, *arguments: Any) -> Any:
        """Run one step and return what it gives, or an `Outcome` of "failed" or "killed"."""
        return self.several([(verb, setup, *arguments)])[0]

    def several(self, steps: list[tuple[Any, ...]]) -> list[Any]:
        """Run steps at the same time, each in its own process."""
        running = []
        for verb, setup, *arguments in steps:
            near, far = _CONTEXT.Pipe(duplex=False)
            wanted = (far, self._module, verb, setup, arguments)
            process = _CONTEXT.Process(target=_run, args=wanted)
            process.start()
            far.close()
            running.append((process, near))
        results = []
        for process, near in running:
            result: Any = Outcome("killed")
            try:
                if near.poll(_PATIENCE_S):
                    result = near.recv()
                else:
                    result = Outcome("failed", f"no end within {_PATIENCE_S:.0f} s")
                    process.kill()
            except EOFError:
                pass
            process.join()
            results.append(result)
        for result in results:
            if isinstance(result, CannotError):
                raise result
        return results


def _run(pipe: Connection, module: str, verb: str, setup: Setup, arguments: list[Any]) -> None:
    if setup.clock_s:
        real = time.time
        time.time = lambda: real() + setup.clock_s
    system = import_module(f"benchmarks.approvals.systems.{module}").System()
    try:
        result = getattr(system, verb)(setup, *arguments)
    except CannotError as error:
        result = error
    except Exception as error:  # noqa: BLE001 - what a system raises is what was observed
        result = Outcome("failed", f"{type(error).__name__}: {error}".splitlines()[0][:300])
    if verb in {"start", "resume"}:
        outside.done(setup.place)
    pipe.send(result)
    pipe.close()
    # No thread of a system holds the process up: what is not stored by now is lost, as it should.
    os._exit(0)
