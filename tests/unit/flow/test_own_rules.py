"""The rules of `FlowGuard(sinks=…)` are those of the starting policy."""

from __future__ import annotations

from importlib.resources import files
from tomllib import loads
from typing import Any

from toolbus.flow.own_rules import RULES

KEYS = {"in_view", "from", "target_from", "carries", "sink", "new_host"}


def as_tuple(value: Any) -> tuple[str, ...]:
    """Return a text, or a list of texts, as a tuple."""
    return (value,) if isinstance(value, str) else tuple(value)


def test_the_rules_are_those_of_the_starting_policy() -> None:
    text = (files("toolbus.policy") / "starting_policy.toml").read_text(encoding="utf-8")
    shipped = [rule for rule in loads(text)["rule"] if KEYS & rule.keys()]

    assert [
        (
            rule["verdict"],
            set(as_tuple(rule["sink"])),
            set(as_tuple(rule.get("carries", ()))),
            set(as_tuple(rule.get("in_view", ()))),
            "target_from" in rule or "from" in rule,
            rule.get("new_host", False),
            rule["reason"],
        )
        for rule in shipped
    ] == [
        (
            "ask",
            set(rule.sinks),
            set(rule.carries),
            set(rule.in_view),
            rule.quotes,
            rule.new_host,
            rule.reason,
        )
        for rule in RULES
    ]
