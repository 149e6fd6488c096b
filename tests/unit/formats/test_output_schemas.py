"""What providers enforce of a schema, and what is said in words."""

import pytest

from toolbus import SystemMessage, UserMessage
from toolbus.events import ModelRequest
from toolbus.formats.output_schemas import ANTHROPIC, OPENAI, enforceable, with_schema_prompt

TEXT = {"type": "string"}


def closed(**properties):
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize(
    "rule",
    [
        True,
        {},
        {"type": "object"},
        {"type": "array"},
        {"type": "array", "items": {}},
        {**closed(), "additionalProperties": True},
        {**closed(), "additionalProperties": TEXT},
        {"enum": []},
        {"const": [1]},
        {"allOf": [TEXT]},
        {"not": TEXT, "type": "string"},
        {"anyOf": [TEXT, {}]},
    ],
)
def test_what_nobody_enforces_is_not_sent_so(dialect, rule):
    assert enforceable(closed(a=rule), dialect) is None


def test_alternatives_and_values_have_types():
    schema = closed(
        a={"oneOf": [TEXT, {"type": "null"}], "discriminator": {"propertyName": "t"}},
        b={"enum": ["x", 1]},
        c={"const": None},
        d={"type": "string", "format": "uri"},
        e={"$ref": "#/$defs/E", "description": "E"},
    )
    schema["$defs"] = {"E": closed()}

    properties = enforceable(schema, OPENAI)["properties"]

    assert properties == {
        "a": {"anyOf": [TEXT, {"type": "null"}]},
        "b": {"enum": ["x", 1], "type": ["string", "integer"]},
        "c": {"const": None, "type": "null"},
        "d": {"type": "string", "description": '{"format":"uri"}'},
        "e": {"$ref": "#/$defs/E"},
    }


def test_a_schema_within_itself_is_for_some():
    schema = closed(a={"$ref": "#/$defs/A"})
    schema["$defs"] = {"A": closed(b={"$ref": "#/$defs/B"}), "B": closed(a={"$ref": "#/$defs/A"})}

    assert enforceable(schema, ANTHROPIC) is None
    assert enforceable(schema, OPENAI)["$defs"].keys() == {"A", "B"}


def test_words_stand_in_the_first_message():
    request = ModelRequest(
        model="m", messages=[UserMessage(content="hi")], output_schema=closed(a=TEXT)
    )
    system = SystemMessage(content="Be brief.")

    alone = with_schema_prompt(request)
    beside = with_schema_prompt(
        ModelRequest(model="m", messages=[system], output_schema=closed(a=TEXT))
    )

    assert [message.role for message in alone.messages] == ["system", "user"]
    assert beside.messages[0].text.endswith(alone.messages[0].text)
    assert beside.messages[0].text.startswith("Be brief.\n\nWhen you need no more tools")
    assert alone.output_schema is None
    assert with_schema_prompt(alone) is alone
