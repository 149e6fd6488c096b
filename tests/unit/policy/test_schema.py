"""The schema of a policy's file, as an editor gets it and as errors word it."""

import msgspec
import pytest

from toolbus.policy.rules.schemas import TableReader
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
