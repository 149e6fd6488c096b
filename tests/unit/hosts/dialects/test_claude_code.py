"""Claude Code: recorded events, and exactly what it is answered."""

import pytest

from host_answers import check_answer
from recorded_events import all_recorded, recorded
from toolbus.errors import DecodeError
from toolbus.hosts.dialects.claude_code import ClaudeCodeDialect
from toolbus.hosts.dialects.claude_results import for_any_tool
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.hosts.dialects.result_templates import WITHHELD_NAME
from toolbus.messages.records import ImagePart, ToolCall, ToolResponse

CLAUDE = ClaudeCodeDialect()


def decoded(file):
    return CLAUDE.decode(file.partition("-")[0], recorded("claude-code", file))


def answered(event, **decision):
    """Return the JSON of the answer to *event*, and what it does not deliver."""
    answer = CLAUDE.encode(event, HookDecision(**decision))
    return check_answer("claude-code", event.name, answer), answer.undelivered


def masked(event):
    return event.response.map_text(lambda text: text.replace("SWORDFISH-1", "***"))


def test_a_call_says_its_session_folder_and_arguments():
    event = decoded("PreToolUse")

    assert event.kind == "call"
    assert event.session_id == recorded("claude-code", "PreToolUse")["session_id"]
    assert event.folder == "/home/user/project"
    assert event.agent == ""
    assert event.call == ToolCall(id="toolu_01", name="Bash", arguments={"command": "cat note.txt"})


@pytest.mark.parametrize(
    ("file", "kind", "text"),
    [
        ("SessionStart", "session_start", ""),
        ("UserPromptSubmit", "prompt", "run it"),
        ("Stop", "answer", "FINAL"),
        ("SubagentStop", "answer", "FINAL"),
        ("SessionEnd", "session_end", ""),
        ("PostToolBatch", "other", ""),
        ("MessageDisplay", "other", ""),
        ("SubagentStart", "other", ""),
    ],
)
def test_events_without_a_call(file, kind, text):
    event = decoded(file)

    assert (event.kind, event.text, event.call, event.response) == (kind, text, None, None)


def test_a_sub_agent_speaks_under_its_id():
    assert decoded("SubagentStop").agent == "ae0b5b71550317b9b"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("PostToolUse-Bash", ["line one\nthe SWORDFISH-1 value\nline three"]),
        (
            "PostToolUse-Read",
            ["/home/user/project/note.txt", "line one\nthe SWORDFISH-1 value\nline three\n"],
        ),
        ("PostToolUse-Write", ["/home/user/project/new.txt", "a SWORDFISH-1"]),
        ("PostToolUse-mcp", ["one SWORDFISH-1", "two SWORDFISH-2"]),
        ("PostToolUse-mcp-structured", ['{"key":"SWORDFISH-1"}']),
        ("PostToolUseFailure-mcp", ["failed SWORDFISH-1"]),
    ],
)
def test_texts_of_results(file, content):
    response = decoded(file).response

    assert [part.text for part in response.content] == content
    assert response.is_error == file.startswith("PostToolUseFailure")


def test_an_image_is_an_image():
    (image,) = decoded("PostToolUse-Read-image").response.content
    _, of_server, _ = decoded("PostToolUse-mcp-image").response.content

    assert isinstance(image, ImagePart)
    assert image == of_server


@pytest.mark.parametrize(
    "file", [f"PostToolUse-{tool}" for tool in ("Bash", "Read", "Write", "Agent", "mcp-image")]
)
def test_changed_texts_keep_the_shape_of_their_tool(file):
    event = decoded(file)

    output, undelivered = answered(event, response=masked(event))

    new = output["hookSpecificOutput"]["updatedToolOutput"]
    before = str(event.payload["tool_response"])
    assert str(new) == before.replace("SWORDFISH-1", "***")
    assert output.keys() == {"hookSpecificOutput"}
    assert undelivered == ()


def test_the_patch_of_a_changed_file_is_no_text_and_goes_with_a_change():
    payload = recorded("claude-code", "PostToolUse-Write")
    patch = {
        "oldStart": 2,
        "oldLines": 0,
        "newStart": 2,
        "newLines": 1,
        "lines": ["+a SWORDFISH-1"],
    }
    payload["tool_response"]["structuredPatch"] = [patch]
    payload["tool_response"]["gitDiff"] = {"additions": 1, "patch": "+a SWORDFISH-1"}
    event = CLAUDE.decode("PostToolUse", payload)

    output, _ = answered(event, response=masked(event))

    assert [part.text for part in event.response.content] == [
        "/home/user/project/new.txt",
        "a SWORDFISH-1",
    ]
    assert answered(event) == (None, ())
    new = output["hookSpecificOutput"]["updatedToolOutput"]
    assert (new["content"], new["structuredPatch"]) == ("a ***", [])
    assert new["gitDiff"] == {"additions": 1, "patch": ""}


WHOLE = {
    "PostToolUse-Bash": {
        "stdout": "gone",
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    },
    "PostToolUse-Read-image": {
        "type": "text",
        "file": {
            "filePath": "",
            "content": "gone",
            "numLines": 1,
            "startLine": 1,
            "totalLines": 1,
        },
    },
    "PostToolUse-mcp": [{"type": "text", "text": "gone"}],
    "PostToolUse-mcp-image": [{"type": "text", "text": "gone"}],
    "PostToolUse-mcp-structured": "gone",
}


@pytest.mark.parametrize("file", WHOLE)
def test_a_new_text_stands_in_the_shape_of_the_tool(file):
    output, _ = answered(decoded(file), response=ToolResponse("gone"))

    specific = {"hookEventName": "PostToolUse", "updatedToolOutput": WHOLE[file]}
    assert output == {"hookSpecificOutput": specific}


def test_a_new_text_for_an_unknown_tool_also_ends_the_run():
    event = decoded("PostToolUse-TaskCreate")

    output, _ = answered(event, response=ToolResponse("gone"))

    specific = {"hookEventName": "PostToolUse", "updatedToolOutput": for_any_tool("gone")}
    assert output == {"continue": False, "stopReason": "gone", "hookSpecificOutput": specific}


def test_what_a_sub_agent_said_is_replaced_beside_the_ids_of_its_frame():
    event = decoded("PostToolUse-Agent")

    output, _ = answered(event, response=ToolResponse("gone"))

    new = output["hookSpecificOutput"]["updatedToolOutput"]
    assert new["content"] == [{"type": "text", "text": "gone"}]
    assert (new["agentId"], new["status"], new["prompt"]) == ("ae0b5b71550317b9b", "completed", "")
    assert new.keys() == event.payload["tool_response"].keys()
    assert output["continue"] is False


def test_names_of_members_that_would_change_withhold_the_result():
    payload = recorded("claude-code", "PostToolUse-TaskCreate")
    payload["tool_response"] = {"answers": {"Is it SWORDFISH-1?": "yes"}}
    event = CLAUDE.decode("PostToolUse", payload)

    output, _ = answered(event, response=masked(event))

    assert output["hookSpecificOutput"]["updatedToolOutput"] == for_any_tool(WITHHELD_NAME)
    assert output["continue"] is False


def test_a_denied_result_is_replaced_by_the_reason():
    output, _ = answered(decoded("PostToolUse-mcp"), denied="not for you", context=("and",))

    assert output["hookSpecificOutput"] == {
        "hookEventName": "PostToolUse",
        "updatedToolOutput": [{"type": "text", "text": "not for you"}],
        "additionalContext": "and",
    }


def test_what_a_failed_tool_said_is_not_delivered():
    event = decoded("PostToolUseFailure-Bash")

    assert answered(event, response=masked(event)) == (None, ("replace_failure",))
    assert answered(event, response=event.response, context=("hint",)) == (
        {
            "hookSpecificOutput": {
                "hookEventName": "PostToolUseFailure",
                "additionalContext": "hint",
            }
        },
        (),
    )


OTHER = ToolCall(id="toolu_01", name="Bash", arguments={"command": "echo"})


@pytest.mark.parametrize(
    ("decision", "output"),
    [
        ({"call": OTHER}, {"updatedInput": {"command": "echo"}}),
        (
            {"denied": "no", "call": OTHER},
            {"permissionDecision": "deny", "permissionDecisionReason": "no"},
        ),
        (
            {"asked": "really?", "call": OTHER},
            {
                "updatedInput": {"command": "echo"},
                "permissionDecision": "ask",
                "permissionDecisionReason": "really?",
            },
        ),
        ({"context": ("a", "b")}, {"additionalContext": "a\n\nb"}),
    ],
)
def test_verdicts_about_a_call(decision, output):
    answer, undelivered = answered(decoded("PreToolUse"), **decision)

    assert answer == {"hookSpecificOutput": {"hookEventName": "PreToolUse", **output}}
    assert undelivered == ()


def test_another_tool_in_place_of_the_called_is_a_denial():
    answer, _ = answered(decoded("PreToolUse"), call=ToolCall(id="a", name="Read"))

    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "'Bash'" in answer["hookSpecificOutput"]["permissionDecisionReason"]


def test_a_prompt_is_blocked_and_context_then_waits():
    event = decoded("UserPromptSubmit")

    assert answered(event, denied="a key", context=("later",)) == (
        {"decision": "block", "reason": "a key"},
        ("add_context",),
    )
    assert answered(event, asked="really?")[0] == {"decision": "block", "reason": "really?"}


def test_the_end_of_a_turn_takes_nothing():
    assert answered(decoded("Stop"), denied="no", context=("later",)) == (
        None,
        ("deny", "add_context"),
    )


def test_every_recorded_event_passes_without_a_decision():
    for name, payload in all_recorded("claude-code"):
        assert answered(CLAUDE.decode(name, payload)) == (None, ())


@pytest.mark.parametrize(
    ("name", "payload", "output"),
    [
        (
            "PreToolUse",
            None,
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "broken",
                }
            },
        ),
        ("UserPromptSubmit", None, {"decision": "block", "reason": "broken"}),
        (
            "PostToolUse",
            {"tool_name": "mcp__a__b", "tool_response": 3},
            {
                "hookSpecificOutput": {
                    "hookEventName": "PostToolUse",
                    "updatedToolOutput": "broken",
                }
            },
        ),
        (
            "PostToolUse",
            None,
            {
                "continue": False,
                "stopReason": "broken",
                "hookSpecificOutput": {
                    "hookEventName": "PostToolUse",
                    "updatedToolOutput": for_any_tool("broken"),
                },
            },
        ),
        ("PostToolUseFailure", None, {"systemMessage": "broken"}),
        ("SessionStart", None, {"systemMessage": "broken"}),
    ],
)
def test_blocks(name, payload, output):
    answer = CLAUDE.fail_closed_answer(name, payload, "broken")

    assert check_answer("claude-code", name, answer) == output
    assert answer.undelivered == (("replace_failure",) if name == "PostToolUseFailure" else ())


@pytest.mark.parametrize("missing", ["session_id", "tool_name", "tool_use_id", "tool_response"])
def test_a_result_that_lacks_what_each_has_is_refused(missing):
    payload = recorded("claude-code", "PostToolUse-Bash")
    del payload[missing]

    with pytest.raises(DecodeError, match=missing):
        CLAUDE.decode("PostToolUse", payload)
