"""Values of types that msgspec does not know, and what those that it knows say of mistakes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolbus.toml.values import MisfitError, fit

HERE = Path("/etc")


@dataclass
class Span:
    first: int
    last: int

    def __post_init__(self):
        if self.first > self.last:
            raise ValueError(f"{self.first} is after {self.last}")


@pytest.mark.parametrize(
    ("value", "kind", "fitted"),
    [
        ([1, "a"], Iterable, (1, "a")),
        ({"a": [1]}, Any, {"a": [1]}),
        (3, object, 3),
        ("~root/x", Path, Path("~root/x").expanduser()),
        ("/x", Path | None, Path("/x")),
        (["x"], list[Path], [HERE / "x"]),
        ({"a": "b+"}, dict[str, re.Pattern[str]], {"a": re.compile("b+")}),
        ({"first": 1, "last": 2}, Span, Span(1, 2)),
    ],
)
def test_a_value_becomes_the_type(value, kind, fitted):
    assert fit(value, kind, HERE) == fitted


@pytest.mark.parametrize(
    ("value", "kind", "reason", "path"),
    [
        ({"a": {"b": [1, "x"]}}, dict[str, dict[str, list[int]]], "expected `int`, got `str`", ()),
        ([{"first": 1, "last": "x"}], list[Span], "expected `int`, got `str`", (0, "last")),
        ({"first": 1}, Span, "object missing required field `last`", ()),
        ({"first": 2, "last": 1}, Span, "2 is after 1", ()),
        ("x", set, "expected `array`, got `str`", ()),
        (3, re.Pattern[str], "expected `str` for a `Pattern`, got `int`", ()),
        (3, HERE, "TypeError: ", ()),
    ],
)
def test_a_misfit_says_where_it_is(value, kind, reason, path):
    with pytest.raises(MisfitError) as caught:
        fit(value, kind, HERE)

    assert caught.value.reason.startswith(reason)
    assert caught.value.path == path
