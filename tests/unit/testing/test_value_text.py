"""What `specs` should not mention of how reports show values."""

import pytest

from toolbus import TextPart, ToolCall, ToolResponse
from toolbus.testing.value_text import describe


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        ("a\n", "'a\\n'"),
        ("x" * 121, f"'{'x' * 60}' … '{'x' * 20}' (121 characters)"),
        (list(range(10)), "[0, 1, 2, 3, 4, 5, 6, 7, … (10 in all)]"),
        ({"a": (1, {"b": []})}, "{'a': [1, {'b': []}]}"),
        (ToolCall(id="c", name="read"), "ToolCall(id='c', name='read')"),
        (
            ToolResponse(content=(TextPart(text="a"),), is_error=True),
            "ToolResponse(content=[TextPart(text='a')], is_error=True)",
        ),
    ],
)
def test_values_are_shown(value, shown):
    assert describe(value) == shown


def test_deep_values_are_cut():
    value = []
    for _ in range(100):
        value = [value]

    assert describe(value) == "[" * 12 + "…" + "]" * 12


def test_what_is_long_in_all_is_cut():
    shown = describe([["x" * 100] * 8] * 8)

    assert shown.endswith(" characters)")
    assert len(shown) < 1_600
