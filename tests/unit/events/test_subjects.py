"""Which tools a selector chooses, and of which values that is asked."""

import pytest

from toolbus.events.catalogue import ToolCallOutcome
from toolbus.events.subjects import ToolSelector
from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse, UserMessage

READ = ToolCall(id="c", name="read_file")


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        ("*", ["read", "Read", "re[ad", ""]),
        ("re*", ["read", "re[ad"]),
        (["Read", "x"], ["Read"]),
        ("re[[]ad", ["re[ad"]),
        ((), []),
    ],
)
def test_patterns_are_compared_letter_by_letter(patterns, chosen):
    selector = ToolSelector(patterns)

    assert [name for name in ("read", "Read", "re[ad", "") if selector.matches(name)] == chosen


def test_patterns_are_read_once():
    selector = ToolSelector(iter(["a", "b"]))

    assert [selector.matches(name) for name in "bca"] == [True, False, True]


def test_a_value_of_no_single_tool_is_admitted():
    selector = ToolSelector("write*")
    message = ToolMessage(id="m", tool_call_id="c", tool_name="write_file")
    outcome = ToolCallOutcome(
        requested=READ,
        executed=ToolCall(id="c", name="write_file"),
        response=ToolResponse(),
        status="ok",
    )

    admitted = [
        selector.admits(value)
        for value in (READ, message, outcome, UserMessage(id="u", content="hi"), ())
    ]

    assert admitted == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("patterns", "sound"), [("a", True), ((), False), ([""], False), ([1], False)]
)
def test_patterns_that_make_no_sense_have_a_problem(patterns, sound):
    assert (ToolSelector(patterns).problem is None) is sound


def test_only_a_star_alone_is_everything():
    patterns = "*", ["a", "*"], "a*", "**"

    assert [ToolSelector(one).is_everything for one in patterns] == [True, True, False, False]
