"""What is seen from outside of a system: effects and what the model read, as lines of files."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from benchmarks.approvals.protocol import FINAL, Call, Setup

if TYPE_CHECKING:
    from pathlib import Path

_PATIENCE_S = 3.0


def effect(setup: Setup, tool: str, text: str) -> str:
    """Be the tool *tool*: write a line where its effect begins and one where it ends."""
    kill(setup, "before the effect")
    _write(setup.place / "effects", {"tool": tool, "text": text, "session": setup.session})
    kill(setup, "inside the effect")
    _meet(setup)
    _write(setup.place / "ends", {"tool": tool, "text": text})
    kill(setup, "after the effect")
    return f"{tool} did {text}"


def effects(place: Path, tool: str = "write") -> list[str]:
    """Return the texts of the effects of *tool*, in order."""
    return [line["text"] for line in _lines(place / "effects") if line["tool"] == tool]


def next_turn(
    setup: Setup, turns_made: int, results: dict[str, str], *, nested: str = ""
) -> tuple[tuple[Call, ...], str]:
    """Be the model, which read *results* by call id: return its calls, and its words."""
    _write(setup.place / "read", {"pid": os.getpid(), "results": results, "nested": nested})
    if nested:
        done = ((), f"sub-agent: {FINAL}")
        return done if turns_made else ((Call(f"{nested}-1", "write", nested),), "")
    if turns_made:
        kill(setup, "after the result")
    return (setup.turns[turns_made], "") if turns_made < len(setup.turns) else ((), FINAL)


def read(place: Path) -> list[dict[str, str]]:
    """Return what the model of the agent read at each of its turns: results by call id."""
    return [line["results"] for line in _lines(place / "read") if not line["nested"]]


def kill(setup: Setup, where: str) -> None:
    """End this process as `kill -9` does, if it is *where* that is to happen."""
    if setup.kill == where:
        os.kill(os.getpid(), signal.SIGKILL)


def done(place: Path) -> None:
    """Say that this process has ended its step, so that nobody waits for it."""
    (place / f"done-{os.getpid()}").touch()


def _meet(setup: Setup) -> None:
    """Wait inside of the effect until each of the others is there too, or has ended."""
    if not setup.meet:
        return
    (setup.place / f"here-{os.getpid()}").touch()
    until = time.perf_counter() + _PATIENCE_S
    while time.perf_counter() < until:
        here = {path.name.split("-")[1] for path in setup.place.glob("here-*")}
        gone = {path.name.split("-")[1] for path in setup.place.glob("done-*")}
        if len(here | gone) >= setup.meet:
            return
        time.sleep(0.01)


def _write(path: Path, line: dict[str, Any]) -> None:
    # One write to a file opened for appending is whole, whoever else writes.
    with path.open("ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
