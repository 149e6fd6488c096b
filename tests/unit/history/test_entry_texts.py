"""The texts of a timeline."""

import pytest
from msgspec.structs import replace

from toolbus import AssistantMessage, ToolCall, UserMessage
from toolbus.history.entry_texts import (
    beginning,
    diff_rows,
    effect_of,
    entry_facts,
    excerpt,
    execution_note,
    is_together,
    outcome_words,
    short,
    status_words,
    strip,
    turn_title,
    value_note,
    value_text,
)
from toolbus.history.message_history import DispatchView, HandlerView, ValueView
from toolbus.history.timeline import CallEntry, MessageEntry, Turn


def view(value):
    return ValueView(digest="d", size=9, has_value=True, value=value)


BARE = ValueView(digest="d", size=9_000)


def handler(name, status="ran", **fields):
    return HandlerView(
        name=name, kind="guard", priority=1, status=status, reason=None, duration_ns=1, **fields
    )


def dispatch(*handlers, event="tool:call:before", outcome="unchanged"):
    return DispatchView(
        event=event,
        outcome=outcome,
        reason=None,
        run_id="",
        turn=0,
        started_ns=0,
        duration_ns=0,
        original=BARE,
        handlers=handlers,
    )


def test_an_excerpt_has_the_first_lines_and_counts_the_rest():
    assert excerpt("a\nb") == ("a\nb", "")
    assert excerpt("".join(f"{line}\n" for line in range(9)))[0] == "0\n1\n2\n3\n4\n5"
    assert excerpt("x" * 10_000)[0] == "x" * 600
    assert excerpt("x" * 10_000).rest == "… 9,400 more characters"


def test_a_page_of_its_own_shows_a_text_as_it_is():
    text = " a\r\nb\n" * 1_000

    assert beginning(text) == (text, "")
    assert len(beginning("x" * 10**6).text) == 200_000


def test_a_long_name_is_cut():
    assert short("x" * 200) == "x" * 200
    assert short("x" * 201) == "x" * 200 + "…"


def test_a_strip_names_effects_and_joins_the_other_handlers():
    views = [
        dispatch(handler("one"), handler("two", "changed"), handler("three", "skipped")),
        dispatch(handler("four"), handler("five", "not_run"), event="message:append:before"),
    ]

    assert strip(views) == [
        ("ran", "one"),
        ("changed", "~ two changed the call"),
        ("ran", "four"),
    ]
    assert strip(views[1:]) == [("ran", "1 handler without an effect")]
    assert strip([]) == []


def test_a_long_strip_keeps_its_ends():
    changing = [handler(f"h{place}", "changed") for place in range(20)]
    steps = strip([dispatch(*changing, handler("guard", "denied"))])

    assert len(steps) == 13
    assert steps[8] == ("ran", "9 more")
    assert steps[-1] == ("denied", "✗ guard denied the call")


def test_a_turn_without_records_is_titled_by_its_message():
    prompt = MessageEntry(seq=1, id="1", message=UserMessage(id="1", content="go"))
    answer = MessageEntry(seq=2, id="2", message=AssistantMessage(id="2", content="done"))

    assert turn_title(Turn(run_id="", number=0, messages=(prompt, answer))) == "Prompt"
    assert turn_title(Turn(run_id="", number=0, messages=(answer,))) == "Answer"
    call = CallEntry(id="c", tool="t", requested=None, executed=None, status="ok")
    with_calls = replace(answer, calls=(call,))
    assert turn_title(Turn(run_id="", number=0, messages=(with_calls,))) == "Turn"
    assert turn_title(Turn(run_id="r", number=2, messages=(answer,))) == "Turn 2"
    assert (
        turn_title(Turn(run_id="", number=0, messages=(MessageEntry(seq=3, id="3", message=None),)))
        == "Messages"
    )


def test_an_outcome_names_its_handlers():
    denied = dispatch(handler("one"), handler("two", "denied"), outcome="denied")

    assert outcome_words(denied) == "tool:call:before denied by two"


def test_a_change_without_values_says_so():
    changed = handler("one", "changed", fields=("arguments",), before=BARE, after=BARE)

    assert effect_of(changed) == "changed arguments: 9,000 → 9,000 bytes; values not stored"
    assert list(diff_rows(BARE, BARE)) == []


def test_a_difference_has_the_changed_lines_only():
    rows = dict(diff_rows(view({"a": "one\ntwo", "b": 1}), view({"a": "one\n2", "b": 1})))

    assert rows == {"a": [("-", "two"), ("+", "2")]}


@pytest.mark.parametrize("tail", ["", "z" * 9_000])
def test_a_difference_far_inside_a_long_line_is_shown(tail):
    start = "x" * 50_000
    ((_, rows),) = diff_rows(view(f"{start}a{tail}"), view(f"{start}b{tail}"))

    assert [row.text[:102] for row in rows] == [f"…{'x' * 100}a", f"…{'x' * 100}b"]
    assert all(len(row.text) <= 2_001 for row in rows)


def test_an_appended_end_of_a_long_line_is_shown():
    ((_, rows),) = diff_rows(view("x" * 50_000), view("x" * 50_000 + "end"))

    assert rows[1].text == f"…{'x' * 100}end"


def test_texts_too_long_to_compare_are_counted():
    old, new = "\n".join(map(str, range(2_000))), "\n".join(map(str, range(1, 900)))
    ((title, rows),) = diff_rows(view({"a": old}), view({"a": new}))

    assert title == "a: 2,000 lines became 899"
    assert [row.text for row in rows[:6]] == ["0", "1", "2", "3", "4", "5"]


def test_values_are_texts_or_json():
    message = {"role": "user", "id": "u", "content": "hello"}

    assert value_text(view(message)) == "hello"
    assert value_text(view({"a": 1})) == '{\n  "a": 1\n}'
    assert value_text(BARE) == value_text(None) == ""
    assert value_note(None) == "As it is stored."
    assert value_note(BARE) == "9,000 bytes; the session keeps no originals"


def test_facts_are_those_that_are_known():
    entry = MessageEntry(seq=1, id="a", message=None)

    assert entry_facts(entry) == ""
    facts = {"duration_ns": 2_000_000, "tokens_in": 1_200, "cost": 0.01234}
    known = MessageEntry(seq=1, id="a", message=None, **facts)
    assert entry_facts(known) == "2.0 ms, 1,200 tokens in, 0 out, cost 0.01234"


def test_each_status_has_words():
    assert status_words("unknown_tool") == "unknown tool"
    assert status_words("open") == "no answer yet"


def test_calls_of_a_client_at_the_same_time_are_together():
    def entry(*calls):
        return MessageEntry(seq=1, id="a", message=None, calls=calls)

    call = CallEntry(id="c", tool="t", requested=None, executed=None, status="ok")
    several = (entry(call), entry(call))

    assert is_together(Turn(run_id="", number=0, messages=several))
    assert not is_together(Turn(run_id="", number=0, messages=several[:1]))
    assert not is_together(Turn(run_id="r", number=1, messages=several))


def test_a_call_that_did_not_run_says_so():
    assert execution_note(None, "denied") == "It did not run."
    assert execution_note(None, "ok") == "Not known."
    assert execution_note(None, "") == "No answer yet."
    assert execution_note(ToolCall(id="c", name="read"), "ok") == "read"
