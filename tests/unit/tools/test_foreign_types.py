"""What `specs` should not mention of pydantic's types."""

from dataclasses import dataclass
from typing import Annotated

import pydantic
import pytest

from toolbus import tool
from toolbus.errors import RegistrationError
from toolbus.messages import schemas
from toolbus.tools.foreign_types import is_pydantic


class Node(pydantic.BaseModel):
    nodes: "list[Node]" = []


@dataclass
class Lost:
    node: "Gone"  # noqa: F821 - that is the case


@dataclass
class Twig:
    node: Node
    twigs: "list[Twig]"


def test_types_of_one_name_stay_apart():
    def first():
        class Leaf(pydantic.BaseModel):
            size: int

        return Leaf

    def second():
        class Leaf(pydantic.BaseModel):
            name: str

        return Leaf

    def grow(a: list[Node], b: list[Node], c: list[Node]): ...

    leaves = {"a": list[first()], "b": list[second()], "c": list[Node]}
    grow.__annotations__ = leaves
    schema = tool(grow).spec.input_schema

    assert list(schema["$defs"]) == ["Leaf", "b.Leaf", "Node"]
    assert schemas.problem(schema, {"a": [{"size": 1}], "b": [{"name": "x"}], "c": []}) is None
    assert "$.a[0]" in schemas.problem(schema, {"a": [{"name": "x"}], "b": [], "c": []})
    assert "$.b[0]" in schemas.problem(schema, {"a": [], "b": [{"size": 1}], "c": []})


def test_equal_types_stand_once():
    def grow(a: list[Node], b: dict[str, Node], c: Node | None = None): ...

    schema = tool(grow).spec.input_schema

    assert list(schema["$defs"]) == ["Node"]


@pytest.mark.parametrize(
    ("hint", "is_one"),
    [
        (Node, True),
        (list[dict[str, Node | None]], True),
        (Twig, True),
        (pydantic.PositiveInt, True),
        (Annotated[str, pydantic.StringConstraints(max_length=3)], True),
        (Annotated[str, "pydantic"], False),
        (Lost, False),
        (list[int], False),
        ("Node", False),
        (None, False),
    ],
)
def test_what_pydantic_made_is_known(hint, is_one):
    assert is_pydantic(hint) is is_one


def test_what_pydantic_cannot_read_is_refused():
    class Open(pydantic.BaseModel):
        node: "Gone"  # noqa: F821 - that is the case

    def takes(a: Open): ...
    def gives() -> list[Open]: ...

    for function in (takes, gives):
        with pytest.raises(RegistrationError, match=r"a type hint is not a JSON type: .*Open"):
            tool(function)
