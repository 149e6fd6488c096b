"""Measure recall on texts of others, which are in no repository of ours.

    python -m benchmarks.redaction.foreign --corpus DIR [--scanner betterleaks]…

DIR holds a file NAME.jsonl for each corpus: in every line an object with `text`, and with `secret`,
which stands in it; texts without one, where the corpus has negatives, have an empty `secret`. For
each corpus and scanner it prints how many percent of the secrets are gone, of how many; and of the
negatives, how many come out otherwise. It prints no text: rules are not made for these.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.redaction import scanners
from benchmarks.redaction.misses import is_bad
from benchmarks.redaction.sets import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

_USUAL = (scanners.OURS, "betterleaks")


def load(folder: Path) -> Iterator[tuple[str, list[Case]]]:
    """Give the name of each corpus in *folder* and its cases.

    Raises ValueError for a secret that its text does not hold.
    """
    for file in sorted(folder.glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line]
        for number, row in enumerate(rows, 1):
            if row["secret"] not in row["text"]:
                raise ValueError(f"{file}:{number}: the secret is not in the text")
        yield file.stem, [Case(file.stem, file.stem, row["text"], row["secret"]) for row in rows]


def main() -> None:
    """Print a line for each corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, metavar="DIR")
    parser.add_argument("--scanner", action="append", choices=scanners.BUILDS)
    options = parser.parse_args()
    names = options.scanner or _USUAL
    some = [scanners.BUILDS[name]() for name in names]
    print(f"{'found, % (negatives changed, %)':<36} {'of':>11}  " + "  ".join(names))
    for corpus, cases in load(options.corpus):
        secrets = [one for one in cases if one.secret]
        negatives = [one for one in cases if not one.secret]
        cells = []
        for scanner, name in zip(some, names, strict=True):
            found = f"{100 - _percent_bad(scanner, secrets):.1f}" if secrets else "-"
            wrong = f" ({_percent_bad(scanner, negatives):.1f})" if negatives else ""
            cells.append(f"{found}{wrong}".rjust(len(name)))
        print(f"{corpus:<36} {len(secrets):>5}+{len(negatives):<5}  " + "  ".join(cells))


def _percent_bad(scanner: scanners.Scanner, cases: list[Case]) -> float:
    cleaned = scanner.cleaned([one.text for one in cases])
    bad = [is_bad(case, text) for case, text in zip(cases, cleaned, strict=True)]
    return 100 * sum(bad) / len(bad)


if __name__ == "__main__":
    main()
