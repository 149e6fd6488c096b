"""The scenarios of `specs/policy.md`."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolbus import (
    Agent,
    AssistantMessage,
    EventBus,
    Scope,
    ToolCall,
    ToolRunner,
    Toolset,
    ToolSpec,
    tool,
)
from toolbus.config.loading import load_configuration
from toolbus.errors import ConfigurationError
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.settings.values import MisfitError
from toolbus.testing import check_guard

DATA = Path(__file__).parents[1] / "data" / "policy"
USE = "toolbus.policy.policy:Policy"


def rule(name, verdict, **conditions):
    return {"name": name, "verdict": verdict, **conditions}


class Judge:
    """A policy on a bus of its own; verdicts are "allow", "ask", "deny"."""

    def __init__(self, *rules, folder=None, **settings):
        self.policy = Policy(rule=list(rules), folder=folder, **settings)
        self.bus, self.records = EventBus(), []
        self.bus.tap(self.records.append)
        self.text = ""

    async def call(self, name, arguments=None, *, spec=None, scope=None):
        """Return the verdict on a call; what is said of it is in `text`."""
        call = ToolCall(id="c", name=name, arguments=arguments or {})
        async with self.policy.installed(self.bus):
            context = await self.bus.apply(
                TOOL_CALL_BEFORE, call, scope=scope or Scope(), tool=spec
            )
        denied, asked = context.denied, context.asked
        self.text = denied.reason if denied else asked.prompt if asked else ""
        return "deny" if denied else "ask" if asked else "allow"

    async def line(self, command, **arguments):
        """Return the verdict on a command line."""
        return await self.call("shell", {"command": command, **arguments})

    async def lines(self, *commands):
        return [await self.line(command) for command in commands]

    def entries(self):
        """Return name and status of the entries of rules in the last record."""
        last = self.records[-1].entries
        return [(entry.name, entry.status) for entry in last if entry.name.startswith("rule ")]


def spec(name="t", **annotations):
    return ToolSpec(name=name, annotations=annotations)


def written(folder, text, name="policy.toml"):
    path = folder / name
    path.write_text(text, "utf-8")
    return path


# --- deny beats ask beats allow ------------------------------------------------------------------


async def test_the_strongest_rule_decides():
    allow, ask = rule("all", "allow", tools="*"), rule("asks", "ask", tools=["b*", "c*"])
    deny = rule("never", "deny", tools="c*")

    for rules in ([allow, ask, deny], [deny, ask, allow], [ask, deny, allow]):
        judge = Judge(*rules)

        assert [await judge.call(name) for name in ("a", "b", "c")] == ["allow", "ask", "deny"]


async def test_the_default_decides_what_remains():
    for default in ("allow", "ask", "deny"):
        judge = Judge(rule("other", "deny", tools="other"), default=default)

        assert await judge.call("t") == default
    assert await Judge(rule("other", "deny", tools="other")).call("t") == "ask"
    assert await Judge().call("t") == "ask"


async def test_an_audit_changes_no_verdict():
    audit, allow = rule("seen", "audit", tools="t"), rule("fine", "allow", tools="t")

    both, alone = Judge(audit, allow), Judge(audit)

    assert await both.call("t") == "allow"
    assert both.entries() == [("rule 'seen'", "ran"), ("rule 'fine'", "ran")]
    assert await alone.call("t") == "ask"
    assert alone.records[-1].entries[1].reason == "audited"


async def test_a_refusal_says_what_to_do():
    judge = Judge(
        rule("no deploys", "deny", tools="deploy", reason="it is Friday", hint="open a request"),
        rule("pay", "ask", tools="pay", reason="it costs money"),
    )

    assert await judge.call("deploy") == "deny"
    assert judge.text.splitlines() == [
        "denied by the policy: rule 'no deploys': it is Friday",
        "instead: open a request",
    ]
    assert await judge.call("pay") == "ask"
    assert judge.text == "the policy asks: rule 'pay': it costs money"


async def test_the_final_call_is_judged():
    ran = []

    @tool
    def deploy(where: str) -> str:
        """Deploy it."""
        ran.append(where)
        return "done"

    policy = Policy(
        rule=[rule("no prod", "deny", arguments={"where": "prod"})], default="allow"
    )
    call = ToolCall(id="c", name="deploy", arguments={"where": "stage"})
    model = ScriptedModel([AssistantMessage(tool_calls=(call,)), "sorry"])

    async with Agent(model, tools=[deploy], components=[policy]) as agent:
        agent.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.with_arguments({"where": "prod"}))
        await agent.run("go")

        assert "rule 'no prod'" in agent.messages[2].text
    assert ran == []


# --- conditions on the call ----------------------------------------------------------------------


async def test_tools_are_chosen_by_their_names():
    judge = Judge(
        rule("git", "deny", tools=["git_*", "hg"]), rule("rest", "allow", tools="[a-z]*")
    )

    names = ("git_push", "hg", "git", "Git_push")
    assert [await judge.call(name) for name in names] == ["deny", "deny", "allow", "ask"]


async def test_annotations_choose_tools():
    judge = Judge(rule("careful", "deny", annotations={"destructiveHint": True}), default="allow")

    assert await judge.call("t", spec=spec(destructiveHint=True)) == "deny"
    assert await judge.call("t", spec=spec(destructiveHint=False)) == "allow"
    assert await judge.call("t", spec=spec(readOnlyHint=True)) == "allow"
    assert await judge.call("t") == "allow"


@pytest.mark.parametrize(
    ("path", "test", "fitting", "other"),
    [
        ("mode", "force", {"mode": "force"}, {"mode": "Force"}),
        ("mode", ["force", "hard"], {"mode": "hard"}, {"mode": "soft"}),
        ("mode", {"one_of": ["force", 1]}, {"mode": 1}, {"mode": 2}),
        ("mode", {"equals": "x"}, {"mode": "x"}, {"mode": "y"}),
        ("name", {"glob": "prod-*"}, {"name": "prod-1"}, {"name": "a prod-1"}),
        ("name", {"pattern": "^prod-[0-9]+$"}, {"name": "prod-1"}, {"name": "prod-x"}),
        ("count", {"min": 2, "max": 4}, {"count": 4}, {"count": 4.5}),
        ("count", {"max": 4}, {"count": -1}, {"count": 5}),
        ("dry", False, {"dry": False}, {"dry": True}),
        ("a.b", 1, {"a": {"b": 1}}, {"a": {"b": 2}}),
        ("a.1.b", 1, {"a": [{"b": 0}, {"b": 1}]}, {"a": [{"b": 1}, {"b": 0}]}),
        ("a.*.b", 1, {"a": [{"b": 0}, {"b": 1}]}, {"a": [{"b": 0}]}),
        ("a.*", 1, {"a": {"x": 1, "y": 2}}, {"a": {"x": 2}}),
        (r"a\.b", 1, {"a.b": 1}, {"a": {"b": 1}}),
        ("name", {"glob": "a*", "pattern": "z$"}, {"name": "az"}, {"name": "ab"}),
    ],
)
async def test_arguments_are_compared_by_their_paths(path, test, fitting, other):
    judge = Judge(rule("r", "deny", arguments={path: test}), default="allow")

    assert await judge.call("t", fitting) == "deny"
    assert await judge.call("t", other) == "allow"


async def test_every_item_must_fit_to_be_allowed():
    fits = {"to.*": {"glob": "*@example.com"}}
    allow, deny = Judge(rule("r", "allow", arguments=fits)), Judge(
        rule("r", "deny", arguments=fits), default="allow"
    )
    lists = [["a@example.com", "b@example.com"], ["a@example.com", "b@elsewhere.org"], []]

    assert [await allow.call("mail", {"to": each}) for each in lists] == ["allow", "ask", "ask"]
    assert [await deny.call("mail", {"to": each}) for each in lists] == ["deny", "deny", "allow"]


async def test_an_absent_argument_does_not_fit():
    for path, test in (("n", {"max": 3}), ("a.b", "x"), ("a.*.b", "x"), ("l.3", 1)):
        judge = Judge(rule("r", "deny", arguments={path: test}), default="allow")

        for arguments in ({}, {"n": None, "a": None, "l": None}, {"l": [1], "a": {}}):
            assert await judge.call("t", arguments) == "allow"


@pytest.mark.parametrize(
    ("path", "test", "arguments", "told"),
    [
        ("n", {"max": 3}, {"n": "3"}, "n: expected a number, got '3'"),
        ("n", {"max": 3}, {"n": True}, "n: expected a number, got True"),
        ("s", {"glob": "*"}, {"s": 3}, "s: expected a text, got 3"),
        ("s", {"pattern": "x"}, {"s": ["x"]}, "s: expected a text, got ['x']"),
        ("s", "1", {"s": 1}, "s: expected a text, got 1"),
        ("b", True, {"b": 1}, "b: expected a boolean, got 1"),
        ("a.b", "x", {"a": "y"}, "a.b: a has no 'b', for it is 'y'"),
    ],
)
async def test_a_wrong_type_is_denied(path, test, arguments, told):
    for verdict in ("allow", "audit"):
        judge = Judge(rule("typed", verdict, arguments={path: test}), default="allow")

        assert await judge.call("t", arguments) == "deny"
        assert judge.text == (
            f"denied by the policy: rule 'typed' cannot judge this call: arguments.{told}"
        )


async def test_who_speaks_is_a_condition():
    judge = Judge(
        rule("writer", "deny", agent="writer-*"),
        rule("below boss", "deny", lineage=["boss"]),
        rule("guests", "deny", context={"user.role": ["guest", "visitor"]}),
        default="allow",
    )

    def scope(agent="a", lineage=(), **user):
        return Scope(agent_id=agent, lineage=lineage, context={"user": user})

    for denied in (scope("writer-1"), scope(lineage=("boss", "b")), scope(role="guest")):
        assert await judge.call("t", scope=denied) == "deny"
    for allowed in (scope("boss"), scope(lineage=("b",)), scope(role="admin"), scope()):
        assert await judge.call("t", scope=allowed) == "allow"


# --- expressions in CEL --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "when",
    [
        "tool == 'shell'",
        "arguments.command.startsWith('cat ') && !has(arguments.other)",
        "annotations.openWorldHint && annotations.level > 2",
        "'read' in effects && !('network' in effects) && !unknown",
        "commands.exists(c, c.program == 'cat' && c.words == ['a', 'b'])",
        "agent == 'a' && 'boss' in lineage && session == 's'",
        "context.user == 'ada' && context.ids.all(id, id < 10)",
    ],
)
async def test_expressions_see_the_call(when):
    judge = Judge(rule("r", "deny", when=when), rule("fine", "allow", tools="*"))
    scope = Scope(
        agent_id="a", session_id="s", lineage=("boss",), context={"user": "ada", "ids": [1, 2]}
    )
    tool_spec = spec("shell", openWorldHint=True, level=3)

    assert await judge.call("shell", {"command": "cat a b"}, spec=tool_spec, scope=scope) == "deny"
    other = spec("other", openWorldHint=False, level=9)
    other_scope = Scope(agent_id="b", context={"user": "bob", "ids": []})
    arguments = {"command": "curl x", "other": 1}
    verdict = await judge.call("other", arguments, spec=other, scope=other_scope)
    assert verdict == "ask"


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("arguments.absent == 1", 'Key not found in map : "absent"'),
        ("arguments.text > 3", "No matching overloads found"),
        ("arguments.text", "it gave STRING and not true or false"),
    ],
)
async def test_a_failing_expression_denies(when, told):
    judge = Judge(rule("fails", "allow", when=when), default="allow")

    assert await judge.call("t", {"text": "x"}) == "deny"
    assert "rule 'fails' cannot judge this call: when: " in judge.text
    assert told in judge.text


async def test_an_endless_expression_is_cut_off():
    when = "arguments.items.all(a, arguments.items.all(b, a + b >= 0))"
    judge = Judge(rule("pairs", "allow", when=when))

    assert await judge.call("t", {"items": [1, 2, 3]}) == "allow"
    assert await judge.call("t", {"items": list(range(5000))}) == "deny"
    assert "budget" in judge.text


def test_only_its_rules_load_cel(tmp_path):
    script = """if True:
        import asyncio, sys
        from toolbus import EventBus, ToolCall
        from toolbus.events import TOOL_CALL_BEFORE
        from toolbus.policy import Policy

        async def main():
            rule = {"name": "r", "verdict": "allow", "arguments": {"a": {"glob": "x"}}}
            async with Policy(rule=[rule]).installed(EventBus()) as policy:
                bus = policy.host.bus
                context = await bus.apply(TOOL_CALL_BEFORE, ToolCall(name="t", arguments={"a": "x"}))
                assert context.asked is None
        asyncio.run(main())
        print([name for name in ("cel_expr_python", "re2") if name in sys.modules])
    """
    command = [sys.executable, "-c", script]

    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout.strip() == "[]"
