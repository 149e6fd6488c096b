"""Signals by psygnal."""

from __future__ import annotations

from benchmarks.handlers import functions
from benchmarks.harness import Contender


def observe_sync(count: int) -> Contender:
    """Build `signal.emit`; compiled, where a wheel is."""
    import psygnal

    signal = psygnal.SignalInstance((int,))
    handlers = functions(count)
    for handler in handlers:
        signal.connect(handler)
    names = {"emit": signal.emit, "keep": handlers}
    return Contender("psygnal", "emit(1)", names, "a failure stops the rest; no async", count)
