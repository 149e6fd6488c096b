"""What `specs` should not mention of `toolbus.tools`."""

import functools

import pytest

from toolbus import EventBus, ToolRunner, tool
from toolbus.errors import RegistrationError
from toolbus.messages.records import TextPart
from toolbus.tools.calls.execution import to_response
from toolbus.tools.contexts import ToolContext
from toolbus.tools.signatures import Signature
from toolbus.tools.toolset import Toolset


class Counter:
    def __init__(self, step):
        self.step = step

    @tool(timeout=3, description="Count on.")
    def count(self, n: int) -> int:
        return n + self.step

    @tool
    def broken(self, n):
        """Lack a hint, which is found when it is reached through its object."""


async def test_a_method_is_a_tool_of_its_object():
    counter = Counter(2)

    outcome = await ToolRunner(EventBus(), Toolset([counter.count])).call("count", {"n": 1})

    assert Counter.count.name == "count"
    assert counter.count.timeout == 3
    assert counter.count.spec.description == "Count on."
    assert list(counter.count.spec.input_schema["properties"]) == ["n"]
    assert outcome.response.structured == 3
    with pytest.raises(RegistrationError, match="parameter 'n' has no type hint"):
        assert counter.broken


def test_another_function_takes_the_same_options():
    def twice(n: int) -> int:
        """Say nothing."""
        return 2 * n

    other = Counter(1).count.with_function(twice)

    assert (other.name, other.timeout, other.spec.description) == ("twice", 3, "Count on.")
    assert other.run is twice


def test_a_wrapper_shows_what_it_wraps():
    def read(path: str) -> str:
        """Read."""
        return path

    @functools.wraps(read)
    def wrapper(*args, **kwargs):
        return read(*args, **kwargs)

    made = tool(wrapper)

    assert made.run is wrapper
    assert list(made.spec.input_schema["properties"]) == ["path"]


def test_a_return_hint_injects_nothing():
    def give(one: ToolContext, two: "ToolContext | None" = None) -> None: ...

    def make() -> ToolContext: ...

    assert Signature(give).injected == ("one", "two")
    assert Signature(make).injected == ()


def test_only_parts_alone_are_content():
    part = TextPart(text="a")

    assert to_response((part,)).content == (part,)
    assert to_response([part, 1]).content == ()
    assert to_response([]).structured == ()
