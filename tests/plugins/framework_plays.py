"""The observations of all frameworks, made once in a test run and shared by its workers."""

import fcntl
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from framework_environments import Place, play


class Plays:
    """The observations of *wanted* places, kept in *folder*, which all workers share."""

    def __init__(self, folder: Path, wanted: Iterable[Place], play: Callable = play) -> None:
        self._folder, self._wanted, self._play = folder, tuple(wanted), play
        self._read: dict[Place, dict[str, Any]] = {}
        folder.mkdir(exist_ok=True)

    def at(self, place: Place) -> dict[str, Any]:
        """Return the observations of *place*."""
        if place not in self._read:
            if not self._make(place, wait=False):
                # Another worker is at it: two of them make twice as many.
                for other in self._wanted:
                    if other != place and not self._file(place).exists():
                        self._make(other, wait=False)
                self._make(place, wait=True)
            self._read[place] = json.loads(self._file(place).read_text("utf-8"))
        return self._read[place]

    def _make(self, place: Place, *, wait: bool) -> bool:
        """Play *place* unless it was played; return False if another worker is at it."""
        with self._file(place).with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                return False
            file = self._file(place)
            if not file.exists():
                begun = file.with_suffix(".begun")
                begun.write_text(json.dumps(self._play(place, file.with_suffix(""))), "utf-8")
                begun.rename(file)
        return True

    def _file(self, place: Place) -> Path:
        return self._folder / f"{place.framework}-{place.release}.json"


@pytest.fixture(scope="session")
def plays(request, tmp_path_factory) -> Plays:
    """Return the observations of the places that the selected tests need."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    # Tests of other files have parameters of this name, too.
    wanted = {each for one in specs if one and isinstance(each := one.params.get("place"), Place)}
    return Plays(shared / "frameworks", sorted(wanted))
