"""The scenarios of `specs/bridges.md`: data in `tests/bridges`, played in each framework.

Our own agent plays them in a quick run, the frameworks in a full one, each in an environment that
the run makes. To reuse environments, name a folder for them in `TOOLBUS_ENVIRONMENTS`.
"""

import re
from typing import NamedTuple

import pytest
from tests.bridges.scenarios import SCENARIOS, Scenario

from framework_environments import OURS, PLACES, Place, did_work
from framework_table import HEAD, README, TABLE, measured_cells, read_cells, write_cells
from toolbus import AgentComponent, Deny, guard, on
from toolbus.bridges.frameworks import FRAMEWORKS
from toolbus.bridges.host import BridgeHost
from toolbus.errors import RegistrationError
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
)

BY_TEST = {
    "test_" + re.sub(r"[^a-z0-9]+", "_", scenario.title.lower()): scenario for scenario in SCENARIOS
}


class Cell(NamedTuple):
    """A *scenario* at a *place*, with its observations by mode."""

    scenario: Scenario
    place: Place
    seen: dict

    @property
    def problems(self) -> list[str]:
        """Return why the cell is neither delivered nor declared, for a person."""
        crashes = [seen["crashed"] for seen in self.seen.values() if "crashed" in seen]
        if crashes:
            return crashes
        bridged, missing = self.scenario.problems(self.seen["bridge"]), self.missing
        is_own = "own" in self.seen and not self.scenario.problems(self.seen["own"], "own")
        if bridged and is_own:
            return [*bridged, "the framework's own hooks deliver it"]
        if bridged and not missing:
            return bridged
        if missing and not bridged:
            return [f"it is delivered, but {', '.join(missing)} declared to be missing"]
        return []

    @property
    def missing(self) -> list[str]:
        """Return the abilities that the scenario needs, and our facts say are missing."""
        if self.place.framework == OURS:
            return []
        delivers = FRAMEWORKS[self.place.framework].delivers
        deliveries = self.scenario.deliveries(delivers)
        return [need for need, delivery in deliveries.items() if delivery in {"no", "outside"}]


@pytest.fixture(
    params=[Place(OURS), *(pytest.param(place, marks=pytest.mark.full) for place in PLACES)],
    ids=lambda place: f"{place.framework}-{place.release}",
)
def place(request) -> Place:
    """Return the framework and the release."""
    return request.param


@pytest.fixture
def cell(request, plays, place) -> Cell:
    """Return the cell of the test: the scenario of its name, at the place."""
    scenario = BY_TEST[request.node.originalname]
    return Cell(scenario, place, plays.at(place)[scenario.title])


def test_call_of_a_sub_agent_is_judged(cell):
    assert cell.problems == []


def test_sub_agent_is_judged_without_being_wrapped(cell):
    assert cell.problems == []


def test_result_in_a_sub_agent_is_redacted(cell):
    assert cell.problems == []


def test_unknown_tool_is_judged(cell):
    assert cell.problems == []


def test_unknown_tool_has_an_end(cell):
    assert cell.problems == []


def test_crashing_guard_denies_the_call(cell):
    assert cell.problems == []


def test_hanging_guard_denies_the_call(cell):
    assert cell.problems == []


def test_crashing_redaction_withholds_the_result(cell):
    assert cell.problems == []


def test_crashing_guard_of_prompts_denies_them(cell):
    assert cell.problems == []


def test_failure_is_redacted(cell):
    assert cell.problems == []


def test_handler_answers_for_a_failure(cell):
    assert cell.problems == []


def test_wrong_arguments_are_judged(cell):
    assert cell.problems == []


def test_wrong_arguments_have_an_end(cell):
    assert cell.problems == []


def test_parallel_calls_run_at_once(cell):
    assert cell.problems == []


def test_each_of_parallel_calls_is_judged(cell):
    assert cell.problems == []


def test_failing_call_spares_its_siblings(cell):
    assert cell.problems == []


def test_each_rewrite_sees_the_one_before(cell):
    assert cell.problems == []


def test_guard_sees_the_rewritten_call(cell):
    assert cell.problems == []


def test_streamed_run_is_judged_and_redacted(cell):
    assert cell.problems == []


def test_call_after_a_handoff_is_judged(cell):
    assert cell.problems == []


def test_cancelled_run_ends_each_call(cell):
    assert cell.problems == []


def test_every_call_has_exactly_one_end(cell):
    assert cell.problems == []


def test_repeated_call_id_is_judged_again(cell):
    assert cell.problems == []


def test_tool_is_stopped_at_its_timeout(cell):
    assert cell.problems == []


def test_traces_hold_nothing_raw_of_results(cell):
    assert cell.problems == []


def test_traces_hold_nothing_raw_of_failures(cell):
    assert cell.problems == []


def test_arguments_are_rewritten(cell):
    assert cell.problems == []


def test_call_is_denied_with_a_reason(cell):
    assert cell.problems == []


def test_handler_answers_a_call(cell):
    assert cell.problems == []


def test_approved_call_runs(cell):
    assert cell.problems == []


def test_refused_call_does_not_run(cell):
    assert cell.problems == []


def test_question_without_an_approver_denies(cell):
    assert cell.problems == []


def test_failed_call_runs_again(cell):
    assert cell.problems == []


def test_result_is_redacted(cell):
    assert cell.problems == []


def test_result_is_truncated(cell):
    assert cell.problems == []


def test_structured_result_keeps_its_form(cell):
    assert cell.problems == []


def test_denied_result_is_not_read(cell):
    assert cell.problems == []


def test_prompt_is_denied(cell):
    assert cell.problems == []


def test_prompt_is_redacted(cell):
    assert cell.problems == []


def test_final_answer_is_redacted(cell):
    assert cell.problems == []


def test_streamed_answer_is_redacted(cell):
    assert cell.problems == []


def test_hidden_tool_is_not_offered(cell):
    assert cell.problems == []


def test_hidden_tool_cannot_be_called(cell):
    assert cell.problems == []


def test_adapter_rewords_a_tool(cell):
    assert cell.problems == []


def test_adapter_fills_an_argument(cell):
    assert cell.problems == []


def test_sync_run_is_judged_and_redacted(cell):
    assert cell.problems == []


def test_context_variables_reach_the_tool(cell):
    assert cell.problems == []


def test_context_variables_reach_a_sync_tool(cell):
    assert cell.problems == []


def test_store_holds_each_call_s_result(cell):
    assert cell.problems == []


def test_ledger_names_the_handler(cell):
    assert cell.problems == []


def test_explain_tells_of_a_stored_call(cell):
    assert cell.problems == []


def test_async_observers_see_each_end(cell):
    assert cell.problems == []


def test_model_s_requests_are_observed(cell):
    assert cell.problems == []


def test_run_has_exactly_one_end(cell):
    assert cell.problems == []


def test_disabled_component_changes_nothing(cell):
    assert cell.problems == []


def test_second_run_continues_the_session(cell):
    assert cell.problems == []


def test_two_sessions_stay_apart(cell):
    assert cell.problems == []


class BlockPrompt(AgentComponent):
    @guard(RUN_BEFORE)
    def judge(self, ctx):
        return Deny("no")


class DenyCall(AgentComponent):
    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny("no")


class RewritePrompt(AgentComponent):
    @on(MESSAGE_APPEND_BEFORE, roles="user")
    def rewrite(self, ctx):
        return None


class ReplaceAnswer(AgentComponent):
    @on(MESSAGE_APPEND_BEFORE, roles="assistant")
    def replace(self, ctx):
        return None


class ReplaceResult(AgentComponent):
    @on(MESSAGE_APPEND_BEFORE, roles="tool")
    def replace(self, ctx):
        return None


class ChangeTools(AgentComponent):
    @on(TOOLS_PROVIDE)
    def change(self, ctx):
        return None


class WatchModel(AgentComponent):
    @on(MODEL_CALL_BEFORE)
    def watch(self, ctx):
        return None


NEEDS = {
    BlockPrompt: ("block_prompt",),
    DenyCall: ("deny",),
    RewritePrompt: ("rewrite_prompt",),
    ReplaceAnswer: ("replace_answer",),
    ReplaceResult: ("replace_result", "replace_failure"),
    ChangeTools: ("change_tools",),
    WatchModel: ("model_calls",),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_component_that_lacks_an_ability_is_refused(name):
    delivers = FRAMEWORKS[name].delivers

    for component, needs in NEEDS.items():
        missing = [ability for ability in needs if delivers[ability] == "no"]

        BridgeHost(name, [component()], partial=True)
        if missing:
            with pytest.raises(RegistrationError, match=", ".join(missing)):
                BridgeHost(name, [component()])
        else:
            BridgeHost(name, [component()])


def test_measured_handler_does_its_work(plays, place):
    for work, seen in plays.at(place)["measurements"].items():
        assert {mode: did_work(work, one) for mode, one in seen.items()} == {
            mode: mode != "plain" for mode in seen
        }


@pytest.mark.full
def test_table_of_the_guide_was_measured(plays):
    """To write it anew, delete its rows and run this test, which writes them and fails once."""
    newest = [*(place for place in PLACES if place.release == "newest"), Place(OURS)]

    fresh = measured_cells({place.framework: plays.at(place) for place in newest})

    if not read_cells():
        write_cells(fresh)
        pytest.fail(f"{TABLE.name} had no rows, and they are written")
    assert read_cells() == fresh


def test_readme_has_the_head_of_the_table():
    """To write it anew, do the same."""
    cells, shown = read_cells(), read_cells(README)

    if not shown:
        write_cells(cells, README, HEAD)
        pytest.fail("the README had no rows, and they are written")
    assert shown == dict(list(cells.items())[:HEAD])
    assert list(cells) == [scenario.title for scenario in SCENARIOS]
