"""Mistral Vibe's events as it sent them, and the exact answers."""

import pytest

from recorded_events import answered, blocked, decoded, recorded, texts, with_texts
from toolbus.errors import DecodeError
from toolbus.hosts.dialects.vibe import VibeDialect
from toolbus.messages.records import ToolCall

HOST = "vibe"
SESSION = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("name", "kind"), [("pre_tool", "call"), ("post_tool", "result"), ("post_agent", "answer")]
)
def test_each_event_says_its_kind_session_and_folder(name, kind):
    event = decoded(HOST, name)

    assert (event.kind, event.session_id, event.folder) == (kind, SESSION, "/home/ann/work")
    assert (event.host, event.name, event.agent) == (HOST, name, "")


def test_a_call_has_the_name_and_id_of_the_wire():
    assert decoded(HOST, "pre_tool").call == ToolCall(
        id="call00001", name="file_system.bash", arguments={"command": "echo the-planted-word"}
    )


def test_a_sub_agent_is_a_part_of_its_parents_session():
    payload = recorded(HOST, "pre_tool") | {"parent_session_id": "parent"}

    event = VibeDialect().decode("pre_tool", payload)

    assert (event.session_id, event.agent) == ("parent", SESSION)


def test_a_result_is_its_text_and_what_only_programs_read():
    payload = recorded(HOST, "post_tool")
    payload["tool_output"]["hidden"] = ["only here"]

    event = VibeDialect().decode("post_tool", payload)

    assert texts(decoded(HOST, "post_tool")) == [payload["tool_output_text"]]
    assert texts(event) == [payload["tool_output_text"], "hidden", "only here"]
    assert not event.response.is_error
    changed = event.response.map_text(lambda text: text.replace("only here", "[redacted]"))
    answer, _ = answered(HOST, "post_tool", response=changed)
    assert answer["decision"] == "deny"


def test_a_failure_is_its_message():
    failure = decoded(HOST, "post_tool-failure")

    assert texts(failure) == ["File not found at: /home/ann/nothere-SECRET"]
    assert failure.response.is_error


def test_what_passes_is_answered_by_nothing():
    for name in ("pre_tool", "post_tool", "post_agent"):
        assert answered(HOST, name) == (None, ())


def test_a_call_is_denied_or_rewritten():
    call = decoded(HOST, "pre_tool").call.with_arguments({"command": "ls"})

    assert answered(HOST, "pre_tool", denied="no") == ({"decision": "deny", "reason": "no"}, ())
    assert answered(HOST, "pre_tool", call=call, context=("lost",)) == (
        {"hook_specific_output": {"tool_input": {"command": "ls"}}},
        ("add_context",),
    )


def test_a_result_is_replaced_by_its_first_text_or_as_a_whole():
    before = decoded(HOST, "post_tool").response
    same = before.map_text(lambda text: text.replace("the-planted-word", "[redacted]"))

    answer, _ = answered(HOST, "post_tool", response=same, context=("more",))

    assert answer == {
        "decision": "deny",
        "reason": "command: echo [redacted]\nreturncode: 0\nstderr: \nstdout: [redacted]\n\n"
        "timed_out: False\nwas_truncated: False",
        "hook_specific_output": {"additional_context": "more"},
    }
    shorter, _ = answered(HOST, "post_tool-failure", response=with_texts("a", "b"))
    assert shorter == {"decision": "deny", "reason": "a\nb"}


def test_an_answer_that_vibe_would_cut_becomes_a_notice():
    answer, _ = answered(HOST, "post_tool", response=with_texts("x" * 1_000_000))

    assert answer == {
        "decision": "deny",
        "reason": "toolbus withheld this result: the changed result is too long for Vibe",
    }


def test_what_can_be_stopped_is_stopped():
    for name in ("pre_tool", "post_tool", "of tomorrow"):
        assert blocked(HOST, name) == ({"decision": "deny", "reason": "toolbus: it broke"}, ())
    assert blocked(HOST, "post_agent") == ({"system_message": "toolbus: it broke"}, ())


@pytest.mark.parametrize("missing", ["session_id", "tool_call_id", "tool_name", "tool_input"])
def test_an_event_that_lacks_something_is_refused(missing):
    payload = recorded(HOST, "pre_tool")
    del payload[missing]

    with pytest.raises(DecodeError, match=missing):
        VibeDialect().decode("pre_tool", payload)
