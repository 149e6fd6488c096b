"""The table of frameworks and scenarios: made of observations, and kept in a page of the guide."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bridges.scenarios import SCENARIOS, Scenario

import toolbus
from framework_environments import OURS
from toolbus.bridges.frameworks import FRAMEWORKS

TABLE = Path(toolbus.__file__).parent / "cli/guide/bridges.md"
README = Path(__file__).parents[2] / "README.md"
MARK = "| scenario |"
HEAD = 8
"""The number of rows in the README."""
YES, WRAPPED, NO, UNASKED = "yes", "wrapped", "no", "n/a"

Cells = dict[str, dict[str, str]]


def cell_text(scenario: Scenario, framework: str, seen: Mapping[str, Any]) -> str:
    """Return what the hooks of *framework* and our bridge deliver, such as "no / yes"."""
    bridge = NO if scenario.problems(seen["bridge"]) else YES
    if framework == OURS:
        return bridge
    deliveries = scenario.deliveries(FRAMEWORKS[framework].delivers).values()
    if bridge == NO and "outside" in deliveries:
        return UNASKED
    bridge = WRAPPED if bridge == YES and "wrapped" in deliveries else bridge
    if scenario.ours:
        return f"{UNASKED} / {bridge}"
    return f"{NO if scenario.problems(seen['own'], 'own') else YES} / {bridge}"


def measured_cells(seen: Mapping[str, Mapping[str, Any]]) -> Cells:
    """Return the cells by scenario and framework, from the observations *seen* of each."""
    return {
        scenario.title: {
            title_of(name): cell_text(scenario, name, seen[name][scenario.title]) for name in seen
        }
        for scenario in SCENARIOS
    }


def title_of(framework: str) -> str:
    """Return the name of a column."""
    return OURS if framework == OURS else FRAMEWORKS[framework].title


def read_cells(page: Path = TABLE) -> Cells:
    """Return the cells that stand in *page*, none if it has no rows."""
    lines = page.read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(MARK))
    names, cells = _split(lines[first])[1:], {}
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        title, *row = _split(line)
        cells[title] = dict(zip(names, row, strict=True))
    return cells


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def write_cells(cells: Cells, page: Path = TABLE, rows: int | None = None) -> None:
    """Write *cells*, or the first *rows*, in place of the table of *page*."""
    lines = page.read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(MARK))
    last = next(
        number for number, line in enumerate([*lines[first:], ""], first) if line[:1] != "|"
    )
    columns = next(iter(cells.values()))
    table = [f"{MARK} {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    table += [f"| {title} | {' | '.join(row.values())} |" for title, row in cells.items()][:rows]
    page.write_text("\n".join([*lines[:first], *table, *lines[last:]]) + "\n", "utf-8")
