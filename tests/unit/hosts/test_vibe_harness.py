"""Vibe's own harness and our dialect understand one another, where a Python for it is found."""

import json
import subprocess
from pathlib import Path

import pytest

from recorded_events import with_texts
from toolbus.hosts.dialects import dialect
from toolbus.hosts.dialects.hook_events import HookDecision
from vibe_program import installed, recent_python

pytestmark = pytest.mark.full
if recent_python() is None:
    __test__ = False

HARNESS = Path(__file__).parents[2] / "servers/vibe_harness.py"
SECRET = "the-planted-word"


def in_harness(*items):
    """What the harness makes of *items*: for each a payload, and what the model is told."""
    python = Path(installed()).parent / "python"
    done = subprocess.run(
        [python, "-I", HARNESS],
        input=json.dumps(items),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


def call(name="bash", **arguments):
    called = {
        "type": "provided",
        "group_name": "file_system",
        "tool_name": name,
        "arguments": arguments,
    }
    return {"action_id": "a1", "call_id": "c1", "call": called}


def success(**members):
    return {"type": "success", **members}


FAILURE = {
    "type": "failure",
    "content": [{"type": "text", "text": SECRET}],
    "error": {"code": "x", "message": f"not there: {SECRET}", "retryable": False},
}
RESULTS = [
    success(structured_content={"stdout": SECRET, "returncode": 0}),
    success(content=[{"type": "text", "text": f"a {SECRET}"}]),
    success(content=[{"type": "text", "text": "shown"}], structured_content={"hidden": [SECRET]}),
    FAILURE,
]


def test_calls_are_read_and_answered():
    vibe = dialect("vibe")
    asked = call(command="ls", timeout_seconds=5)
    [[payload, _]] = in_harness({"tool_call": asked, "stdout": ""})
    event = vibe.decode("pre_tool", payload)
    assert (event.call.id, event.call.name) == ("c1", "file_system.bash")
    assert (event.session_id, event.folder) == ("s1", "/folder")
    assert event.call.arguments == {"command": "ls", "timeout": 5}

    rewritten = event.call.with_arguments({"command": "pwd", "timeout": 5})
    decisions = [HookDecision(), HookDecision(denied="no"), HookDecision(call=rewritten)]
    answers = [vibe.encode(event, each).stdout.decode() for each in decisions]
    answers.append(vibe.fail_closed_answer("pre_tool", None, "it broke").stdout.decode())
    made = in_harness(*[{"tool_call": asked, "stdout": each} for each in answers])

    passed, denied, changed, stopped = (outcome for _, outcome in made)
    assert passed["effective_arguments"] == {"command": "ls", "timeout_seconds": 5}
    assert denied["reason"][0]["text"] == "no"
    assert changed["effective_arguments"] == {"command": "pwd", "timeout_seconds": 5}
    assert stopped["reason"][0]["text"] == "it broke"


@pytest.mark.parametrize("result", RESULTS, ids=["structured", "text", "hidden", "failure"])
def test_results_are_read_and_replaced(result):
    vibe = dialect("vibe")
    [[payload, _]] = in_harness({"tool_call": call(), "tool_result": result, "stdout": ""})
    event = vibe.decode("post_tool", payload)
    assert SECRET in event.response.text
    assert event.response.is_error == (result["type"] == "failure")

    redacted = event.response.map_text(lambda text: text.replace(SECRET, "[redacted]"))
    answers = [
        vibe.encode(event, HookDecision(response=redacted, context=("more",))),
        vibe.encode(event, HookDecision(response=with_texts("short"))),
        vibe.fail_closed_answer("post_tool", None, "it broke"),
    ]
    items = [
        {"tool_call": call(), "tool_result": result, "stdout": each.stdout.decode()}
        for each in answers
    ]
    texts = [
        "\n".join(block["text"] for block in outcome["content"])
        for _, outcome in in_harness(*items)
    ]

    assert SECRET not in json.dumps(texts)
    assert texts[0].endswith("\nmore")
    assert texts[1:] == ["short", "it broke"]
