"""What is drawn for a schema fits it, as our own check and another implementation see it."""

import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, assume, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from toolbus.messages import schemas
from toolbus.testing.schema_strategies import merge, values_for

SCHEMAS = [
    {},
    {"type": "string"},
    {"type": ["integer", "null"]},
    {"type": "integer", "minimum": 3, "exclusiveMaximum": 5},
    {"type": "integer", "exclusiveMinimum": -2.5, "maximum": 2.5, "multipleOf": 2},
    {"type": "integer", "multipleOf": 0.5, "minimum": 2**62},
    {"type": "number", "minimum": 0.1, "maximum": 0.2},
    {"type": "number", "multipleOf": 0.1, "minimum": 0, "maximum": 2},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "string", "minLength": 30},
    {"type": "string", "maxLength": 2},
    {"type": "string", "minLength": 2, "maxLength": 90},
    {"type": "string", "pattern": "^[a-f]{2,4}$"},
    {"type": "string", "pattern": "x", "maxLength": 9},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "nothing-known"},
    {"type": "string", "contentEncoding": "base64"},
    {"enum": [1, "a", None, {"b": [2]}]},
    {"type": "string", "enum": [1, "a"]},
    {"const": {"a": 1}},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "null"}, {"const": 2}], "items": False},
    {"type": "array", "prefixItems": [{"type": "null"}, {"const": 2}], "maxItems": 1},
    {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 2}, "minItems": 3},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]},
    {"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    {"type": "object", "properties": {"a": {}}, "minProperties": 2, "maxProperties": 2},
    {"type": "object", "patternProperties": {"^x_": {"const": 1}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"pattern": "^[a-c]$"}, "additionalProperties": True},
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]},
    {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 3}]},
    {"allOf": [{"type": ["integer", "string"]}, {"minimum": 3}, {"type": "number"}]},
    {"type": "integer", "not": {"multipleOf": 2}},
    {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "size": {"type": "integer"}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["size"]},
        "else": {"properties": {"size": False}},
    },
    {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "kids": {"items": {"$ref": "#/$defs/node"}},
                },
                "required": ["id"],
            }
        },
    },
    {"type": "object", "properties": {"self": {"$ref": "#"}}, "additionalProperties": False},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/id", "minimum": 7}},
        "required": ["a"],
        "$defs": {"id": {"type": "integer", "minimum": 3, "maximum": 9}},
    },
    {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
            {"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"]},
        ]
    },
]
PATIENT = settings(suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_what_is_drawn_fits(schema):
    oracle = jsonschema.Draft202012Validator(schema)

    @PATIENT
    @given(values_for(schema))
    def fits(value):
        assert schemas.problem(schema, value) is None
        # For the other one 0.3 is no multiple of 0.1, as floats have it.
        assert oracle.is_valid(value) or schema.get("multipleOf") == 0.1

    fits()


SIMPLE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["integer", "number", "string", ["string", "null"]]),
        "minimum": st.integers(-3, 3),
        "maximum": st.integers(-3, 3),
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 3),
        "enum": st.lists(st.integers(-3, 3) | st.text(max_size=2), max_size=4),
    },
)


@PATIENT
@given(SIMPLE, SIMPLE, st.integers(-4, 4) | st.text(max_size=4) | st.none())
def test_what_fits_two_schemas_fits_the_merged_one(one, other, value):
    assume(schemas.problem(one, value) is schemas.problem(other, value) is None)

    assert schemas.problem(merge(one, other), value) is None


NUMBERS = {"items": {"minimum": 1, "type": "number"}}


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ({"minItems": 3}, {"minItems": 1}, {"minItems": 1}),
        ({"required": ["a"]}, {"required": ["b"]}, {"required": ["a", "b"]}),
        (
            {"properties": {"a": {}, "b": {}}},
            {"properties": {"b": {"type": "null"}}},
            {"properties": {"a": {}, "b": {"type": "null"}}},
        ),
        ({"items": {"minimum": 1}}, {"items": {"type": "number"}}, NUMBERS),
        ({"type": "null"}, True, {"type": "null"}),
        ({"type": "null"}, False, {"enum": []}),
    ],
)
def test_schemas_are_merged(one, other, both):
    assert merge(one, other) == both


def test_nothing_fits_what_is_false():
    for schema in (
        {"not": {}},
        {"anyOf": [False]},
        {"type": "integer", "minimum": 2, "maximum": 1},
    ):
        with pytest.raises(Unsatisfiable):
            find(values_for(schema), lambda _: True, settings=settings.default)


def test_what_is_drawn_is_small_when_it_can_be():
    assert find(values_for({"type": "object"}), lambda _: True) == {}
    assert find(values_for({"type": "integer", "minimum": 3}), lambda _: True) == 3
    assert find(values_for({"type": "string"}, st.just("given")), lambda _: True) == "given"


@pytest.mark.parametrize("wanted", [1, 2.5, "a", None, True, [1], {"a": 1}], ids=str)
def test_every_kind_is_drawn_where_none_is_named(wanted):
    drawing = settings(PATIENT, max_examples=2_000, phases=[Phase.generate])

    found = find(values_for({}), lambda value: type(value) is type(wanted), settings=drawing)

    assert type(found) is type(wanted)


def test_an_unsound_schema_is_refused():
    with pytest.raises(ValueError, match="the schema is not valid: expected one of"):
        values_for({"type": "objekt"})
