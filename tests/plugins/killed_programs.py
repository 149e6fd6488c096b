"""Programs of `tests/programs` whose processes are killed, and what came of each kill."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"
TIMES = 300 if os.environ.get("TOOLBUS_TESTS") == "long" else 20
"""How often a process is killed at each step."""


@pytest.fixture
def quick_folder(tmp_path):
    """Give a folder in memory, where there is one.

    What a process has handed to the kernel outlives its end: with the machine nothing is killed.
    """
    memory = Path("/dev/shm")
    is_there = memory.is_dir() and os.access(memory, os.W_OK)
    with tempfile.TemporaryDirectory(dir=memory if is_there else tmp_path) as folder:
        yield Path(folder)


class KilledPrograms:
    """Runs programs that keep their questions at *address*."""

    def __init__(self, address, folder):
        self.address, self.folder = str(address), folder

    def kills(self, program, mode):
        """Return what *program* knows of its kills; each step was met as often as is asked for."""
        words = [sys.executable, PROGRAMS / program, self.address, self.folder, mode, str(TIMES)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        kills = [json.loads(line) for line in done.stdout.splitlines()]
        # What comes together is sometimes written at once, so that some have fewer steps.
        numbers = Counter(facts["number"] for facts in kills)
        assert min(numbers[number] for number in range(1, max(numbers) * 2 // 3)) == TIMES
        return kills


@pytest.fixture(params=["sqlite", "postgres"])
def killed(request, quick_folder):
    """Give what runs programs on SQLite and PostgreSQL."""
    is_postgres = request.param == "postgres"
    address = request.getfixturevalue("database") if is_postgres else quick_folder / "s.db"
    return KilledPrograms(address, quick_folder)


@pytest.fixture
def killed_on_sqlite(quick_folder):
    """Give what runs programs on SQLite alone."""
    return KilledPrograms(quick_folder / "s.db", quick_folder)
