"""The table: every scenario tried on every system that is here."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from benchmarks.approvals import scenarios
from benchmarks.approvals.steps import Steps
from benchmarks.harness import CannotError

SYSTEMS = {
    "pydantic_ai": "pydantic-ai",
    "pydantic_ai_dbos": "pydantic-ai, DBOS",
    "openai_agents": "openai-agents",
    "langgraph": "langgraph",
    "langchain": "langchain",
    "langchain_per_call": "langchain, per call",
    "toolbus": "toolbus",
}
"""The files of `systems/`, and their names in the table."""

HOLDS, DOES_NOT, CANNOT = "holds", "does not", "cannot be expressed"


class Cell(NamedTuple):
    """What a scenario came to on a system, and what was observed."""

    word: str
    note: str = ""


def try_all(module: str) -> dict[str, Cell]:
    """Return the cells of a system by the scenarios' claims; `ImportError` if it is not here."""
    import_module(f"benchmarks.approvals.systems.{module}")
    steps = Steps(module)
    return {one.claim: tried(one, steps) for one in scenarios.SCENARIOS}


def tried(scenario: scenarios.Scenario, steps: Steps) -> Cell:
    """Return what *scenario* came to."""
    try:
        problem = scenario.check(steps)
    except CannotError as reason:
        return Cell(CANNOT, str(reason))
    except scenarios.ProblemError as reason:
        problem = str(reason)
    return Cell(DOES_NOT, problem) if problem else Cell(HOLDS)
