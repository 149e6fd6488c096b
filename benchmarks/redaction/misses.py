"""Print what of the first half of a set is missed, or taken wrongly, for whoever writes rules.

    python -m benchmarks.redaction.misses everyday
    python -m benchmarks.redaction.misses formats --group "ansi colours around"
    python -m benchmarks.redaction.misses lookalikes --texts 5
    python -m benchmarks.redaction.misses everyday --scanner betterleaks
    python -m benchmarks.redaction.misses search

The last ones (`python`, `javascript`, `search`, `logs`) are real text without secrets, in which
every changed line is an alarm.

For each group: how many of its texts are missed, or changed in case of look-alikes. Then, for each
entry that is concerned, the number and the first of its texts as they come out. Rules are written
for classes that are known from published formats and everyday life, not for these texts. The
second half is not to be had here.
"""

from __future__ import annotations

import argparse
import difflib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from benchmarks.redaction import scanners, sets, texts

if TYPE_CHECKING:
    from benchmarks.redaction.sets import Case


_SHORT = 400
SETS = sets.SETS | texts.TEXTS


def main() -> None:
    """Print the misses that the command line asks for."""
    options = _parser().parse_args()
    cases = SETS[options.set]()
    if options.group:
        cases = [one for one in cases if options.group in {one.group, one.name}]
    cleaned = scanners.BUILDS[options.scanner]().cleaned([one.text for one in cases])
    bad = [pair for pair in zip(cases, cleaned, strict=True) if is_bad(*pair)]
    _print_groups(cases, bad)
    by_name: dict[str, list[tuple[Case, str]]] = defaultdict(list)
    for case, text in bad:
        by_name[case.name].append((case, text))
    for name, pairs in by_name.items():
        print(f"\n== {name}: {len(pairs)}")
        for case, text in pairs[: options.texts]:
            print(f"{text}\n" if case.secret else _difference(case.text, text))


def is_bad(case: Case, cleaned: str) -> bool:
    """Tell whether the secret of *case* stays in *cleaned*, or a look-alike is changed."""
    return not sets.gone(case.secret, cleaned) if case.secret else cleaned != case.text


def _difference(text: str, cleaned: str) -> str:
    """Return the lines that are in one of them only, or both whole where they are short."""
    if len(text) < _SHORT:
        return f"{text}\n-> {cleaned}\n"
    lines = difflib.unified_diff(text.split("\n"), cleaned.split("\n"), n=0, lineterm="")
    return "\n".join([line[:_SHORT] for line in lines if line[:3] not in {"---", "+++"}])


def _print_groups(cases: list[Case], bad: list[tuple[Case, str]]) -> None:
    totals, counts = (
        Counter(one.group for one in some) for some in (cases, [case for case, _ in bad])
    )
    for group, total in totals.items():
        print(f"{group:<28} {counts[group]:>5} of {total:>5}  {100 * counts[group] / total:5.1f} %")
    share = 100 * len(bad) / max(1, len(cases))
    print(f"{'all':<28} {len(bad):>5} of {len(cases):>5}  {share:5.1f} %")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--group", help="only the entries of this group, or this one entry")
    parser.add_argument("--texts", type=int, default=1, help="texts of an entry (%(default)s)")
    parser.add_argument("--scanner", choices=scanners.BUILDS, default="toolbus")
    return parser


if __name__ == "__main__":
    main()
