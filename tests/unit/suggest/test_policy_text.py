"""The text of a policy with suggested rules: what stays, what is escaped, what is refused."""

from datetime import date
from pathlib import Path

import pytest

from toolbus import ToolCall
from toolbus.errors import ConfigurationError
from toolbus.policy.rules.policy_file import PolicyFile
from toolbus.suggest.evidence import AskedCall
from toolbus.suggest.policy_text import edit_policy, with_rules
from toolbus.suggest.proposals import Proposal

TODAY = date(2026, 11, 29)
DAY = 86_400 * 10**9
POLICY = 'default = "deny"\n\n[[rule]]\nname = "reading"\nverdict = "allow"\neffects = ["read"]\n'


def policy(text=POLICY):
    return PolicyFile(Path("policy.toml"), text.encode())


def proposal(by="ann", **keys):
    calls = [
        AskedCall(
            session_id=f"s{day}",
            call=ToolCall(name="shell", arguments={}),
            asked_ns=day * DAY,
            by=by,
        )
        for day in (20_000, 20_001, 20_001)
    ]
    rule = {"name": "new", "verdict": "allow"} | keys
    return Proposal(rule, "exact", tuple(calls), 3)


def test_a_rule_has_its_evidence_before_it():
    edited = edit_policy(policy(), [proposal(exactly="make all")], TODAY)

    assert edited.text == (
        f"{POLICY}\n"
        "# Suggested on 2026-11-29: ann allowed 3 calls in 2 sessions, 2024-10-04 to 2024-10-05.\n"
        "# Look again on 2027-02-27.\n"
        '[[rule]]\nname = "new"\nverdict = "allow"\nexactly = "make all"\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        'a "b" \\c',
        "line\nbreak\ttab\r\x00\x1b[2J\x7f",
        "\u202egnp.exe \u200b \u2028 \ue000",
        "\U0001f680 café",
        '"""\n[[rule]]\nname = "x"',
        "'''",
    ],
)
def test_every_text_is_read_back_and_visible(text):
    arguments = {"tools": "t", "exactly": {text: [text, {"a b": 1.5, "c": True}], "d": {}}}

    edited = edit_policy(policy(), [proposal(**arguments)], TODAY)

    assert edited.table["rule"][1]["exactly"] == arguments["exactly"]
    assert all(char.isprintable() or char == "\n" for char in edited.text)


@pytest.mark.parametrize(
    "name", ['x\n[[rule]]\nname = "y"\nverdict = "allow"', "a\rb\x00", "\x1b["]
)
def test_a_name_stays_in_its_comment(name):
    edited = edit_policy(policy(), [proposal(by=name, command="ls")], TODAY)

    assert len(edited.table["rule"]) == 2
    assert all(char.isprintable() or char == "\n" for char in edited.text)


def test_a_text_that_toml_cannot_hold_is_refused():
    with pytest.raises(ConfigurationError, match="cannot be added"):
        edit_policy(policy(), [proposal(exactly="\ud800")], TODAY)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('rule = [{ name = "a", verdict = "deny" }]\n', "cannot be added"),
        (POLICY.replace("reading", "new"), "two rules have this name"),
    ],
)
def test_a_file_that_would_be_invalid_is_refused(text, reason):
    with pytest.raises(ConfigurationError, match=reason):
        edit_policy(policy(text), [proposal(command="ls")], TODAY)


def test_a_policy_without_rules_gets_the_first():
    edited = edit_policy(policy('default = "ask"'), [proposal(command="ls")], TODAY)

    assert edited.text.startswith('default = "ask"\n\n# Suggested')


def test_the_rules_for_judging_are_those_of_the_text():
    proposals = [proposal(exactly="make all"), proposal(name="other", tools="t", exactly={"a": 1})]

    judged, edited = with_rules(policy(), proposals), edit_policy(policy(), proposals, TODAY)

    assert judged.table == edited.table
    assert [rule.name for rule in judged.read().rules] == ["reading", "new", "other"]


def test_a_policy_that_no_text_can_be_added_to_is_judged():
    inline = policy('rule = [{ name = "a", verdict = "deny", command = "rm" }]\n')

    judged = with_rules(inline, [proposal(command="ls")])

    assert [rule.name for rule in judged.read().rules] == ["a", "new"]
