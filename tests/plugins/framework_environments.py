"""The environments of other frameworks, and what our bridges did there; made once in a test run.

An environment has the oldest or the newest release of a framework that our extra allows. Its driver
plays all scenarios in one process, and the observations are kept beside it in the folder of the
run. Who needs an environment that another worker is making makes another one meanwhile.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.bridges.scenarios import HIDDEN, SCENARIOS

from toolbus.bridges.frameworks import FRAMEWORKS

ROOT = Path(__file__).parents[2]
WORLD = ROOT / "tests/bridges"
OURS = "toolbus"
HOSTS = {"agent_hooks": "agent_framework"}
"""The driver of what is a contract and no framework: a host that speaks it."""
PACKAGES = {"agent_hooks": ("agent-framework-core", "opentelemetry-sdk")}
"""What a driver needs besides the extra."""
MEASURED = {
    "rewrite": {"rewrite": "lookup", "set": {"key": "x"}},
    "denial": {"deny": "lookup"},
    "redaction": {"redact": "*"},
}
"""The handlers whose cost is measured."""
SECONDS = 300
QUIET = {
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "0",
    "OTEL_SDK_DISABLED": "false",
    "PYTHONPATH": str(ROOT / "src"),
}
"""Nothing leaves the machine, and what is traced there is seen by the driver alone."""


class Place(NamedTuple):
    """A framework in its *release*, "oldest" or "newest"; our own agent has only "newest"."""

    framework: str
    release: str = "newest"

    @property
    def modes(self) -> tuple[str, ...]:
        """Return how each scenario is played there."""
        return ("bridge",) if self.framework == OURS else ("bridge", "own")

    @property
    def leaf(self) -> str:
        """Return the name of its driver, `LEAF_world.py`."""
        return HOSTS.get(self.framework, self.framework)


PLACES = tuple(
    place
    for name in FRAMEWORKS
    for place in (Place(name, "oldest"), Place(name))
    if (WORLD / f"{place.leaf}_world.py").exists()
)


def requirements(place: Place) -> list[str]:
    """Return what pip installs for *place*: what our extra says, the oldest by its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    framework = FRAMEWORKS[place.framework]
    wanted = project["optional-dependencies"][framework.extra]
    if place.release == "oldest":
        oldest = rf"^({re.escape(framework.package)}(?:\[[^]]*\])?)>=([^,]+).*$"
        wanted = [re.sub(oldest, r"\1==\2", one) for one in wanted]
    return [*project["dependencies"], *wanted, *PACKAGES.get(place.framework, ())]


def interpreter(place: Place, folder: Path, *, makes: bool = True) -> str | None:
    """Return the interpreter of *place* in *folder*, which is made unless it is there.

    Without *makes* it is None if there is none with the present requirements.
    """
    if place.framework == OURS:
        return sys.executable
    stamp, python = folder / "made", str(folder / "bin/python")
    wanted = "\n".join(requirements(place))
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        if not makes:
            return None
        run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)])
        # What is imported is compiled then; most files of these packages never are.
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-input"]
        run([*pip, "--no-compile", *requirements(place)])
        stamp.write_text(wanted, "utf-8")
    return python


def run(command: list[str]) -> None:
    """Run *command*; raises with what it wrote if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


class Driver:
    """A process that plays scenarios in the environment of *python*."""

    def __init__(self, python: str, leaf: str, log: Path) -> None:
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [python, str(WORLD / "run_world.py"), leaf],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **QUIET},
                text=True,
                encoding="utf-8",
            )
        self._log = log

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to *request*."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the driver ended:\n{self._log.read_text('utf-8')[-4000:]}")
        return json.loads(line)

    def __enter__(self) -> Self:
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def play(place: Place, folder: Path) -> dict[str, Any]:
    """Return all observations of *place* by title and mode; *folder* is for its environment.

    "measurements" has those of short measurements, by the handler's work; "checks" is the end of
    the checks for what no scenario asks, if there are any.
    """
    kept = Path(os.environ.get("TOOLBUS_ENVIRONMENTS", folder.parent), folder.name)
    python = interpreter(place, kept)
    with Driver(python, place.leaf, folder.with_suffix(".log")) as driver:
        plays = {
            scenario.title: {
                mode: driver.ask(scenario=scenario.title, mode=mode)
                for mode in place.modes
                if mode != "own" or not scenario.ours
            }
            for scenario in SCENARIOS
        }
        plays["measurements"] = {
            work: {
                mode: driver.ask(measure=[handler], calls=3, mode=mode)
                for mode in ("plain", *place.modes)
            }
            for work, handler in MEASURED.items()
        }
    if (checks := WORLD / f"{place.leaf}_checks.py").exists():
        plays["checks"] = check(python, checks)
    return plays


def check(python: str, checks: Path) -> dict[str, Any]:
    """Return the end of the program *checks* in the environment of *python*."""
    done = subprocess.run(
        [python, str(checks)],
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return {"returncode": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def did_work(work: str, seen: dict[str, Any]) -> bool:
    """Return whether the handler of MEASURED that *work* names did its work in *seen*."""
    if "crashed" in seen:
        raise RuntimeError(seen["crashed"])
    if work == "denial":
        return seen["ran"] == 0
    return ("token of x" if work == "rewrite" else HIDDEN) in seen["read"]
