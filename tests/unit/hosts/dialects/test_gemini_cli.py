"""Gemini CLI's events as it sent them, and the exact answers."""

import pytest

from recorded_events import answered, blocked, decoded, recorded, texts, with_texts
from toolbus.errors import DecodeError
from toolbus.hosts.dialects.gemini_cli import GeminiCliDialect
from toolbus.messages.records import ToolCall

HOST = "gemini-cli"
SESSION = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("SessionStart", "session_start", ""),
        ("BeforeAgent", "prompt", "run it"),
        ("BeforeTool", "call", ""),
        ("AfterTool", "result", ""),
        ("AfterAgent", "answer", "FINAL"),
        ("SessionEnd", "session_end", ""),
    ],
)
def test_each_event_says_its_kind_session_and_folder(name, kind, text):
    event = decoded(HOST, name)

    assert (event.kind, event.session_id, event.folder) == (kind, SESSION, "/home/ann/work")
    assert (event.host, event.name, event.text) == (HOST, name, text)


def test_a_call_has_no_id():
    call = decoded(HOST, "BeforeTool-mcp").call

    assert call == ToolCall(id="", name="mcp_srv_peek", arguments={"q": "x"})


def test_a_result_is_what_the_model_reads():
    result, mcp = decoded(HOST, "AfterTool"), decoded(HOST, "AfterTool-mcp")

    assert texts(result) == [
        "<untrusted_context>\nOutput: the-planted-word\ntwo\nPGID 42\n</untrusted_context>"
    ]
    assert texts(mcp) == [
        "<untrusted_context>\nthe-planted-word x\n</untrusted_context>",
        "<untrusted_context>\nsecond\n</untrusted_context>",
    ]
    assert not mcp.response.is_error


def test_a_failure_is_the_message_that_the_model_reads():
    failure = decoded(HOST, "AfterTool-failure")

    assert texts(failure) == ["File not found: /home/ann/work/nothere.txt"]
    assert (failure.response.is_error, failure.response.error_type) == (True, "file_not_found")
    assert "the-planted-word fail" in texts(decoded(HOST, "AfterTool-mcp-failure"))[0]


def test_what_passes_is_answered_by_nothing():
    for name in ("BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "SessionEnd"):
        assert answered(HOST, name) == (None, ())
    unchanged = decoded(HOST, "AfterTool").response
    assert answered(HOST, "AfterTool", response=unchanged) == (None, ())


def test_a_call_is_denied_or_rewritten():
    call = decoded(HOST, "BeforeTool").call

    assert answered(HOST, "BeforeTool", denied="no") == ({"decision": "deny", "reason": "no"}, ())
    asked = answered(HOST, "BeforeTool", asked="really?")
    assert asked == ({"decision": "deny", "reason": "really?"}, ("ask",))
    assert answered(HOST, "BeforeTool", call=call.with_arguments({"command": "ls"})) == (
        {"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": {"command": "ls"}}},
        (),
    )
    renamed, _ = answered(HOST, "BeforeTool", call=ToolCall(name="other"))
    assert renamed["decision"] == "deny"
    assert "'other', which a hook cannot do" in renamed["reason"]


def test_a_result_is_replaced_by_a_reason_that_also_says_the_context():
    assert answered(HOST, "AfterTool", response=with_texts("[redacted]")) == (
        {"decision": "deny", "reason": "[redacted]"},
        (),
    )
    assert answered(
        HOST, "AfterTool-mcp-failure", response=with_texts("a", "b"), context=("c",)
    ) == (
        {"decision": "deny", "reason": "a\nb\n\nc"},
        (),
    )
    assert answered(HOST, "AfterTool", response=with_texts(""))[0]["reason"].startswith("(toolbus")


def test_context_is_added_where_the_host_takes_it():
    for name in ("AfterTool", "BeforeAgent", "SessionStart"):
        output = {"hookEventName": name, "additionalContext": "one\n\ntwo"}
        answer = answered(HOST, name, context=("one", "two"))
        assert answer == ({"hookSpecificOutput": output}, ())
    for name in ("BeforeTool", "AfterAgent", "SessionEnd"):
        assert answered(HOST, name, context=("one",)) == (None, ("add_context",))


def test_a_prompt_is_denied():
    assert answered(HOST, "BeforeAgent", denied="no") == ({"decision": "deny", "reason": "no"}, ())


@pytest.mark.parametrize(
    "name", ["BeforeTool", "AfterTool", "BeforeAgent", "BeforeModel", "AfterModel"]
)
def test_what_can_be_stopped_is_stopped(name):
    assert blocked(HOST, name) == ({"decision": "deny", "reason": "toolbus: it broke"}, ())


def test_what_cannot_be_stopped_is_told_the_person():
    for name in ("AfterAgent", "SessionStart", "Notification"):
        assert blocked(HOST, name) == ({"systemMessage": "toolbus: it broke"}, ())


@pytest.mark.parametrize("missing", ["session_id", "tool_name", "tool_input", "tool_response"])
def test_an_event_that_lacks_something_is_refused(missing):
    payload = recorded(HOST, "AfterTool")
    del payload[missing]

    with pytest.raises(DecodeError, match=missing):
        GeminiCliDialect().decode("AfterTool", payload)


@pytest.mark.parametrize("error", ["text", {"message": 5}, {}, []])
def test_an_error_of_another_form_is_refused(error):
    payload = recorded(HOST, "AfterTool")
    payload["tool_response"]["error"] = error

    with pytest.raises(DecodeError, match="message"):
        GeminiCliDialect().decode("AfterTool", payload)
