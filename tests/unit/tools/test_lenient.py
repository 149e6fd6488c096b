"""What `specs` should not mention of reading texts as values."""

import json
import random
import time

import pytest

from toolbus.messages import schemas
from toolbus.messages.immutable import freeze
from toolbus.tools.lenient import converted

KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")
TEXTS = ("3", "-1", "0.5", "true", "a", "", "[]", '["1"]', "{}", '{"a": "1"}')
SCALARS = (None, True, False, 3, -1, 0, 0.5, 1.0, *TEXTS, *TEXTS)


def any_value(dice, levels=3):
    """Return a JSON value as *dice* fall."""
    kind = dice.randrange(4) if levels else 3
    if kind == 0:
        return [any_value(dice, levels - 1) for _ in range(dice.randrange(3))]
    if kind == 1:
        return {name: any_value(dice, levels - 1) for name in dice.sample("ab", dice.randrange(3))}
    return dice.choice(SCALARS)


def any_schema(dice, levels=3):
    """Return a sound schema, whose references lead to two definitions and to its root."""
    if not levels or dice.random() < 0.1:
        return dice.choice([True, False, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}])

    def below():
        return any_schema(dice, levels - 1)

    def some():
        return [below() for _ in range(dice.randint(1, 2))]

    makers = {
        "type": lambda: dice.choice([dice.choice(KINDS), dice.sample(KINDS, 2)]),
        "enum": lambda: [any_value(dice, 1) for _ in range(2)],
        "const": lambda: any_value(dice, 1),
        "properties": lambda: {name: below() for name in dice.sample("ab", 2)},
        "patternProperties": lambda: {"^a": below()},
        "additionalProperties": below,
        "items": below,
        "prefixItems": some,
        "anyOf": some,
        "oneOf": some,
        "allOf": some,
        "not": below,
        "if": below,
        "then": below,
        "$ref": lambda: dice.choice(["#", "#/$defs/a"]),
    }
    # Those that lead further down are the more interesting ones.
    words = dice.sample([*makers, "type", "properties", "items"], dice.randint(1, 3))
    return {word: makers[word]() for word in words}


def test_a_valid_value_is_never_changed():
    dice, changed = random.Random(7), 0
    for _ in range(3_000):
        root = {"$defs": {"a": any_schema(dice, 2), "b": any_schema(dice, 1)}}
        root |= {"properties": {"a": any_schema(dice), "b": any_schema(dice, 2)}}
        schema = freeze(root)
        value = freeze({"a": any_value(dice), "b": any_value(dice)})

        new = converted(value, schema)

        if new is not value:
            changed += 1
            assert schemas.problem(schema, value) is not None
            new = freeze(new)
            assert converted(new, schema) is new
    assert changed > 25


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/$defs/gone"}}},
        {"properties": {"a": {"$ref": 3}}},
        {"properties": [1]},
        {"properties": {"a": {"type": 3}}},
        {"properties": {"a": {"enum": 3}}},
        {"properties": {"a": {"type": "integer", "minimum": "x"}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"allOf": [{"$ref": "#"}]},
    ],
)
def test_an_unsound_schema_converts_nothing(schema):
    value = freeze({"a": "3"})

    assert converted(value, freeze(schema)) is value


def test_a_text_that_makes_the_value_too_deep_is_left_alone():
    rule = {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}
    schema = freeze({"type": "object", "additionalProperties": rule})

    def nested(levels, innermost):
        for _ in range(levels):
            innermost = {"a": innermost}
        return freeze(innermost)

    inner = json.dumps(nested(20, 1))
    allowed, deeper = nested(20, inner), nested(190, inner)

    assert converted(allowed, schema) == nested(40, 1)
    assert converted(deeper, schema) is deeper


def test_no_schema_takes_long():
    # Each level leads to the next one twice: 2 ** 60 ways, if each was gone.
    levels = {
        f"l{n}": {word: [{"$ref": f"#/$defs/l{n + 1}"}, {"$ref": f"#/$defs/l{n + 1}"}]}
        for n, word in enumerate(["allOf", "anyOf", "oneOf"] * 20)
    }
    levels["l60"] = {"type": "string"}
    schema = freeze({"properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": levels})
    value = freeze({"a": "3", "b": {"a": "3"}})

    since = time.perf_counter()
    assert converted(value, schema) is value
    assert time.perf_counter() - since < 1


def test_texts_inside_texts_are_read_in_time():
    schema = freeze(
        {
            "properties": {"a": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}}},
        }
    )
    text = "{}"
    for _ in range(10):  # Each level doubles what must be escaped.
        text = json.dumps({"a": text})

    since = time.perf_counter()
    new = converted(freeze({"a": text}), schema)
    assert time.perf_counter() - since < 1
    assert json.dumps(new).count('"a"') == 11
