"""Signals by Django."""

from __future__ import annotations

from benchmarks.handlers import functions
from benchmarks.harness import Contender


def observe_sync(count: int) -> Contender:
    """Build `signal.send_robust`, which isolates failures as we do."""
    return _observe(count, "send_robust", "no priorities")


def observe_sync__send(count: int) -> Contender:
    """Build `signal.send`, which does not."""
    return _observe(count, "send", "a failure stops the rest; no priorities")


def _observe(count: int, verb: str, lacks: str) -> Contender:
    from django.conf import settings
    from django.dispatch import Signal

    if not settings.configured:
        settings.configure()
    signal = Signal()
    handlers = functions(count, "def handler(sender, value, **more): pass")
    for handler in handlers:
        signal.connect(handler)
    names = {"send": getattr(signal, verb), "keep": handlers}
    name = "django" if verb == "send_robust" else "django send"
    return Contender(name, "send(None, value=1)", names, lacks, count)
