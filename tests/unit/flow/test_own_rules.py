"""The rules of `FlowGuard(sinks=…)` are those of the starting policy."""

from __future__ import annotations

from importlib.resources import files
from tomllib import loads

from toolbus.flow.own_rules import BESIDE_STRANGERS, NEW_HOST, RUNS, TARGET

KEYS = {"in_view", "from", "target_from", "carries", "new_host"}


def test_the_rules_are_those_of_the_starting_policy() -> None:
    text = (files("toolbus.policy") / "starting_policy.toml").read_text(encoding="utf-8")
    shipped = [rule for rule in loads(text)["rule"] if KEYS & rule.keys()]

    assert [rule["reason"] for rule in shipped] == [NEW_HOST, BESIDE_STRANGERS, TARGET, RUNS]
    assert {rule["verdict"] for rule in shipped} == {"ask"}
