"""The comparison of two timelines, and the walk through all texts of one."""

from time import process_time

from msgspec.structs import replace

from toolbus.history.session_differences import compare_sessions
from toolbus.history.timeline import CallEntry, MessageEntry, Timeline, Turn
from toolbus.messages.records import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.store.store_reader import SessionRow

ROW = SessionRow(1, "s", 3, 0, 1, 2, has_originals=False)


def entry_of(message, **fields):
    return MessageEntry(seq=1, id=message.id if message else "", message=message, **fields)


def call_of(tool="read", result="done", status="ok", **arguments):
    requested = ToolCall(id="c", name=tool, arguments=arguments)
    answer = result if isinstance(result, ToolResponse) else ToolResponse(result)
    message = ToolMessage(id="t", tool_call_id="c", tool_name=tool, tool_response=answer)
    executed = requested if status == "ok" else None
    return CallEntry(
        id="c",
        tool=tool,
        requested=requested,
        executed=executed,
        status=status,
        answer=entry_of(message),
        duration_ns=5,
    )


def timeline_of(*entries):
    turns = (Turn(run_id="r", number=1, messages=entries),)
    return Timeline(session=ROW, turns=turns, after=0, end=3, has_more=False)


def with_calls(*calls):
    return timeline_of(entry_of(AssistantMessage(id="a"), calls=calls, tokens_in=3, cost=0.5))


def only_pair(left, right):
    (pair,) = compare_sessions(with_calls(left), with_calls(right)).pairs
    return pair


def test_figures_add_the_calls_and_messages():
    comparison = compare_sessions(with_calls(call_of(), call_of()), timeline_of())

    assert comparison.first.calls == 2
    assert comparison.first.statuses == {"ok": 2}
    assert (comparison.first.tools_ns, comparison.first.tokens_in, comparison.first.cost) == (
        10,
        3,
        0.5,
    )
    assert comparison.second.cost is None


def test_names_of_arguments_may_be_in_another_order():
    assert only_pair(call_of(a=1, b=2), call_of(b=2, a=1)).outcome == "same"


def test_true_differs_from_one():
    pair = only_pair(call_of(force=True), call_of(force=1))

    assert (pair.outcome, pair.aspects) == ("changed", ("arguments",))


def test_arguments_that_ran_differ_from_those_requested():
    rewritten = replace(
        call_of(path="A"), executed=ToolCall(id="c", name="read", arguments={"path": "a"})
    )

    pair = only_pair(call_of(path="A"), rewritten)

    assert pair.aspects == ("arguments",)
    assert [each.path for each in pair.differences] == ["executed"]


def test_text_of_a_structured_result_is_not_compared_twice():
    old, new = (ToolResponse(structured={"n": number}) for number in (1, 2))

    pair = only_pair(call_of(result=old), call_of(result=new))

    assert [each.path for each in pair.differences] == ["structured.n"]


def test_arguments_without_json_are_compared_as_text():
    calls = [
        replace(call_of(), requested=ToolCall(id="c", name="read", raw=text))
        for text in ("{a", "{b")
    ]

    assert [each.path for each in only_pair(*calls).differences] == ["arguments"]


def test_a_damaged_message_is_a_step():
    damaged = timeline_of(entry_of(None, damage="message 1 is damaged: not JSON"))

    (pair,) = compare_sessions(damaged, timeline_of()).pairs

    assert (pair.outcome, pair.first.kind) == ("first", "damaged")


def test_reasoning_is_compared_beside_the_text():
    thoughts = [
        timeline_of(entry_of(AssistantMessage(id="a", content="yes", reasoning=thought)))
        for thought in ("it is", "it seems")
    ]

    (pair,) = compare_sessions(*thoughts).pairs

    assert pair.aspects == ("reasoning",)


def test_an_additional_prompt_moves_no_other():
    prompts = [entry_of(UserMessage(id=text, content=text)) for text in "abc"]

    comparison = compare_sessions(timeline_of(*prompts), timeline_of(*prompts[1:]))

    assert comparison.counts == {"first": 1, "same": 2}


def test_ten_thousand_calls_are_compared_in_seconds():
    left = with_calls(*[call_of(path=str(number % 7)) for number in range(10_000)])
    right = with_calls(*[call_of(path=str(number % 11)) for number in range(10_000)])
    start = process_time()

    comparison = compare_sessions(left, right)

    assert sum(comparison.counts.values()) >= 10_000
    assert process_time() - start < 20
