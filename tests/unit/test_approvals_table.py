"""The table of approvals: its scenarios are whole, and each finds what it looks for."""

import ast
import inspect
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import verdicts
from benchmarks.approvals import outside, scenarios
from benchmarks.approvals.protocol import ApprovalsPeer, Call, Outcome, Question, Setup
from benchmarks.approvals.table import CANNOT, DOES_NOT, HOLDS, SYSTEMS, Cell, tried
from benchmarks.harness import CannotError

PLACE = Path(__file__).parents[2] / "benchmarks/approvals/systems"
VERBS = [
    name for name, _ in inspect.getmembers(ApprovalsPeer, inspect.isfunction) if name[0] != "_"
]


class Steps:
    """Steps of a system that is a few functions, all in this process."""

    def __init__(self, **verbs):
        self._verbs = verbs

    def one(self, verb, setup, *arguments):
        return self._verbs[verb](setup, *arguments)

    def several(self, steps):
        return [self.one(*step) for step in steps]


def careless(setup: Setup, answers: dict) -> Outcome:
    """Run whatever is said yes to, each time anew and with the arguments of the moment."""
    alone = replace(setup, meet=0)  # Nobody else will come: all of it is one process.
    read = {}
    for call, answer in zip(setup.turns[0], answers.values(), strict=False):
        text = setup.rewrite or call.text
        read[call.id] = outside.effect(alone, "write", text) if answer.yes else answer.reason
    outside.next_turn(alone, 1, read)
    return Outcome("ended", "all is done")


def asked(setup: Setup) -> tuple[Question, ...]:
    return tuple(Question(one.id, one.id, one.tool, {"text": one.text}) for one in setup.turns[0])


CARELESS = {
    "start": lambda setup: Outcome("pending", "", asked(setup)),
    "questions": asked,
    "resume": careless,
    "shown": lambda setup, text: text,
    "forge": lambda setup: "it wrote the answer into the store",
}


def test_the_scenarios_have_claims_of_their_own():
    claims = [one.claim for one in scenarios.SCENARIOS]

    assert len(set(claims)) == len(claims) == 17
    assert all(one.check.__doc__ for one in scenarios.SCENARIOS)


@pytest.mark.parametrize("module", SYSTEMS)
def test_each_system_has_every_step(module: str):
    classes, names = [module], set()
    while classes:
        tree = ast.parse((PLACE / f"{classes.pop()}.py").read_text("utf-8"))
        (system,) = [one for one in tree.body if getattr(one, "name", "") == "System"]
        names |= {one.name for one in system.body if isinstance(one, ast.FunctionDef)}
        classes += [base.value.id for base in system.bases if isinstance(base, ast.Attribute)]

    assert names >= set(VERBS)


@pytest.mark.parametrize(
    "check",
    [
        scenarios.sees_what_runs,
        scenarios.changed_needs_new,
        scenarios.exactly_one_counts,
        scenarios.continued_twice,
        scenarios.foreign_answer,
        scenarios.expired,
        scenarios.display_escapes,
        scenarios.cannot_answer_itself,
    ],
)
def test_a_careless_system_is_found_out(check):
    assert check(Steps(**CARELESS))


def test_what_a_system_has_no_words_for_is_told_apart():
    def cannot(setup, text):
        raise CannotError("it has no display")

    shows, lacks = (
        tried(scenarios.Scenario("", scenarios.display_escapes), Steps(**{**CARELESS, **verbs}))
        for verbs in ({"shown": lambda setup, text: "plain"}, {"shown": cannot})
    )

    assert (shows.word, lacks.word, lacks.note) == (HOLDS, CANNOT, "it has no display")


def test_a_run_that_does_not_wait_is_said():
    steps = Steps(start=lambda setup: Outcome("failed", "no such tool"))

    cell = tried(scenarios.SCENARIOS[0], steps)

    assert cell == Cell(DOES_NOT, "the run did not wait: failed no such tool")


def test_effects_are_counted_by_tool(tmp_path):
    setup = Setup(tmp_path, ((Call("c-1", "write", "a"),),))

    outside.effect(setup, "write", "a")
    outside.effect(setup, "drop", "b")

    assert outside.effects(tmp_path) == ["a"]
    assert outside.effects(tmp_path, "drop") == ["b"]


def test_the_table_says_what_was_observed(capsys):
    figures = [
        {"row": "it holds", "contender": name, "value": value}
        for name, value in (("a", 1.0), ("b", 0.0), ("c", None))
    ]
    notes = [{"row": "it holds", "contender": "b", "text": "two effects"}]

    verdicts.print_verdicts(
        {"name": "t", "claim": "It holds.", "figures": figures, "notes": notes, "absent": {}}
    )

    printed = capsys.readouterr().out
    assert "holds" in printed
    assert "b (DOES NOT): two effects" in printed
