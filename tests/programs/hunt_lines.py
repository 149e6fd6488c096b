"""Hunts for lines that are said to only read and change something; records such lines.

    PYTHONPATH=tests/plugins python tests/programs/hunt_lines.py FIRST_SEED [COUNT]
    PYTHONPATH=tests/plugins python tests/programs/hunt_lines.py record [LINE ...]

The second runs the recorded lines again, with each LINE, and writes down what they changed.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from executed_lines import Hunt, record, recorded


def main(words: list[str]) -> int:
    """Do what *words* say; return 1 if a line was found."""
    with TemporaryDirectory() as folder:
        hunt = Hunt(Path(folder))
        if words[:1] == ["record"]:
            lines = list(dict.fromkeys([*(line for line, _ in recorded()), *words[1:]]))
            for line in record(hunt.jail, lines):
                print(f"changed nothing, and is not recorded: {line!r}")
            return 0
        first, count = map(int, (*words, 100_000)[:2])
        found = False
        for each in hunt.search(first, count):
            print(f"{each.seed}: {each.line!r}: {', '.join(each.changes[:4])}", flush=True)
            found = True
        print(f"{hunt.ran} lines ran")
        return int(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
