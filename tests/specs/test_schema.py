"""The scenarios of `specs/schema.md`."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import toolbus
from toolbus.cli.command_line import main

GUIDE = Path(toolbus.__file__).parent / "cli/guide"
CONFIGURATION = {"component", "server", "price", "approvals", "store"}
POLICY = {"default", "rule", "call", "tools", "coding_agents"}


@pytest.fixture
def schema(capsys):
    """Return a function that returns the validator of a kind of file."""

    def validator(kind):
        assert main(["schema", kind]) == 0
        printed = json.loads(capsys.readouterr().out)
        Draft202012Validator.check_schema(printed)
        return Draft202012Validator(printed)

    return validator


def examples():
    """Return each TOML example of the guide, its place and its kind."""
    for page in sorted(GUIDE.glob("*.md")):
        for number, block in enumerate(
            re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
        ):
            table = tomllib.loads(block)
            table = table.get("tool", {}).get("toolbus", table)
            if table.keys() & CONFIGURATION:
                yield f"{page.name}:{number}", "configuration", table
            elif any("verdict" in call for call in table.get("call", ())):
                continue  # The calls of `toolbus policy test`.
            elif table.keys() & POLICY:
                yield f"{page.name}:{number}", "policy", table


def test_the_guide_s_examples_fit_the_schema(schema, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["policy", "init"]) == 0
    capsys.readouterr()
    validators = {kind: schema(kind) for kind in ("configuration", "policy")}
    files = [*examples(), ("init", "policy", tomllib.loads(Path("policy.toml").read_text()))]

    mistakes = [
        (place, error.message)
        for place, kind, table in files
        for error in validators[kind].iter_errors(table)
    ]

    assert mistakes == []
    kinds = [kind for _, kind, _ in files]
    assert min(kinds.count("configuration"), kinds.count("policy")) > 10


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("configuration", '[[component]]\nuze = "policy"'),
        ("configuration", '[[component]]\nname = "policy"'),
        ("configuration", '[[component]]\nuse = "x"\npriority = "high"'),
        ("configuration", '[[server]]\nname = "x"\nargs = "-y"'),
        ("configuration", '[[price]]\nmodel = "x"\ninput = 1'),
        ("configuration", "[approvals]\nwait = true"),
        ("configuration", '[approvals.webhook]\nurl = "https://x.example"'),
        ("configuration", 'default = "ask"'),
        ("policy", 'default = "maybe"'),
        ("policy", '[[rule]]\nname = "x"'),
        ("policy", '[[rule]]\nname = "x"\nverdict = "deny"\nefects = ["read"]'),
        ("policy", '[[rule]]\nname = "x"\nverdict = "deny"\nrepeats = 1'),
        ("policy", '[tools.mail]\neffects = "network"'),
        ("policy", '[[component]]\nuse = "policy"'),
    ],
)
def test_mistakes_do_not_fit_the_schema(schema, kind, text):
    assert not schema(kind).is_valid(tomllib.loads(text))


def test_settings_of_shipped_components_are_checked(schema):
    def fits(use, settings):
        return schema("configuration").is_valid({"component": [{"use": use, "settings": settings}]})

    assert fits("policy", {"file": "policy.toml"})
    assert fits("redact-secrets", {})
    assert not fits("policy", {"fil": "policy.toml"})
    assert not fits("policy", {"file": 5})
    assert fits("./mine.py:Guard", {"fil": 5})
    rules = schema("configuration").schema["$defs"]["ComponentTable"]["allOf"]
    (policy,) = [rule for rule in rules if rule["if"]["properties"]["use"]["const"] == "policy"]
    settings = policy["then"]["properties"]["settings"]["properties"]
    assert all("description" in setting for setting in settings.values())


@pytest.mark.parametrize("kind", ["configuration", "policy"])
def test_keys_are_described(schema, kind):
    printed = schema(kind).schema

    assert printed["$id"] == f"urn:toolbus:{kind}"
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    tables = printed["$defs"].values()
    assert all(table["description"].endswith(".") for table in tables)
    assert "null" not in json.dumps(printed)
    described = [
        key for table in tables for key in table["properties"].values() if "description" in key
    ]
    assert len(described) > 8
