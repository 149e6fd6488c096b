"""Codex: recorded events, and exactly what it is answered."""

import pytest

from host_answers import check_answer
from recorded_events import all_recorded, recorded
from toolbus.errors import DecodeError
from toolbus.hosts.dialects.codex import CodexDialect
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.messages.records import ToolCall, ToolResponse

CODEX = CodexDialect()


def decoded(file):
    return CODEX.decode(file.partition("-")[0], recorded("codex", file))


def answered(event, **decision):
    answer = CODEX.encode(event, HookDecision(**decision))
    return check_answer("codex", event.name, answer), answer.undelivered


def masked(event):
    return event.response.map_text(lambda text: text.replace("SWORDFISH-1", "***"))


def test_a_call_says_its_session_folder_and_arguments():
    event = decoded("PreToolUse")

    assert (event.kind, event.folder, event.agent) == ("call", "/home/user/project", "")
    assert event.session_id == recorded("codex", "PreToolUse")["session_id"]
    assert event.call == ToolCall(id="call_1", name="Bash", arguments={"command": "cat note.txt"})


@pytest.mark.parametrize(
    ("file", "kind", "text"),
    [
        ("SessionStart", "session_start", ""),
        ("UserPromptSubmit", "prompt", "run it"),
        ("Stop", "answer", "FINAL"),
        ("SessionEnd", "session_end", ""),
    ],
)
def test_events_without_a_call(file, kind, text):
    event = decoded(file)

    assert (event.kind, event.text, event.call, event.response) == (kind, text, None, None)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("PostToolUse-Bash", "line one\nthe *** value\nline three\n"),
        ("PostToolUse-Bash-failed", "line one\nthe *** value\nline three\n"),
        ("PostToolUse-mcp-pair", "one ***\ntwo SWORDFISH-2"),
        ("PostToolUse-mcp-shape", '{"key":"***"}'),
    ],
)
def test_a_changed_result_is_replaced_by_its_text(file, text):
    event = decoded(file)

    output, undelivered = answered(event, response=masked(event), context=("hint",))

    assert output == {
        "decision": "block",
        "reason": text,
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "hint"},
    }
    assert undelivered == ()


def test_a_change_of_what_is_structured_alone_replaces_the_result():
    payload = recorded("codex", "PostToolUse-mcp-shape")
    payload["tool_response"]["content"] = [{"type": "text", "text": "done"}]
    event = CODEX.decode("PostToolUse", payload)

    assert answered(event, response=masked(event))[0] == {"decision": "block", "reason": "done"}


def test_an_image_that_was_looked_at_is_no_text():
    assert decoded("PostToolUse-view_image").response == ToolResponse()


def test_an_empty_text_is_said_in_words():
    output, _ = answered(decoded("PostToolUse-Bash"), response=ToolResponse(" "))

    assert output == {
        "decision": "block",
        "reason": "(toolbus: nothing remains of this result)",
    }


OTHER = ToolCall(id="call_1", name="Bash", arguments={"command": "echo"})


@pytest.mark.parametrize(
    ("decision", "output"),
    [
        ({"call": OTHER}, {"permissionDecision": "allow", "updatedInput": {"command": "echo"}}),
        (
            {"denied": "no", "call": OTHER},
            {"permissionDecision": "deny", "permissionDecisionReason": "no"},
        ),
        (
            {"asked": "really?"},
            {"permissionDecision": "deny", "permissionDecisionReason": "really?"},
        ),
        ({"context": ("a", "b")}, {"additionalContext": "a\n\nb"}),
    ],
)
def test_verdicts_about_a_call(decision, output):
    answer, undelivered = answered(decoded("PreToolUse"), **decision)

    assert answer == {"hookSpecificOutput": {"hookEventName": "PreToolUse", **output}}
    assert undelivered == (("ask",) if "asked" in decision else ())


def test_a_prompt_is_blocked_and_context_then_waits():
    event = decoded("UserPromptSubmit")

    assert answered(event, denied="a key", context=("later",)) == (
        {"decision": "block", "reason": "a key"},
        ("add_context",),
    )


def test_the_end_of_a_turn_takes_nothing():
    assert answered(decoded("Stop"), denied="no", context=("later",)) == (
        None,
        ("deny", "add_context"),
    )


def test_every_recorded_event_passes_without_a_decision():
    for name, payload in all_recorded("codex"):
        assert answered(CODEX.decode(name, payload)) == (None, ())


@pytest.mark.parametrize(
    ("name", "output"),
    [
        (
            "PreToolUse",
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "broken",
                }
            },
        ),
        ("PostToolUse", {"decision": "block", "reason": "broken"}),
        ("UserPromptSubmit", {"decision": "block", "reason": "broken"}),
        ("SessionStart", {"systemMessage": "broken"}),
        ("SessionEnd", None),
    ],
)
def test_blocks(name, output):
    assert check_answer("codex", name, CODEX.fail_closed_answer(name, None, "broken")) == output


@pytest.mark.parametrize("missing", ["session_id", "tool_name", "tool_use_id", "tool_response"])
def test_a_result_that_lacks_what_each_has_is_refused(missing):
    payload = recorded("codex", "PostToolUse-Bash")
    del payload[missing]

    with pytest.raises(DecodeError, match=missing):
        CODEX.decode("PostToolUse", payload)
