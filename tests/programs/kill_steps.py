"""What the programs share whose processes are killed: children, their steps, runs that are counted.

A child is forked from a process that has imported all and holds no thread, loop or connection, so
it is as whole as one that was started anew: its store, and whatever it starts, are its own.
"""

import asyncio
import gc
import itertools
import json
import os
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_factory import is_postgres, open_store

WRITES = ("append", "append_once", "extend_lease", "open_session", "swap_state")
"""The methods of stores that write; before and after each of them is a step."""


def say(line, file=1):
    # In one call to the system, so that a line is there as a whole or not at all.
    os.write(file, f"{line}\n".encode())


def count_run(path, name):
    """Note in the file *path* that the tool *name* has run."""
    with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - as a tool would do it
        file.write(f"{name}\n")


def runs_in(path):
    """Return the names of the tools that have run, in order."""
    file = Path(path)
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def start_child(work):
    """Run *work* in a child, and return its process id; it ends with 1 if *work* raises."""
    if child := os.fork():
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - what a child raises is told, and ends it
        say(repr(error), sys.stderr.fileno())
    finally:
        os._exit(code)


class Ended(NamedTuple):
    """How a child ended: its exit code, minus the signal that killed it, and the lines it wrote."""

    code: int
    lines: list[str]

    @property
    def is_killed(self):
        return self.code == -signal.SIGKILL

    @property
    def value(self) -> Any:
        """What it returned; it must have ended well."""
        assert self.code == 0, self
        return json.loads(self.lines[-1])


def run_child(work):
    """Run *work* in a child, which gets a function that says lines; return how it ended.

    What it writes to standard output is said as well.
    """
    read, write = os.pipe()

    def run():
        os.close(read)
        os.dup2(write, 1)
        work(lambda line: say(line, write))

    child = start_child(run)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as lines:
        read_lines = lines.read().splitlines()
    return Ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), read_lines)


def loaded():
    """Return the names of all modules, as a line."""
    return json.dumps(sorted(sys.modules))


def load(names):
    """Import the modules that a child has *loaded*, so that the next ones have them."""
    for name in json.loads(names):
        with suppress(ImportError):
            import_module(name)


def value_of(coroutine_function, *arguments):
    """Return what an async function returns, some JSON, in a child."""
    return run_child(
        lambda tell: tell(json.dumps(asyncio.run(coroutine_function(*arguments))))
    ).value


class Steps:
    """Says the name of each step to *tell*, and kills this process at number *limit*."""

    def __init__(self, limit, tell):
        self._limit, self._tell, self._count = limit, tell, 0

    def take(self, name):
        self._count += 1
        self._tell(name)
        if self._count == self._limit:
            os.kill(os.getpid(), signal.SIGKILL)

    def at_writes(self, store_class):
        """Make a step before and after each write of the stores that this process opens."""
        for name in WRITES:
            if hasattr(store_class, name):
                setattr(store_class, name, self._stepped(name, getattr(store_class, name)))

    def _stepped(self, name, write):
        async def stepped(*arguments, **options):
            self.take(f"before {name}")
            result = await write(*arguments, **options)
            self.take(f"after {name}")
            return result

        return stepped


def kill_at_each_step(kill, go_on, times, first=1):
    """Kill processes at each step, *times* each, and write what is known of it, as lines of JSON.

    `kill(name, number)` returns the step, None where its process ended by itself; with the last
    step all do. `go_on(names)` returns, in order, what is known of those that were killed at one
    step, and of what came after.
    """
    gc.freeze()  # What is here already no child looks through, and so none copies its pages.
    for number in itertools.count(first):
        steps = {name: kill(name, number) for name in [f"k{number}-{at}" for at in range(times)]}
        killed = {name: step for name, step in steps.items() if step is not None}
        if not killed:
            return
        for step, facts in zip(killed.values(), go_on([*killed]), strict=True):
            say(json.dumps({"number": number, "step": step, **facts}))


def store_class(address):
    """Return the class of the store at *address*."""
    if is_postgres(address):
        from toolbus.store.postgres.store import PostgresStore

        return PostgresStore
    return SqliteStore


def address_of(address, name):
    """Return where the session *name* is kept: on a server with all others, or in its own file.

    Whoever looks into a file reads all of the log behind it, which is short then.
    """
    return address if is_postgres(address) else f"{address}-{name}"


def clear(addresses):
    """Forget what is kept there, in a child: the next ones need not be told from it."""
    for address in set(addresses):
        if is_postgres(address):
            value_of(forget_sessions, address)
        else:
            for path in Path(address).parent.glob(f"{Path(address).name}*"):
                path.unlink()


async def forget_sessions(address):
    store = open_store(address)
    while await store.forget_sessions(time.time_ns()):
        pass
    await store.close()
