"""The schema of a policy's file, as an editor gets it and as errors word it."""

import msgspec
import pytest

from toolbus.policy.rules.table_reader import TableReader
from toolbus.policy.rules.tables import PolicyTable

RULE = {"name": "r", "verdict": "deny"}


def test_an_editor_gets_a_schema_of_all_tables():
    schema = msgspec.json.schema(PolicyTable)

    rule = schema["$defs"]["RuleTable"]
    assert {*rule["required"]} == {"name", "verdict"}
    assert {"command", "at_most", "arguments", "pushes"} <= rule["properties"].keys()
    assert schema["$defs"]["CallTable"]["additionalProperties"] is False
    assert (
        "read" in schema["$defs"]["ToolFacts"]["properties"]["effects"]["anyOf"][0]["items"]["enum"]
    )


@pytest.mark.parametrize(
    ("table", "path", "reason"),
    [
        ({"rule": 3}, ("rule",), "expected an array of tables, [[rule]], got 3"),
        ({"rule": [3]}, ("rule", 0), "expected a table, got 3"),
        ({"rule": [RULE, RULE | {"efects": 1}]}, ("rule", 1, "efects"), "unknown key 'efects'"),
        ({"rule": [RULE | {"effects": "red"}]}, ("rule", 0, "effects"), "unknown effect 'red'"),
        (
            {"rule": [RULE | {"arguments": {"a": 1, "b.c": {"min": "x"}}}]},
            ("rule", 0, "arguments", "b.c", "min"),
            "expected `int | float`, got `str`",
        ),
        ({"tools": {"a": {}, "b": {"reads": 3}}}, ("tools", "b", "reads"), "expected `array"),
        ({"rule": [RULE | {"tools": " "}]}, ("rule", 0, "tools"), "expected a text, or a list"),
        (
            {"rule": [RULE | {"at_most": {"calls": float("nan")}}]},
            ("rule", 0, "at_most", "calls"),
            "expected a number above 0, got nan",
        ),
    ],
)
def test_an_error_has_the_path_of_what_is_wrong(table, path, reason):
    reader = TableReader()
    reader.read(table, PolicyTable)

    (mistake,) = reader.mistakes
    assert mistake.path == path
    assert mistake.reason.startswith(reason)


def test_what_is_right_beside_a_mistake_is_read():
    reader = TableReader()
    rule = RULE | {"tools": "x", "hosts": 3, "arguments": {"a": 1, "b": {"patern": "x"}}}

    tables = reader.read({"default": "alow", "rule": [3, rule]}, PolicyTable)

    assert [mistake.path for mistake in reader.mistakes] == [
        ("default",),
        ("rule", 0),
        ("rule", 1, "hosts"),
        ("rule", 1, "arguments", "b", "patern"),
    ]
    assert (tables.default, tables.rule[0]) == ("ask", msgspec.UNSET)
    assert (tables.rule[1].tools, tables.rule[1].arguments["a"]) == ("x", 1)


def test_a_table_without_its_required_keys_is_a_mistake_each():
    reader = TableReader()

    reader.read({"rule": [{"tools": "x"}]}, PolicyTable)

    assert [mistake.reason for mistake in reader.mistakes] == [
        "it has no `name`, which is required",
        "it has no `verdict`, which is required",
    ]
