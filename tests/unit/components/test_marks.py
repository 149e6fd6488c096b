"""How marks are found on a class and the classes above it."""

import pytest

from toolbus.components.components import AgentComponent
from toolbus.components.marks import Mark, guard, marked, on, tools_of
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_AFTER, TOOL_CALL_BEFORE
from toolbus.tools import Tool, tool


class Base:
    @on(TOOL_CALL_BEFORE)
    def first(self, ctx):
        raise NotImplementedError

    @guard(TOOL_CALL_BEFORE, priority=2)
    @on(MESSAGE_APPEND_BEFORE)
    def second(self, ctx):
        raise NotImplementedError

    @staticmethod
    @on(TOOL_CALL_AFTER)
    def third(ctx):
        raise NotImplementedError

    @tool
    def one(self) -> str:
        """One."""
        return "base one"

    @tool(timeout=2)
    def two(self) -> str:
        """Two."""
        return "base two"

    @on(TOOL_CALL_AFTER)
    @classmethod
    def fourth(cls, ctx):
        raise NotImplementedError

    def plain(self):
        raise NotImplementedError


FIRST = ("first", Mark(TOOL_CALL_BEFORE, "on", {}))
SECOND = [
    ("second", Mark(MESSAGE_APPEND_BEFORE, "on", {})),
    ("second", Mark(TOOL_CALL_BEFORE, "guard", {"priority": 2})),
]
THIRD = ("third", Mark(TOOL_CALL_AFTER, "on", {}))
FOURTH = ("fourth", THIRD[1])


def told(component):
    return [
        (one.spec.name, one.spec.description, one.timeout, one.run()) for one in tools_of(component)
    ]


def test_marks_are_in_order_of_definition():
    assert list(marked(Base)) == [FIRST, *SECOND, THIRD, FOURTH]


def test_an_override_keeps_place_and_marks():
    class Sub(Base):
        def second(self, ctx):
            raise NotImplementedError

        first = None
        plain = None

        @on(TOOL_CALL_AFTER)
        def fifth(self, ctx):
            raise NotImplementedError

    assert list(marked(Sub)) == [*SECOND, THIRD, FOURTH, ("fifth", THIRD[1])]


def test_a_mark_of_two_classes_is_that_of_the_nearest():
    class Left(Base):
        @on(TOOL_CALL_AFTER)
        def first(self, ctx):
            raise NotImplementedError

    class Right(Base):
        first = None

    class Both(Left, Right):
        pass

    assert dict(marked(Both))["first"] == THIRD[1]


def test_a_mark_gives_the_function_back():
    def handler(self, ctx):
        raise NotImplementedError

    assert on(TOOL_CALL_BEFORE)(handler) is handler
    assert guard(TOOL_CALL_BEFORE)(handler) is handler


def test_tools_are_in_order_of_definition():
    assert told(Base()) == [("one", "One.", None, "base one"), ("two", "Two.", 2, "base two")]


def test_an_overriding_method_is_the_tool():
    class Sub(Base):
        one = None
        plain = None

        def two(self) -> str:
            """Second."""
            return "own two"

    class Below(Sub):
        @tool(name="uno")
        def one(self) -> str:
            """Uno."""
            return "own one"

    assert told(Sub()) == [("two", "Second.", 2, "own two")]
    assert told(Below()) == [
        ("two", "Second.", 2, "own two"),
        ("uno", "Uno.", None, "own one"),
    ]


def test_a_static_method_may_be_a_tool():
    class Holder:
        @staticmethod
        @tool
        def below() -> str:
            """Below."""
            return "below"

        @tool
        @staticmethod
        def above() -> str:
            """Above."""
            return "above"

    assert told(Holder()) == [
        ("below", "Below.", None, "below"),
        ("above", "Above.", None, "above"),
    ]


def test_an_object_that_is_a_tool_is_no_method():
    class Holder:
        class Other(Tool):
            def run(self) -> str:
                raise NotImplementedError

        other = Other()

    assert list(tools_of(Holder())) == []


def test_unknown_options_are_refused():
    with pytest.raises(RegistrationError, match="'prioriti'; did you mean 'priority'"):
        on(TOOL_CALL_BEFORE, prioriti=3)


def test_the_base_class_marks_nothing():
    assert list(marked(AgentComponent)) == []
    assert list(tools_of(AgentComponent())) == []


def test_a_mark_is_checked_as_what_it_will_be():
    with pytest.raises(RegistrationError, match="an observer cannot deny or raise"):
        on(TOOL_CALL_AFTER, on_error="raise")
    on(TOOL_CALL_BEFORE, on_error="raise")
    guard(TOOL_CALL_BEFORE, on_error="open")
