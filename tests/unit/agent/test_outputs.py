"""What the answer of a run must be, and the options that stand in two places."""

import inspect

import pytest
from msgspec import Struct

from toolbus import Agent, AssistantMessage
from toolbus.agent.options import AgentOptions
from toolbus.agent.outputs import OutputType
from toolbus.errors import DecodeError


class Node(Struct):
    value: int
    next: "Node | None" = None


def test_options_are_those_of_an_agent():
    parameters = inspect.signature(Agent.__init__).parameters

    assert set(AgentOptions.__annotations__) == parameters.keys() - {"self", "model", "output_type"}


def test_a_recursive_type_keeps_its_definition():
    output = OutputType(Node)

    assert list(output.schema["properties"]) == ["value", "next"]
    assert list(output.schema["$defs"]) == ["Node"]
    assert output.decode('{"value": 1, "next": {"value": 2}}') == Node(1, Node(2))


@pytest.mark.parametrize(
    ("said", "path"),
    [('{"value": ["a"]}', "$.value[0]"), ('["a"]', "$[0]"), ('{"value": 1, "b": 2}', "$")],
)
def test_paths_are_those_of_what_was_said(said, path):
    with pytest.raises(DecodeError) as caught:
        OutputType(list[int]).json_of(AssistantMessage(content=said))

    assert caught.value.path == path


@pytest.mark.parametrize("kind", [Node, int, list[int], dict[str, int]])
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("[" * 10_000 + "]" * 10_000, "nested too deeply"),
        ('{"value":' + "[" * 10_000 + "]" * 10_000 + "}", "nested too deeply"),
        ('{"value":' * 10_000, "nested too deeply|truncated"),
        ("```\n" + "[" * 10_000 + "]" * 10_000 + "\n```", "nested too deeply"),
        ('{"value": 1e999}', "out of range"),
        ('{"value": 1} {"value": 2}', "trailing characters - at byte 14"),
        ("```json\n[1]", "invalid character - at byte 0"),
        ("```", "invalid character"),
        ("````", "truncated"),
        ("\0", "invalid character"),
    ],
)
def test_what_is_no_json_is_named_whatever_the_type(kind, said, words):
    with pytest.raises(DecodeError, match=words):
        OutputType(kind).json_of(AssistantMessage(content=said))
