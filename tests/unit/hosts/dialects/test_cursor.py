"""Cursor's events as its documentation tells them, and the exact answers."""

import pytest

from recorded_events import answered, blocked, decoded, recorded, texts, with_texts
from toolbus.errors import DecodeError
from toolbus.hosts.dialects.cursor import CursorDialect
from toolbus.messages.records import ToolCall

HOST = "cursor"
REPLACED = [{"type": "text", "text": "new"}]


def test_an_event_says_its_kind_session_and_folder():
    call, prompt = decoded(HOST, "preToolUse"), decoded(HOST, "beforeSubmitPrompt")

    assert (call.kind, call.folder) == ("call", "/home/ann/work/sub")
    assert (prompt.kind, prompt.folder, prompt.text) == ("prompt", "/home/ann/work", "run it")
    assert call.session_id == "00000000-0000-4000-8000-000000000001"
    assert call.call == ToolCall(
        id="t1", name="Shell", arguments={"command": "echo the-planted-word"}
    )


def test_a_result_is_the_json_in_a_text():
    assert "the-planted-word" in texts(decoded(HOST, "postToolUse"))
    assert texts(decoded(HOST, "postToolUse-mcp")) == ["the-planted-word x"]
    plain = recorded(HOST, "postToolUse") | {"tool_output": "no JSON"}
    assert texts(CursorDialect().decode("postToolUse", plain)) == ["no JSON"]


def test_a_failure_is_its_message():
    failure = decoded(HOST, "postToolUseFailure")

    assert texts(failure) == ["the-planted-word: not there"]
    assert failure.response.is_error


def test_a_call_is_denied_or_rewritten():
    call = decoded(HOST, "preToolUse").call.with_arguments({"command": "ls"})

    assert answered(HOST, "preToolUse") == (None, ())
    assert answered(HOST, "preToolUse", denied="no") == (
        {"permission": "deny", "user_message": "no", "agent_message": "no"},
        (),
    )
    assert answered(HOST, "preToolUse", call=call) == (
        {"permission": "allow", "updated_input": {"command": "ls"}},
        (),
    )


def test_only_results_of_mcp_tools_are_replaced():
    assert answered(HOST, "postToolUse-mcp", response=with_texts("new"), context=("c",)) == (
        {"updated_mcp_tool_output": {"content": REPLACED}, "additional_context": "c"},
        (),
    )
    assert answered(HOST, "postToolUse", response=with_texts("new")) == (
        None,
        ("replace_result",),
    )
    assert answered(HOST, "postToolUseFailure", response=with_texts("new")) == (
        None,
        ("replace_failure",),
    )


def test_context_that_is_too_long_is_not_delivered():
    assert answered(HOST, "postToolUse", context=("c",)) == ({"additional_context": "c"}, ())
    assert answered(HOST, "postToolUse", context=("c" * 10_001,))[1] == ("add_context",)


def test_what_can_be_stopped_is_stopped():
    reason = "toolbus: it broke"
    denial = {"permission": "deny", "user_message": reason, "agent_message": reason}
    notice = {"content": [{"type": "text", "text": reason}], "isError": True}

    assert blocked(HOST, "preToolUse") == (denial, ())
    assert blocked(HOST, "beforeShellExecution") == (denial, ())
    assert blocked(HOST, "beforeSubmitPrompt") == ({"continue": False, "user_message": reason}, ())
    assert blocked(HOST, "postToolUse", recorded(HOST, "postToolUse-mcp")) == (
        {"updated_mcp_tool_output": notice},
        (),
    )


def test_what_cannot_be_stopped_is_said():
    assert blocked(HOST, "postToolUse")[1] == ("replace_result",)
    assert blocked(HOST, "postToolUseFailure") == (None, ("replace_failure",))
    assert blocked(HOST, "sessionEnd") == (None, ())


@pytest.mark.parametrize("output", [None, 5, "[" * 100_000])
def test_an_output_of_another_form_is_refused(output):
    payload = recorded(HOST, "postToolUse") | {"tool_output": output}

    with pytest.raises(DecodeError, match="tool_output"):
        CursorDialect().decode("postToolUse", payload)
