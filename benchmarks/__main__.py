"""Run every benchmark and print its claim beside what was measured, as ratios to a baseline."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import sysconfig
from importlib import import_module
from pathlib import Path


def machine() -> dict[str, str]:
    """Return what the figures depend on."""
    flags = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return {
        "python": platform.python_version(),
        "build": "PGO" if "--enable-optimizations" in flags else "no PGO",
        "machine": f"{platform.system()} {platform.machine()}",
    }


def main() -> int:
    """Run the benchmarks; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--once", action="store_true", help="run once, time nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = []
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        module = import_module(f"benchmarks.{path.stem}")
        for name, function in vars(module).items():
            if name.startswith("bench_"):
                figures = function(1 if options.once else module.ROUNDS)
                rows.append({"claim": function.__doc__, "figures": figures})
    if options.once:
        print(f"{len(rows)} benchmarks ran")
    elif options.json:
        print(json.dumps({"machine": machine(), "benchmarks": rows}, indent=2))
    else:
        print(*machine().values(), sep=", ")
        for row in rows:
            print(f"\n{row['claim']}")
            for what, ratio in row["figures"].items():
                print(f"  {what:<52} {ratio:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
