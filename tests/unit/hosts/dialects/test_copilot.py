"""Copilot CLI: recorded events, and exactly what it is answered."""

import pytest

from host_answers import check_answer
from recorded_events import all_recorded, recorded
from toolbus.errors import DecodeError
from toolbus.hosts.dialects.copilot import CopilotDialect
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.messages.records import ToolCall

COPILOT = CopilotDialect()


def decoded(file):
    return COPILOT.decode(file.partition("-")[0], recorded("copilot", file))


def answered(event, **decision):
    answer = COPILOT.encode(event, HookDecision(**decision))
    return check_answer("copilot", event.name, answer), answer.undelivered


def masked(event):
    return event.response.map_text(lambda text: text.replace("SWORDFISH-1", "***"))


def test_a_call_says_its_session_folder_and_arguments():
    event = decoded("preToolUse")

    assert (event.kind, event.folder) == ("call", "/home/user/project")
    assert event.session_id == recorded("copilot", "preToolUse")["sessionId"]
    assert event.call == ToolCall(
        id="", name="bash", arguments={"command": "cat note.txt", "description": "x"}
    )


@pytest.mark.parametrize(
    ("file", "kind", "text"),
    [
        ("sessionStart", "session_start", ""),
        ("userPromptSubmitted", "prompt", "run it"),
        ("agentStop", "other", ""),
        ("sessionEnd", "session_end", ""),
        ("permissionRequest", "other", ""),
    ],
)
def test_events_without_a_call(file, kind, text):
    event = decoded(file)

    assert (event.kind, event.text, event.call, event.response) == (kind, text, None, None)


def test_a_changed_result_is_replaced_by_an_object():
    event = decoded("postToolUse-view")

    output, undelivered = answered(event, response=masked(event), context=("hint",))

    text = "line one\nthe *** value\nline three\n"
    assert output == {
        "modifiedResult": {"resultType": "success", "textResultForLlm": text},
        "additionalContext": "hint",
    }
    assert undelivered == ()


def test_what_a_failed_tool_said_is_not_delivered():
    event = decoded("postToolUseFailure-mcp")

    assert event.response.is_error
    assert answered(event, response=masked(event), context=("hint",)) == (
        {"additionalContext": "hint"},
        ("replace_failure",),
    )


OTHER = ToolCall(id="", name="bash", arguments={"command": "echo"})


@pytest.mark.parametrize(
    ("decision", "output"),
    [
        ({"call": OTHER}, {"modifiedArgs": {"command": "echo"}}),
        (
            {"denied": "no", "call": OTHER},
            {"permissionDecision": "deny", "permissionDecisionReason": "no"},
        ),
        (
            {"asked": "really?", "call": OTHER},
            {
                "modifiedArgs": {"command": "echo"},
                "permissionDecision": "ask",
                "permissionDecisionReason": "really?",
            },
        ),
        ({"context": ("a", "b")}, {"additionalContext": "a\n\nb"}),
    ],
)
def test_verdicts_about_a_call(decision, output):
    assert answered(decoded("preToolUse"), **decision) == (output, ())


def test_a_prompt_is_blocked_and_context_then_waits():
    assert answered(decoded("userPromptSubmitted"), denied="a key", context=("later",)) == (
        {"decision": "block", "reason": "a key"},
        ("add_context",),
    )


def test_the_end_of_a_turn_takes_nothing():
    assert answered(decoded("agentStop"), denied="no", context=("later",)) == (
        None,
        ("deny", "add_context"),
    )


def test_every_recorded_event_passes_without_a_decision():
    for name, payload in all_recorded("copilot"):
        assert answered(COPILOT.decode(name, payload)) == (None, ())


@pytest.mark.parametrize(
    ("name", "output", "stderr"),
    [
        (
            "preToolUse",
            {"permissionDecision": "deny", "permissionDecisionReason": "broken"},
            b"",
        ),
        (
            "postToolUse",
            {"modifiedResult": {"resultType": "failure", "textResultForLlm": "broken"}},
            b"",
        ),
        ("userPromptSubmitted", {"decision": "block", "reason": "broken"}, b""),
        ("postToolUseFailure", None, b"broken\n"),
        ("sessionStart", None, b"broken\n"),
    ],
)
def test_blocks(name, output, stderr):
    answer = COPILOT.fail_closed_answer(name, None, "broken")

    assert check_answer("copilot", name, answer) == output
    assert answer.stderr == stderr


@pytest.mark.parametrize("missing", ["sessionId", "toolName", "toolArgs", "toolResult"])
def test_a_result_that_lacks_what_each_has_is_refused(missing):
    payload = recorded("copilot", "postToolUse-bash")
    del payload[missing]

    with pytest.raises(DecodeError, match=missing):
        COPILOT.decode("postToolUse", payload)
