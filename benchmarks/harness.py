"""The machinery: contenders that take turns, and the figures that a table is made of."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterable
from itertools import repeat
from time import perf_counter
from typing import Any, NamedTuple

ROUNDS = 40
"""Turns of each contender in one process."""

SECONDS_PER_TURN = 0.003
"""Long enough that reading the clock does not count, short enough that a quiet moment is met."""

OURS = "toolbus"
LOOP = "the loop"

_TIMED = """
{prefix}def timed(_turns):
    _start = _clock()
    for _ in _repeat(None, _turns):
        {statement}
    return _clock() - _start
"""


class CannotError(Exception):
    """A peer has nothing that could be measured here."""


class Contender(NamedTuple):
    """A *statement* to be timed among *names*; one with `await` is run in an event loop.

    *lacks* says what it leaves out of what toolbus does. *calls* is how often it must call
    functions named `handler`, which is proved before it is timed.
    """

    name: str
    statement: str
    names: dict[str, Any]
    lacks: str = ""
    calls: int | None = None


class Spec(NamedTuple):
    """How a table is read: its unit, who we are in it, and what stands for 1."""

    unit: str
    ours: str
    baseline: str | None


class Figure(NamedTuple):
    """One cell; a *value* of None was run and not timed."""

    row: str
    contender: str
    value: float | None


class Note(NamedTuple):
    """What was observed in a cell, beside its figure."""

    row: str
    contender: str
    text: str


Bench = Callable[["Rig"], None]
Build = Callable[[], Contender]


def table(unit: str, *, ours: str = OURS, baseline: str | None = LOOP) -> Callable[[Bench], Bench]:
    """Mark a function as one that fills a table, whose claim is its docstring."""

    def mark(bench: Bench) -> Bench:
        bench.spec = Spec(unit, ours, baseline)
        return bench

    return mark


class Rig:
    """Takes the figures of one table in this process; with *once* it runs all and times none."""

    def __init__(self, *, once: bool = False) -> None:
        self.once = once
        self.figures: list[Figure] = []
        self.lacks: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.notes: list[Note] = []
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        """Let go of the event loop."""
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def run(self, awaitable: Any) -> Any:
        """Return what *awaitable* gives, in the loop of all contenders."""
        return self._loop.run_until_complete(awaitable)

    def put(self, row: str, contender: str, value: float | None) -> None:
        """Enter a figure that is no race: a count, a size."""
        self.figures.append(Figure(row, contender, value))

    def note(self, row: str, contender: str, text: str) -> None:
        """Say what was observed in a cell."""
        self.notes.append(Note(row, contender, text))

    def race(self, row: str, builds: Iterable[tuple[str, Build]], *, rounds: int = ROUNDS) -> None:
        """Time contenders in turns; enter the least nanoseconds of one statement of each."""
        contenders = [made for name, build in builds if (made := self._built(name, build))]
        timers = [self._timer(one) for one in contenders]
        if self.once:
            self.figures += [Figure(row, one.name, None) for one in contenders]
            return
        # What lives by now stays, and is none of the collections during the race.
        gc.collect()
        gc.freeze()
        turns = [turns_of(timer) for timer in timers]
        least = [float("inf")] * len(timers)
        for _ in range(rounds):
            for at, timer in enumerate(timers):
                # What another left cold is warmed again first.
                timer(turns[at] // 4 + 1)
                least[at] = min(least[at], timer(turns[at]) / turns[at])
        gc.unfreeze()
        self.figures += [
            Figure(row, one.name, seconds * 1e9)
            for one, seconds in zip(contenders, least, strict=True)
        ]

    def _built(self, name: str, build: Build) -> Contender | None:
        """Make a contender and prove that it works; say why if that fails."""
        try:
            made = self.run(_made(build))
            self._prove(made)
        except Exception as error:
            # Whoever comes to measure wants the other rows; whoever checks wants to know.
            known = isinstance(error, ImportError | CannotError)
            if name in {OURS, LOOP} or (self.once and not known):
                raise
            self.absent[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            return None
        self.lacks[made.name] = made.lacks
        return made

    def _prove(self, contender: Contender) -> None:
        """Run it once, and count its calls of handlers."""
        # Frames, since a coroutine is "called" again each time it goes on.
        calls: set[Any] = set()

        def count(frame: Any, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_name == "handler":
                calls.add(frame)

        timer = self._timer(contender)
        timer(1)
        sys.setprofile(count)
        try:
            timer(1)
        finally:
            sys.setprofile(None)
        if contender.calls is not None and len(calls) != contender.calls:
            raise AssertionError(f"{len(calls)} handlers were called, not {contender.calls}")

    def _timer(self, contender: Contender) -> Callable[[int], float]:
        """Return a function that runs the statement so often and returns the seconds."""
        is_async = "await " in contender.statement or "async " in contender.statement
        prefix = "async " if is_async else ""
        source = _TIMED.format(prefix=prefix, statement=contender.statement)
        names = {**contender.names, "_clock": perf_counter, "_repeat": repeat}
        # Compiled for each, so that no contender warms the code of another.
        exec(compile(source, f"<{contender.name}>", "exec"), names)  # noqa: S102 - our own text
        timed = names["timed"]
        return (lambda turns: self.run(timed(turns))) if is_async else timed


async def _made(build: Build) -> Contender:
    # Inside the loop, because some peers look for the running one when they are made.
    return build()


def turns_of(timer: Callable[[int], float]) -> int:
    """Return the number of statements that fills a turn."""
    turns = 1
    while timer(turns) < SECONDS_PER_TURN / 2:
        turns *= 2
    return max(1, round(turns * SECONDS_PER_TURN / min(timer(turns) for _ in range(3))))
