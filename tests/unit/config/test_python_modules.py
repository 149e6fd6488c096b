"""Files that several threads import at once."""

from __future__ import annotations

import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor, wait

from toolbus.config.python_modules import import_file

# The test's own part: it tells when the file's first half ran, and holds the second.
HALVES = """
import halves_gate
halves_gate.begun.set()
halves_gate.opened.wait(60)
class Rules: ...
"""


def test_no_thread_sees_a_file_that_another_still_imports(tmp_path, monkeypatch):
    gate = types.ModuleType("halves_gate")
    gate.begun, gate.opened = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "halves_gate", gate)
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "rules.py"
    file.write_text(HALVES)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(import_file, file)
        gate.begun.wait(60)
        second = threads.submit(import_file, file)
        # Whoever does not wait for the first is through by then.
        assert not wait([second], timeout=0.1).done
        gate.opened.set()
        assert first.result().Rules is second.result().Rules
