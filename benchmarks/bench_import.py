"""What importing toolbus costs."""

from __future__ import annotations

import os
import subprocess
import sys

ROUNDS = 15

_CLOCK = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def bench_import_of_the_face(rounds: int) -> dict[str, float]:
    """Importing the face costs at most 1.3 times what its dependencies and asyncio cost."""
    baseline = "import asyncio, blinker, msgspec"
    ours = "from toolbus import Agent, EventBus"
    return {"times the import of asyncio, blinker and msgspec": _ratio(ours, baseline, rounds)}


def bench_import_of_the_records(rounds: int) -> dict[str, float]:
    """Importing the records costs little more than importing msgspec."""
    ratio = _ratio("import toolbus.messages", "import msgspec", rounds)
    return {"times the import of msgspec": ratio}


def _ratio(code: str, baseline: str, rounds: int) -> float:
    # Interleaved, and the best of each: whatever else the machine does hits both.
    pairs = [(_seconds(code), _seconds(baseline)) for _ in range(rounds)]
    return min(one for one, _ in pairs) / min(one for _, one in pairs)


def _seconds(code: str) -> float:
    command = [sys.executable, "-c", _CLOCK.format(code)]
    # Compiled once, as an installed package is; the first round compiles and is never the best.
    with_cache = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=with_cache)  # noqa: S603 - our own code
    return float(done.stdout)
