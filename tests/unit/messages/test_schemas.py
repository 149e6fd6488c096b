from __future__ import annotations

from collections import OrderedDict
from time import monotonic
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.messages.schemas import check_schema, problem

READ = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["path"],
    "additionalProperties": False,
}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}

FITTING = [
    ({}, object),
    ({"type": "integer"}, 1.0),
    ({"type": "integer"}, 10**400),
    ({"type": "number"}, 1),
    ({"type": ["string", "null"]}, None),
    ({"type": "array"}, (1, 2)),
    ({"type": "object"}, OrderedDict()),
    ({"type": "object"}, MappingProxyType({})),
    ({"enum": [1, "a"]}, 1.0),
    ({"enum": [[1, {"a": None}]]}, (1.0, {"a": None})),
    ({"const": {"a": [True]}}, {"a": (True,)}),
    ({"properties": {"a": False}}, {"b": 1}),
    ({"patternProperties": {"^x-": {"type": "string"}}}, {"x-a": "", "a": 1}),
    ({"additionalProperties": False, "patternProperties": {"^x-": True}}, {"x-a": 1}),
    ({"additionalProperties": {"type": "string"}, "properties": {"a": True}}, {"a": 1, "b": ""}),
    ({"propertyNames": {"maxLength": 1}}, {"a": 1}),
    ({"minProperties": 1, "maxProperties": 1}, {"a": 1}),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1, 2]),
    ({"prefixItems": [True, {"type": "string"}]}, [1]),
    ({"minItems": 1, "maxItems": 1}, [1]),
    ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}]),
    ({"uniqueItems": False}, [1, 1]),
    ({"minLength": 1, "maxLength": 1}, "\U0001f600"),
    ({"pattern": "b"}, "abc"),
    ({"minimum": 1, "maximum": 1}, 1),
    ({"exclusiveMinimum": 0, "exclusiveMaximum": 2}, 1),
    ({"multipleOf": 0.01}, 0.07),
    ({"multipleOf": 2}, 10**400),
    ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, 3),
    ({"oneOf": [{"type": "string"}, {"minimum": 3}]}, 2.5e9),
    ({"not": {"type": "string"}}, 1),
    ({"if": {"type": "string"}, "then": False}, 1),
    ({"if": {"type": "string"}, "else": False}, ""),
    ({"minLength": 5, "minimum": 5, "minItems": 5, "required": ["a"]}, True),
    ({"format": "date", "contains": False, "no such keyword": 1}, "x"),
    (TREE, {"next": {"next": {}}}),
]

UNFITTING = [
    (False, 1, "no value is allowed - at `$`"),
    ({"type": "integer"}, "a", "expected integer, got string - at `$`"),
    ({"type": "integer"}, 1.5, "expected integer, got number - at `$`"),
    ({"type": "integer"}, True, "expected integer, got boolean - at `$`"),
    ({"type": "number"}, False, "expected number, got boolean - at `$`"),
    ({"type": ["string", "null"]}, [], "expected string or null, got array - at `$`"),
    ({"type": "string"}, b"", "expected string, got `bytes` - at `$`"),
    ({"enum": ["é", 1]}, True, 'expected one of ["é", 1] - at `$`'),
    ({"const": 1}, True, "expected the constant 1 - at `$`"),
    (READ, {"count": 1}, "missing required property `path` - at `$`"),
    (READ, {"path": "", "foo": 1}, "unknown property `foo` - at `$`"),
    (READ, {"path": "", "count": "1"}, "expected integer, got string - at `$.count`"),
    ({"properties": {"a": False}}, {"a": 1}, "no value is allowed - at `$.a`"),
    ({"patternProperties": {"^x": {"minimum": 1}}}, {"xy": 0}, "expected number >= 1 - at `$.xy`"),
    ({"additionalProperties": {"minimum": 1}}, {"a": 0}, "expected number >= 1 - at `$.a`"),
    (
        {"propertyNames": {"maxLength": 1}},
        {"ab": 1},
        "bad property name `ab`: expected length <= 1 - at `$`",
    ),
    ({"minProperties": 1}, {}, "expected length >= 1 - at `$`"),
    ({"maxProperties": 0}, {"a": 1}, "expected length <= 0 - at `$`"),
    ({"items": {"type": "string"}}, ["", 1], "expected string, got number - at `$[1]`"),
    ({"prefixItems": [{"type": "string"}]}, [1], "expected string, got number - at `$[0]`"),
    ({"prefixItems": [True], "items": False}, [1, 2], "no value is allowed - at `$[1]`"),
    ({"minItems": 1}, (), "expected length >= 1 - at `$`"),
    ({"maxItems": 1}, [1, 2], "expected length <= 1 - at `$`"),
    ({"uniqueItems": True}, [1, 1.0], "expected unique items - at `$`"),
    ({"uniqueItems": True}, [{"a": [1]}, {"a": [1]}], "expected unique items - at `$`"),
    ({"minLength": 2}, "\U0001f600", "expected length >= 2 - at `$`"),
    ({"maxLength": 1}, "ab", "expected length <= 1 - at `$`"),
    ({"pattern": r"^\d$"}, "ab", r'expected match of "^\\d$" - at `$`'),
    ({"minimum": 1}, 0, "expected number >= 1 - at `$`"),
    ({"maximum": 1}, 1.5, "expected number <= 1 - at `$`"),
    ({"exclusiveMinimum": 1}, 1, "expected number > 1 - at `$`"),
    ({"exclusiveMaximum": 1}, 1, "expected number < 1 - at `$`"),
    ({"multipleOf": 0.1}, 0.25, "expected multiple of 0.1 - at `$`"),
    ({"multipleOf": 1}, float("inf"), "expected multiple of 1 - at `$`"),
    ({"allOf": [True, {"minimum": 1}]}, 0, "expected number >= 1 - at `$`"),
    (
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "a",
        "expected integer, got string; or expected null, got string - at `$`",
    ),
    ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 1, "fits 2 alternatives, not one - at `$`"),
    ({"not": {"type": "integer"}}, 1, "excluded value - at `$`"),
    ({"if": {"type": "string"}, "then": {"minLength": 1}}, "", "expected length >= 1 - at `$`"),
    ({"if": {"type": "string"}, "else": {"minimum": 1}}, 0, "expected number >= 1 - at `$`"),
    (TREE, {"next": {"next": 1}}, "expected object, got number - at `$.next.next`"),
    (
        {"properties": {"a": {"items": {"properties": {"b": {"type": "null"}}}}}},
        {"a": [{"b": 1}]},
        "expected null, got number - at `$.a[0].b`",
    ),
]

FLAWED = [
    (None, "expected object, got null - at `$`"),
    (True, "expected object, got boolean - at `$`"),
    ([], "expected object, got array - at `$`"),
    ({"type": []}, "expected length >= 1 - at `$.type`"),
    ({"required": "path"}, "expected array, got string - at `$.required`"),
    ({"required": ["a", 1]}, "expected string, got number - at `$.required[1]`"),
    ({"properties": []}, "expected object, got array - at `$.properties`"),
    ({"properties": {"a": 1}}, "expected object or boolean, got number - at `$.properties.a`"),
    (
        {"properties": {1: {}}},
        "bad property name `1`: expected string, got number - at `$.properties`",
    ),
    ({"items": [{}]}, "expected object or boolean, got array - at `$.items`"),
    ({"anyOf": []}, "expected length >= 1 - at `$.anyOf`"),
    ({"allOf": [{"minLength": -1}]}, "expected number >= 0 - at `$.allOf[0].minLength`"),
    ({"exclusiveMinimum": True}, "expected number, got boolean - at `$.exclusiveMinimum`"),
    ({"multipleOf": 0}, "expected number > 0 - at `$.multipleOf`"),
    ({"uniqueItems": 1}, "expected boolean, got number - at `$.uniqueItems`"),
    ({"not": {"pattern": "("}}, "unusable pattern `(` - at `$.not.pattern`"),
    ({"pattern": "a{99999999999}"}, "unusable pattern `a{99999999999}` - at `$.pattern`"),
    ({"$defs": {"a": {"if": 1}}}, "expected object or boolean, got number - at `$.$defs.a.if`"),
]


@pytest.mark.parametrize(("schema", "value"), FITTING)
def test_a_fitting_value_has_no_problem(schema, value):
    assert check_schema(schema) is None
    assert problem(schema, value) is None


@pytest.mark.parametrize(("schema", "value", "line"), UNFITTING)
def test_a_problem_is_one_line_with_its_path(schema, value, line):
    assert line == problem(schema, value)


@pytest.mark.parametrize(("schema", "line"), FLAWED)
def test_a_flaw_is_one_line_with_its_path(schema, line):
    assert line == check_schema(schema)


def test_an_unknown_type_is_a_flaw_that_lists_the_known_ones():
    line = check_schema({"properties": {"a": {"type": "float"}}})

    assert line.startswith('expected one of ["boolean", "number", "string", "null", ')
    assert line.endswith(" - at `$.properties.a.type`")


def test_a_pattern_of_property_names_must_compile():
    line = check_schema({"patternProperties": {"(": {}}})

    assert line == "bad property name `(`: unusable pattern `(` - at `$.patternProperties`"


@pytest.mark.parametrize(
    "reference",
    [
        "#",
        "#/$defs/a~1b",
        "#/$defs/c%20d/items",
        "#/definitions/x",
        "#/properties/y/items",
        "#/allOf/1",
        "#/patternProperties/^x",
    ],
)
def test_a_reference_may_lead_to_any_schema_of_the_document(reference):
    schema = {
        "$defs": {"a/b": {}, "c d": {"items": {}}},
        "definitions": {"x": True},
        "properties": {"y": {"items": {}}, "z": {"$ref": reference}},
        "patternProperties": {"^x": {}},
        "allOf": [{}, {}],
    }

    assert check_schema(schema) is None
    assert problem(schema, {"z": 1}) is None


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "a",
        "#a",
        "#/",
        "#/$defs",
        "#/$defs/missing",
        "#/$defs/a/type",
        "#/allOf/1",
        "#/allOf/x",
        "#/const",
        "#/unknown/a",
        "https://example.com/schema.json",
        "other.json#/$defs/a",
    ],
)
def test_a_reference_that_leads_to_no_schema_of_the_document_is_a_flaw(reference):
    schema = {
        "$defs": {"a": {"type": "null"}},
        "allOf": [{"$ref": reference}],
        "const": {},
        "unknown": {"a": {}},
    }

    line = check_schema(schema)

    assert f"unusable reference `{reference}` - at `$.allOf[0].$ref`" == line


def test_what_stands_under_an_unknown_keyword_is_no_schema():
    assert check_schema({"default": {"type": "?"}, "examples": [{"$ref": "https://x"}]}) is None


def test_alternatives_that_come_furthest_tell_the_problem():
    schema = {"anyOf": [{"type": "null"}, {"properties": {"a": {"type": "string"}}}]}

    assert problem(schema, {"a": 1}) == "expected string, got number - at `$.a`"


def test_alternatives_with_the_same_problem_tell_it_once():
    schema = {"oneOf": [{"minimum": 1}, {"minimum": 1}]}

    assert problem(schema, 0) == "expected number >= 1 - at `$`"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"not": {"$ref": "#"}},
        {"if": {"$ref": "#"}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_references_without_end_do_not_hang(schema):
    assert check_schema(schema) is None
    assert problem(schema, 1) == "nested too deeply - at `$`"


def _doubling(levels):
    """Return a schema that is checked 2 ** *levels* times."""
    steps = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{levels}": {"type": "object"}}}


NAMES = [f"n{number}" for number in range(3_000)]
HOSTILE = [
    (_doubling(40), {}),
    ({"items": {"required": NAMES[:1] * 100_000}}, [{"n0": 1}] * 10_000),
    ({"items": {"enum": [*range(100_000)]}}, [99_999] * 10_000),
    ({"items": {"properties": dict.fromkeys(NAMES, True)}}, [{}] * 100_000),
    ({"patternProperties": dict.fromkeys(NAMES, True)}, dict.fromkeys(NAMES, 1)),
]


@pytest.mark.full
@pytest.mark.parametrize(("schema", "value"), HOSTILE)
def test_the_work_of_a_check_is_bounded(schema, value):
    started = monotonic()

    assert check_schema(schema) is None
    assert problem(schema, value) == "nested too deeply - at `$`"
    assert monotonic() - started < 20


def test_a_large_alternative_costs_no_more_than_the_value():
    schema = {"items": {"enum": [dict.fromkeys(NAMES, 1), {}]}}

    assert problem(schema, [{}] * 10_000) is None


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(a+)+$",
        r"^(a|a)*$",
        r"^(a?){40}$",
        r"^(a|aa)(a|aa)" + "(a|aa)" * 40 + "$",
        r"^(a*)*\1$",
        "a*" * 12 + "b",
        "a?" * 40 + "a" * 40 + "b",
        r"^[)](a+)+[(]$",
        r"(?x) ^ ( a + ) + $",
        r"(?ix:(a+) +)$",
        "(?x)#" + "[" * 100_000,
        "(a+)" * 300 + "+$",
        r"\\(a+)+$",
    ],
)
def test_an_explosive_pattern_is_not_checked(pattern):
    schema = {"pattern": pattern, "patternProperties": {pattern: False}}

    assert problem({"pattern": pattern}, "a" * 60 + "!") is None
    assert problem({**schema, "additionalProperties": False}, {}) is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$", "a" * 100 + "@"),
        (r"^\d{4}-\d\d-\d\d$", "2024-1-1"),
        (r"^https?://[^/]+/", "ftp://a.example/"),
        (r"^(GET|PUT)$", "POST"),
        (r"^(ab)+$", "aba"),
        (r"^[)+*]+$", "a"),
    ],
)
def test_a_usual_pattern_is_checked(pattern, text):
    assert "match of" in problem({"pattern": pattern}, text)


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"$ref": "#"}},
        {"not": {"items": {"$ref": "#"}}, "items": {"$ref": "#"}},
        {"uniqueItems": True},
    ],
)
def test_a_value_without_end_is_nested_too_deeply(schema):
    value = []
    value.append(value)

    assert problem(schema, value) == "nested too deeply - at `$`"


def test_a_schema_without_end_is_nested_too_deeply():
    schema = {}
    schema["not"] = schema

    assert check_schema(schema) == "nested too deeply - at `$`"


def test_names_are_escaped_and_shortened():
    schema = {"additionalProperties": {"additionalProperties": False}}

    line = problem(schema, {"a\n\ud800": {"b" * 1000: 1}})

    assert f"unknown property `{'b' * 120}…` - at `$.a\\n\\ud800`" == line


def test_allowed_values_are_shortened():
    line = problem({"enum": list(range(1000))}, "a")

    assert line.startswith("expected one of [0, 1, 2, ")
    assert line.endswith("… - at `$`")
    assert len(line) < 160


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab1", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=6,
)
KEYWORDS = {
    "type": st.sampled_from(
        ["integer", "number", "string", "array", "object", ["null", "boolean"]]
    ),
    "enum": st.lists(JSON, max_size=3),
    "const": JSON,
    "minLength": st.integers(0, 2),
    "pattern": st.sampled_from(["a", "^b", "1$"]),
    "minimum": st.integers(-2, 2),
    "multipleOf": st.sampled_from([1, 2, 0.5, 0.1]),
    "uniqueItems": st.booleans(),
    "maxItems": st.integers(0, 2),
    "required": st.lists(st.sampled_from(["a", "b"])),
    "maxProperties": st.integers(0, 2),
}


def _larger(inner):
    many, named = st.lists(inner, min_size=1, max_size=3), st.dictionaries(st.text("ab"), inner)
    one_schema = ["items", "additionalProperties", "propertyNames", "not", "if", "then", "else"]
    return st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(one_schema, inner),
            **dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems"], many),
            **dict.fromkeys(["properties", "patternProperties"], named),
        },
    )


SCHEMAS = st.recursive(
    st.booleans() | st.fixed_dictionaries({}, optional=KEYWORDS), _larger, max_leaves=5
).map(lambda schema: {"allOf": [schema]})


@given(SCHEMAS, JSON)
def test_a_value_fits_either_a_schema_or_its_opposite(schema, value):
    assert check_schema(schema) is None
    assert (problem(schema, value) is None) is (problem({"not": schema}, value) is not None)


@pytest.mark.full
@given(SCHEMAS, SCHEMAS, JSON)
def test_combined_schemas_follow_the_laws_of_logic(left, right, value):
    fits = [problem(schema, value) is None for schema in (left, right)]

    assert all(fits) is (problem({"allOf": [left, right]}, value) is None)
    assert any(fits) is (problem({"anyOf": [left, right]}, value) is None)
    assert (sum(fits) == 1) is (problem({"oneOf": [left, right]}, value) is None)


@given(JSON, JSON)
def test_a_constant_is_met_by_what_is_not_unique_beside_it(left, right):
    is_same = problem({"const": left}, right) is None

    assert is_same is (problem({"enum": [right]}, left) is None)
    assert is_same is (problem({"uniqueItems": True}, [left, right]) is not None)


@given(st.dictionaries(st.sampled_from([*KEYWORDS, "items", "properties", "$ref"]), JSON), JSON)
def test_a_sound_schema_never_raises(schema, value):
    if check_schema(schema) is None:
        assert problem(schema, value) is None or " - at `$" in problem(schema, value)


@given(SCHEMAS)
def test_a_problem_never_tells_the_value(schema):
    line = problem(schema, {"a": ["hunter2"], "b": "hunter2", "ab": {"a": "hunter2"}})

    assert line is None or ("hunter2" not in line and line.splitlines() == [line])
