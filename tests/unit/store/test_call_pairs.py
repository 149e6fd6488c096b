"""The order of calls and answers, for any session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.messages.records import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.store.check.call_pairs import CallPairs
from toolbus.store.store_reader import MessageRow

kinds = st.sampled_from(["call", "answer", "interrupted", "said", "other"])
lines = st.lists(st.tuples(kinds, st.lists(st.sampled_from("123"), min_size=1, max_size=3)))


def message(kind, calls):
    match kind:
        case "call":
            return AssistantMessage(tool_calls=[ToolCall(id=one, name="read") for one in calls])
        case "said":
            return UserMessage(content="hello")
        case "other":
            return AssistantMessage(content="hm")
    error = "interrupted" if kind == "interrupted" else None
    response = ToolResponse(is_error=bool(error), error_type=error)
    return ToolMessage(tool_call_id=calls[0], tool_name="read", tool_response=response)


def rows_of(messages):
    """Return a session of *messages*, numbered from 1."""
    return [MessageRow(seq, 1, seq, one.id, one) for seq, one in enumerate(messages, 1)]


def paired(rows):
    pairing = CallPairs()
    for row in rows:
        pairing.add(row)
    return pairing


def mended(rows, pairing):
    """Return the rows that stay, in the order that a recovery gives them."""
    stay = [row for row in rows if row.key not in pairing.left_out]
    return sorted(stay, key=lambda row: pairing.position(row.key))


@pytest.mark.full
@given(drawn=lines)
def test_what_was_mended_has_no_problem_and_stays_as_it_is(drawn):
    rows = rows_of([message(*line) for line in drawn])
    pairing = paired(rows)
    order = mended(rows, pairing)

    left_out = [row.message for row in rows if row.key in pairing.left_out]
    assert all(isinstance(one, ToolMessage) for one in left_out)
    assert len(left_out) == sum(max(0, len(one.answers) - 1) for one in pairing.calls)
    again_rows = rows_of([row.message for row in order])
    again = paired(again_rows)
    assert list(again.problems()) == []
    assert mended(again_rows, again) == again_rows
    assert again.unanswered == pairing.unanswered
    assert len(again.strays) == len(pairing.strays)


@given(drawn=lines)
def test_each_message_that_moved_is_told(drawn):
    rows = rows_of([message(*line) for line in drawn])
    pairing = paired(rows)
    order = [row.seq for row in mended(rows, pairing)]
    told = [int(line.split()[1]) for line in pairing.repairs() if "was moved" in line]

    overtaken = [seq for at, seq in enumerate(order) if any(one < seq for one in order[at + 1 :])]
    assert [one for one in overtaken if one not in told] == []


@given(drawn=lines)
def test_a_session_without_a_problem_is_left_alone(drawn):
    rows = rows_of([message(*line) for line in drawn])
    pairing = paired(rows)

    if not any(pairing.problems()):
        strays = {seq for seq, _ in pairing.strays}
        moved = [row.seq for row in mended(rows, pairing)]
        assert [one for one in moved if one not in strays] == [
            row.seq for row in rows if row.seq not in strays
        ]


def test_an_id_that_is_given_again_is_another_call():
    names = [("call", "1"), ("answer", "1"), ("call", "1"), ("answer", "1"), ("said", "1")]

    assert list(paired(rows_of([message(*line) for line in names])).problems()) == []


def test_two_calls_of_one_id_in_one_message_have_two_answers():
    names = [("said", "1"), ("call", "11"), ("answer", "1"), ("answer", "1")]

    assert list(paired(rows_of([message(*line) for line in names])).problems()) == []
