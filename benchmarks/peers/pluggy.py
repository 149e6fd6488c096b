"""Hooks by pluggy."""

from __future__ import annotations

from benchmarks.handlers import functions
from benchmarks.harness import Contender

LACKS = "a failure stops the rest; no async; last registered first"


def observe_sync(count: int) -> Contender:
    """Build a hook call."""
    import pluggy

    spec, implementation = pluggy.HookspecMarker("bench"), pluggy.HookimplMarker("bench")

    class Hooks:
        @spec
        def seen(self, value: int) -> None: ...

    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(Hooks)
    for handler in functions(count):
        plugin = type("Plugin", (), {"seen": staticmethod(implementation(handler))})
        manager.register(plugin())
    return Contender("pluggy", "seen(value=1)", {"seen": manager.hook.seen}, LACKS, count)
