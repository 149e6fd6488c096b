"""Run the tests against a random sample of mutants, and tell which of them survive.

The one command, in a checkout (it leaves a folder `mutants/` behind, which git ignores):

    python3 -m venv .venv-mutation && .venv-mutation/bin/pip install -q '.[mutation]' \
        && .venv-mutation/bin/python tests/mutation/sample.py --mutants 150

Which files are mutated, and which tests run, stands under `tool.mutmut` in pyproject.toml. The
survivors of the last run by hand are in `survivors.md` beside this file.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTMUT = Path(sys.executable).with_name("mutmut")
SURVIVED, UNTESTED = 0, 33


def main() -> int:
    parser = argparse.ArgumentParser(description="Sample mutants and run the tests against them.")
    parser.add_argument("--mutants", type=int, default=150, help="how many (150)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the sample")
    options = parser.parse_args()

    # mutmut has no command that only makes the mutants; asking for none makes them and stops.
    made = mutmut("none-of-them")
    names = sorted(results())
    if not names:
        sys.exit(made.stdout[-3000:] + made.stderr[-3000:])
    sample = random.Random(options.seed).sample(names, min(options.mutants, len(names)))
    print(f"{len(sample)} of {len(names)} mutants, seed {options.seed}", flush=True)
    ran = mutmut(*sample)
    codes = {name: code for name, code in results().items() if name in set(sample)}
    if None in codes.values():
        # Most likely a test fails without any mutant.
        sys.exit(f"{ran.stdout[-3000:]}\nnot every mutant was tested; see above")
    return report(codes)


def mutmut(*names: str) -> subprocess.CompletedProcess[str]:
    command = [str(MUTMUT), "run", *names]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def results() -> dict[str, int | None]:
    """Return the exit code of the tests for each mutant, None for those that did not run."""
    codes: dict[str, int | None] = {}
    for path in ROOT.glob("mutants/src/**/*.meta"):
        codes |= json.loads(path.read_text("utf-8"))["exit_code_by_key"]
    return codes


def report(codes: dict[str, int | None]) -> int:
    survivors = sorted(name for name, code in codes.items() if code in {SURVIVED, UNTESTED})
    for name in survivors:
        shown = subprocess.run(
            [str(MUTMUT), "show", name], cwd=ROOT, capture_output=True, text=True, check=False
        )
        print(f"\n{shown.stdout.strip()}")
    killed = len(codes) - len(survivors)
    per_module = Counter(name.split(".x", 1)[0] for name in survivors)
    print(*[f"{count:4} survive in {module}" for module, count in per_module.items()], sep="\n")
    print(f"{killed} of {len(codes)} killed ({killed / max(1, len(codes)):.0%})")
    return 0 if killed >= 0.85 * len(codes) else 1


if __name__ == "__main__":
    sys.exit(main())
