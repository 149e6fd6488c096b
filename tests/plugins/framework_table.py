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
HEAD = 6
"""The number of rows in the README."""
YES, WRAPPED, NO, UNASKED = "yes", "wrapped", "no", "n/a"
LETTERS = {YES: "y", WRAPPED: "w", NO: "-", UNASKED: "."}
WORDS = {letter: word for word, letter in LETTERS.items()}
HEADS = {
    "Pydantic AI": "PyAI",
    "OpenAI Agents SDK": "OpAI",
    "LangChain": "LaCh",
    "Strands Agents": "Strd",
    "Google ADK": "ADK",
    "FastMCP": "FMCP",
    "agent-hooks": "AgHk",
    "toolbus": "us",
}
"""The heads of columns in the guide, whose table must fit a terminal."""

Cells = dict[str, dict[str, str]]


def cell_text(scenario: Scenario, framework: str, seen: Mapping[str, Any]) -> str:
    """Return what the hooks of *framework* and our bridge deliver, such as "no / yes".

    *seen* has all observations of the framework.
    """
    bridge = NO if scenario.problems(seen[scenario.title]["bridge"]) else YES
    if framework == OURS:
        return bridge
    deliveries = scenario.deliveries(FRAMEWORKS[framework].delivers)
    if bridge == NO and "outside" in deliveries.values():
        return UNASKED
    bridge = WRAPPED if bridge == YES and "wrapped" in deliveries.values() else bridge
    own = own_text(scenario, seen)
    # Drivers give hooks to each agent that takes over, where a bridge must be told of it.
    if own == YES and deliveries.get("handoffs") == "wrapped":
        own = WRAPPED
    return f"{own} / {bridge}"


def own_text(scenario: Scenario, seen: Mapping[str, Any]) -> str:
    """Return what a framework's own hooks deliver."""
    if scenario.ours:
        return UNASKED
    if scenario.problems(seen[scenario.title]["own"], "own"):
        return NO
    (unwrapped,) = [other for other in SCENARIOS if other.unwrapped]
    is_below = "sub_agents" in scenario.needs and scenario != unwrapped
    if is_below and own_text(unwrapped, seen) == NO:
        return WRAPPED
    return YES


def measured_cells(seen: Mapping[str, Mapping[str, Any]]) -> Cells:
    """Return the cells by scenario and framework, from the observations *seen* of each."""
    return {
        scenario.title: {title_of(name): cell_text(scenario, name, seen[name]) for name in seen}
        for scenario in SCENARIOS
    }


def title_of(framework: str) -> str:
    """Return the name of a column."""
    return OURS if framework == OURS else FRAMEWORKS[framework].title


def read_cells(page: Path = TABLE) -> Cells:
    """Return the cells that stand in *page*, none if it has no rows."""
    lines = page.read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(MARK))
    titles = {head: title for title, head in HEADS.items()}
    names, cells = [titles.get(head, head) for head in _split(lines[first])[1:]], {}
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        title, *row = _split(line)
        cells[title] = dict(zip(names, map(_long, row), strict=True))
    return cells


def _long(cell: str) -> str:
    """Return *cell* of the guide in words; one of the README is in words already."""
    is_short = len(cell) in {1, 3} and cell[::2].strip("yw-.") == ""
    return " / ".join([WORDS[letter] for letter in cell[::2]]) if is_short else cell


def _short(cell: str) -> str:
    return "/".join([LETTERS[word] for word in cell.split(" / ")])


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def write_cells(cells: Cells, page: Path = TABLE, rows: int | None = None) -> None:
    """Write *cells*, or the first *rows*, in place of the table of *page*."""
    lines = page.read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(MARK))
    last = next(
        number for number, line in enumerate([*lines[first:], ""], first) if line[:1] != "|"
    )
    columns = list(next(iter(cells.values())))
    if page == TABLE:
        columns = [HEADS[title] for title in columns]
        cells = {
            title: {name: _short(cell) for name, cell in row.items()}
            for title, row in cells.items()
        }
    table = [f"{MARK} {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    table += [f"| {title} | {' | '.join(row.values())} |" for title, row in cells.items()][:rows]
    page.write_text("\n".join([*lines[:first], *table, *lines[last:]]) + "\n", "utf-8")
