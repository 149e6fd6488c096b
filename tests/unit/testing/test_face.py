"""What `python -m pydoc toolbus.testing` shows."""

import importlib
import pydoc
import sys

from toolbus import testing


def test_pydoc_shows_it():
    assert "toolbus guide testing" in pydoc.render_doc(testing)
    assert "check_adapter" in dir(testing)


def test_pydoc_shows_it_without_hypothesis(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("toolbus.testing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)

    text = pydoc.plain(pydoc.render_doc(importlib.import_module("toolbus.testing")))

    assert "toolbus guide testing" in text
    assert "class Recorder" in text
    assert "check_store" in text
