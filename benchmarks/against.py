"""The comparison with another version: both as wheels, their processes in turns, one table."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from contextlib import ExitStack
from operator import sub, truediv
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.environment import ROOT, run, say
from benchmarks.harness import ROUNDS
from benchmarks.version_rows import BARE, FORWARDER, FULL, PARTS, RESULTS, ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

NOW = "now"
SECONDS_PER_ROW, FEWEST_ROUNDS = 15.0, 5
RATIOS = {
    f"tool call, over {BARE}": 0.9,
    f"{FULL}, over {BARE}": 0.8,
    "agent.append": 1.0,
    "agent.run without tools": 1.0,
}
"""The most that a line may cost now, times the cost in 0.1.0."""

LIMITS = {
    RESULTS: 0.2e6,
    f"import, times {PARTS}": 1.3,
    f"judged proxy call, times {FORWARDER}": 3.5,
}
"""The most that a line may be now, in its unit."""

BESIDE = {"import": PARTS, "judged proxy call": FORWARDER}
_OVER_BARE = ("tool call", FULL)


class Compared(NamedTuple):
    """The least figure of a row in each version; a text says why there is none."""

    row: str
    unit: str
    then: float | str
    now: float | str
    ratio: float | None
    bound: str | None = None
    reached: bool | None = None


def compare(treeish: str, rows: list[str], *, once: bool = False) -> list[Compared]:
    """Return *rows* of the tree *treeish* and of the working tree, measured in one run."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        sources = Path(folder, "tree")
        unpack(treeish, sources, ROOT)
        then, now = install(treeish, sources, folder), install("the working tree", ROOT, folder)
        versions = (_Version(then, opened), _Version(now, opened))
        figures = {}
        for number, row in enumerate(rows, 1):
            say(f"{row}: row {number} of {len(rows)}")
            figures[row] = _race(row, versions, once=once)
    return list(judged(figures))


def unpack(treeish: str, to: Path, repository: Path) -> None:
    """Write the files of *treeish* below *to*; end the program if it holds no toolbus."""
    git = ["git", "-C", str(repository)]
    if run([*git, "rev-parse", "--git-dir"]).returncode:
        raise SystemExit(f"--against needs a git repository, and {str(repository)!r} is none")
    if run([*git, "rev-parse", "--verify", "--quiet", f"{treeish}^{{tree}}"]).returncode:
        raise SystemExit(f"git knows no tree {treeish!r}; give a commit, a branch or a tag")
    archive = [*git, "archive", "--format=tar", f"{treeish}^{{tree}}"]
    packed = subprocess.run(archive, check=True, capture_output=True).stdout  # noqa: S603 - our own command
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(to, filter="data")
    if not (to / "src/toolbus/__init__.py").is_file():
        raise SystemExit(f"the tree {treeish!r} has no src/toolbus/__init__.py to install")


def install(name: str, sources: Path, folder: str) -> str:
    """Build a wheel of *sources* into an environment of its own; return the interpreter."""
    say(f"installing {name}")
    place = Path(tempfile.mkdtemp(dir=folder))
    python = str(place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    for command in (
        [sys.executable, "-m", "venv", str(place)],
        [python, "-m", "pip", "install", "--quiet", "--no-input", f"{sources}[redact]"],
    ):
        done = run(command)
        if done.returncode:
            raise SystemExit(f"{name} could not be installed:\n{done.stderr.strip()}")
    return python


class _Version:
    """The process that times the rows of one version."""

    def __init__(self, python: str, opened: ExitStack) -> None:
        # The sources of the working tree must not come before the installed version.
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [python, "-m", "benchmarks.version_rows"],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        opened.enter_context(self._process)

    def turn(self, row: str) -> float | str:
        """Return the nanoseconds of *row* in another turn, or why there are none."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(row) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of one version ended at {row!r}; its error is above")
        answer: float | str = json.loads(line)
        return answer


def _race(row: str, versions: tuple[_Version, ...], *, once: bool) -> list[float | str]:
    """Return the least of many turns of each version, which take turns."""
    least = [version.turn(row) for version in versions]
    end = monotonic() + SECONDS_PER_ROW
    for number in range(0 if once else ROUNDS):
        if number >= FEWEST_ROUNDS and monotonic() > end:
            break
        for at, version in enumerate(versions):
            if isinstance(known := least[at], float):
                again = version.turn(row)
                least[at] = min(known, again) if isinstance(again, float) else again
    return least


def judged(figures: dict[str, list[float | str]]) -> Iterator[Compared]:
    """Give a line for each row, and another for each that is read in times of its neighbour."""
    for row, values in figures.items():
        if row in _OVER_BARE:
            yield _compared(f"{row}, over {BARE}", "ns", _pairs(sub, values, figures[BARE]))
        else:
            yield _compared(row, "ns", values)
        beside = BESIDE.get(row)
        if beside in figures:
            times = _pairs(truediv, values, figures[beside])
            yield _compared(f"{row}, times {beside}", "times", times)


def _compared(row: str, unit: str, values: list[float | str]) -> Compared:
    then, now = values
    ratio = None if isinstance(then, str) or isinstance(now, str) else now / then
    if row in RATIOS:
        reached = None if ratio is None else ratio <= RATIOS[row]
        return Compared(row, unit, then, now, ratio, f"now/then ≤ {RATIOS[row]}", reached)
    if row in LIMITS:
        reached = None if isinstance(now, str) else now <= LIMITS[row]
        bound = f"now ≤ {_shown(LIMITS[row], unit)}"
        return Compared(row, unit, then, now, ratio, bound, reached)
    return Compared(row, unit, then, now, ratio)


def _pairs(
    act: Callable[[float, float], float], values: list[float | str], others: list[float | str]
) -> list[float | str]:
    """Return *act* of the figures of each version; a text that stands for one stays."""
    pairs = zip(values, others, strict=True)
    return [
        one if isinstance(one, str) else other if isinstance(other, str) else act(one, other)
        for one, other in pairs
    ]


def print_compared(treeish: str, rows: Iterable[Compared]) -> None:
    """Print a line for each row: then, now, the ratio, and the bound that it must keep."""
    words = {True: "reached", False: "NOT REACHED", None: "not measured"}
    lines = [["", treeish, NOW, "now/then", ""]]
    reasons = []
    for one in rows:
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        bound = f"{one.bound}: {words[one.reached]}" if one.bound else ""
        lines.append([one.row, _shown(one.then, one.unit), _shown(one.now, one.unit), ratio, bound])
        reasons += [
            f"not there: {one.row}, {version}: {value}"
            for version, value in ((treeish, one.then), (NOW, one.now))
            if isinstance(value, str)
        ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, *figures, bound in lines:
        cells = [text.rjust(width) for text, width in zip(figures, widths[1:-1], strict=True)]
        print("  ".join([name.ljust(widths[0]), *cells, bound]).rstrip())
    print("\n".join(reasons), end="\n" if reasons else "")


def as_json(treeish: str, rows: Iterable[Compared]) -> dict[str, Any]:
    """Return the comparison as `--json` writes it."""
    return {"against": treeish, "rows": [one._asdict() for one in rows]}


def _shown(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return "not there"
    if unit == "times":
        return f"{value:.2f}"
    return f"{value / 1e6:.3g} ms" if value >= 1e5 else f"{value / 1e3:.3g} µs"


def chosen(words: list[str] | None) -> list[str]:
    """Return the rows whose names hold one of *words*, or all; end the program if none does."""
    found = [row for row in ROWS if not words or any(word in row for word in words)]
    if not found:
        raise SystemExit(f"no row holds {words!r}; rows: {'; '.join(ROWS)}")
    # A row that is read beside another one is measured with it.
    beside = [BESIDE[row] for row in found if row in BESIDE]
    return [row for row in ROWS if row in {BARE, *beside, *found}]
