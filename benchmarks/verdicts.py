"""A table of what holds, printed with what was observed where it does not."""

from __future__ import annotations

from itertools import groupby
from typing import Any

WORDS = {1.0: "holds", 0.0: "DOES NOT", None: "-"}


def print_verdicts(table: dict[str, Any]) -> None:
    """Print a line for each scenario and a column for each system, and the notes below."""
    cells = {(one["row"], one["contender"]): one["value"] for one in table["figures"]}
    rows = list(dict.fromkeys(row for row, _ in cells))
    names = list(dict.fromkeys(name for _, name in cells))
    print(f"\n{table['name']}: {table['claim']}")
    lines = [["", *names]]
    lines += [[row, *[WORDS[cells.get((row, name))] for name in names]] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        print("  ".join(padded).rstrip())
    listed = sorted(table["notes"], key=lambda note: rows.index(note["row"]))
    print("- cannot be expressed there; what was observed, or why it cannot be expressed:")
    for row, notes in groupby(listed, lambda note: note["row"]):
        print(f"  {row}")
        for note in notes:
            word = WORDS[cells[row, note["contender"]]]
            print(f"    {note['contender']} ({word}): {note['text']}")
    for name, reason in table["absent"].items():
        print(f"not tried: {name}: {reason}")
