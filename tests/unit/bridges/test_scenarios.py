"""The scenarios of bridges would notice that nothing is delivered."""

import sys

import pytest
from tests.bridges.scenarios import SCENARIOS

from framework_environments import OURS, Driver

HARMLESS = {"Parallel calls run at once"}
"""Its handlers are for other tools."""


@pytest.mark.full
def test_a_scenario_with_handlers_fails_without_them(tmp_path):
    judged = [
        scenario
        for scenario in SCENARIOS
        if scenario.title not in HARMLESS
        and any("disabled" not in one for one in scenario.handlers)
    ]

    with Driver(sys.executable, OURS, tmp_path / "log") as driver:
        passed = [
            scenario.title
            for scenario in judged
            if not scenario.problems(driver.ask(scenario=scenario.title, mode="plain"))
        ]

    assert len(judged) > 35
    assert passed == []
