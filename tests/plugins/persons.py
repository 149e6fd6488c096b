"""A person for tests that run in this process: what only people do is done at a terminal."""

import os
import pty
from contextlib import contextmanager

import pytest

from toolbus.presence import agents, person


@contextmanager
def present_person():
    """Let what this process does count as a person's: its terminal is one that nobody types at."""
    ours, theirs = pty.openpty()
    with pytest.MonkeyPatch.context() as patch:
        for name in agents.VARIABLES:
            patch.delenv(name, raising=False)
        patch.setattr(person, "ancestors", lambda: iter(()))
        patch.setattr(person, "_open_terminal", lambda: os.dup(theirs))
        yield
    os.close(ours)
    os.close(theirs)


@pytest.fixture
def as_person():
    """Let what this process does count as a person's."""
    with present_person():
        yield
