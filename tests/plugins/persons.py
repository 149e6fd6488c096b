"""A person for tests that run in this process: what only people do is done at a terminal."""

import os
import pty

import pytest

from toolbus.presence import agents, person


@pytest.fixture
def as_person(monkeypatch):
    """Let what this process does count as a person's: its terminal is one that nobody types at."""
    ours, theirs = pty.openpty()
    for name in agents.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(person, "ancestors", lambda: iter(()))
    monkeypatch.setattr(person, "_open_terminal", lambda: os.dup(theirs))
    yield
    os.close(ours)
    os.close(theirs)
