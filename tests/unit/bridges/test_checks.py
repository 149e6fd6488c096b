"""The bridges beyond the scenarios: pauses, forged answers, odd values, other plugins."""

import pytest

from framework_environments import PLACES

CHECKS = {
    "fastmcp": 20,
    "google_adk": 27,
    "langchain": 20,
    "openai_agents": 35,
    "pydantic_ai": 30,
    "strands": 14,
}
"""By framework the least number of checks in `tests/bridges/*_checks.py`."""


@pytest.mark.full
@pytest.mark.parametrize(
    "place",
    [place for place in PLACES if place.framework in CHECKS],
    ids=lambda place: f"{place.framework}-{place.release}",
)
def test_the_checks_of_a_bridge_hold(plays, place):
    checks = plays.at(place)["checks"]

    assert checks["returncode"] == 0, checks["stdout"] + checks["stderr"]
    assert len(checks["stdout"].split()) >= CHECKS[place.framework]
