"""Configurations that several threads read at once."""

from __future__ import annotations

import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor, wait

from toolbus.config.configuration import load

# The test's own part: it tells when the component is made, and holds that.
HELD = """
import making_gates
from toolbus import AgentComponent
class Rules(AgentComponent):
    def __init__(self):
        super().__init__()
        begun, opened = making_gates.gates[{name!r}]
        begun.set()
        opened.wait(60)
"""
CONFIGURATION = '[[component]]\nuse = "./{name}.py:Rules"\n'


def test_threads_that_make_components_leave_stdout_as_it_was(tmp_path, monkeypatch):
    gates = {name: (threading.Event(), threading.Event()) for name in ("one", "two")}
    module = types.ModuleType("making_gates")
    module.gates = gates
    monkeypatch.setitem(sys.modules, "making_gates", module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in gates:
        (tmp_path / f"{name}.py").write_text(HELD.format(name=name))
        (tmp_path / f"{name}.toml").write_text(CONFIGURATION.format(name=name))
    before = sys.stdout
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(load, tmp_path / "one.toml")
        gates["one"][0].wait(60)
        two = threads.submit(load, tmp_path / "two.toml")
        # Whoever does not wait for the first has begun by then.
        gates["two"][0].wait(0.1)
        gates["one"][1].set()
        wait([one])
        gates["two"][1].set()
        assert len(one.result()) == len(two.result()) == 1
    assert sys.stdout is before
