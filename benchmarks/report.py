"""What was measured, merged over the processes and printed."""

from __future__ import annotations

import os
import platform
import sysconfig
from pathlib import Path
from statistics import median
from typing import Any

OURS = "toolbus"
_SCALES = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


def machine() -> dict[str, str]:
    """Return what the figures depend on."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "build": _build(sysconfig.get_config_var("CONFIG_ARGS")),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "processor": _processor(),
    }


def merge(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tables of one file, each cell the median over the processes *runs*."""
    merged = []
    for tables in zip(*[run["tables"] for run in runs], strict=True):
        cells: dict[tuple[str, str], list[float]] = {}
        for table in tables:
            for figure in table["figures"]:
                values = cells.setdefault((figure["row"], figure["contender"]), [])
                if figure["value"] is not None:
                    values.append(figure["value"])
        figures = [
            {"row": row, "contender": contender, "value": median(values) if values else None}
            for (row, contender), values in cells.items()
        ]
        merged.append({**tables[0], "figures": figures})
    return merged


def print_machine(facts: dict[str, str], versions: dict[str, str], absent: dict[str, str]) -> None:
    """Print what the figures depend on."""
    print(", ".join(facts.values()))
    print(", ".join(f"{name} {version}" for name, version in sorted(versions.items())))
    for name, reason in absent.items():
        print(f"not installed: {name}: {reason}")


def print_table(table: dict[str, Any]) -> None:
    """Print a table: a line for each contender, a column for each row of figures."""
    cells = {(one["row"], one["contender"]): one["value"] for one in table["figures"]}
    rows = list(dict.fromkeys(row for row, _ in cells))
    names = list(dict.fromkeys(name for _, name in cells))
    unit = f"times {table['baseline']}" if table["baseline"] else table["unit"]
    print(f"\n{table['name']}, {unit}: {table['claim']}")
    lines = [["", *rows, "does not" if any(table["lacks"].values()) else ""]]
    beaten = False
    for name in names:
        line = [name]
        for row in rows:
            text, wins = _cell(table, cells, row, name)
            line.append(text)
            beaten |= wins
        lines.append([*line, table["lacks"].get(name, "")])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        first, *middle, last = line
        shown = [first.ljust(widths[0])]
        shown += [text.rjust(width) for text, width in zip(middle, widths[1:-1], strict=True)]
        print("  ".join([*shown, last]).rstrip())
    if beaten:
        print("* costs less than toolbus")
    for name, reason in table["absent"].items():
        print(f"not measured: {name}: {reason}")


def print_verdicts(verdicts: list[dict[str, Any]]) -> None:
    """Print what must be reached, and whether it was."""
    if not verdicts:
        return
    print("\nwhat it must reach")
    for one in verdicts:
        word = {True: "reached", False: "NOT REACHED", None: "not measured"}[one["reached"]]
        value = "" if one["measured"] is None else f"{one['measured']:.2f}"
        aim = f", aim {one['aim']}" if one["aim"] else ""
        print(f"  {word:<12} {value:>9}  {one['bound']} {one['limit']}{aim}  {one['text']}")


def _cell(
    table: dict[str, Any], cells: dict[tuple[str, str], Any], row: str, name: str
) -> tuple[str, bool]:
    """Return a cell's text, and whether a peer costs less than we do there."""
    if (row, name) not in cells:
        return "-", False
    value, ours = cells[row, name], cells.get((row, table["ours"]))
    if value is None:
        return "ran", False
    base = cells.get((row, table["baseline"]))
    text = (
        _worded(value, table["unit"])
        if base is None or name == table["baseline"]
        else (f"{value / base:.2f}")
    )
    # What stands for no bus at all is no peer.
    ourselves = name.startswith(OURS) or table["lacks"].get(name) == "everything"
    cheaper = ours is not None and (value > ours if row.endswith("per second") else value < ours)
    wins = cheaper and not ourselves and name != table["ours"]
    return (f"*{text}" if wins else text), wins


def _worded(value: float, unit: str) -> str:
    if unit == "ns":
        name, scale = next((one for one in _SCALES if value >= one[1]), _SCALES[-1])
        return f"{value / scale:.3g} {name}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _build(flags: str | None) -> str:
    """Return how the interpreter was compiled, as far as its own configuration says."""
    if flags is None:
        return "built with or without PGO, it does not say"
    if "--enable-optimizations" in flags:
        return "a PGO build"
    return "not a PGO build by its configuration: all figures are slower"


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            found = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    except OSError:
        found = []
    return found[0] if found else platform.processor() or "unknown processor"


def print_ran(tables: list[dict[str, Any]]) -> None:
    """Print which tables ran, with which contenders, and which ones are not installed here."""
    for table in tables:
        names = dict.fromkeys(figure["contender"] for figure in table["figures"])
        print(f"{table['name']}: {', '.join(names)}")
    if absent := sorted({name for table in tables for name in table["absent"]}):
        print(f"not here, a run with times installs them: {', '.join(absent)}")
    print(f"{len(tables)} tables ran, nothing was timed")
