"""Our bridges in a host of ours: what they do with each answer, and that what fails stops."""

import json
import subprocess
import sys

import pytest

from node_packages import NODE, WANTED
from toolbus.hosts.dialects.bridges import bridge_source

pytestmark = pytest.mark.full

FILES = {"pi": "pi_bridge.ts", "opencode": "opencode_bridge.js"}
SECRET = "the-planted-word"
COMMAND = """
import json, os, sys
event = json.load(sys.stdin)
with open("seen.json", "w") as seen:
    json.dump([sys.argv[1:], event, sorted(os.environ)], seen)
"""
REFUSALS = {
    "gone": "the hook command could not be started",
    "exit 1": "the hook command failed",
    "killed": "the hook command failed",
    "too late": "the hook command took too long",
    "no output": "the hook command gave no answer",
    "no JSON": "the hook command gave no answer",
    "a list": "the hook command gave no answer",
}
BREAKING = {
    "exit 1": "print('{}'); sys.exit(1)",
    "killed": "print('{}', flush=True); os.kill(os.getpid(), 9)",
    "too late": "import time; time.sleep(60)",
    "no output": "",
    "no JSON": "print('Traceback')",
    "a list": "print('[]')",
}


def fire(folder, host, event, ending, screen="none"):
    """Fire *event* in the bridge, whose command ends in *ending*; return what became of it."""
    script = folder / "command.py"
    script.write_text(COMMAND + ending)
    command = [sys.executable, "-I", str(script), "$HOME `word`"]
    if ending == "gone":
        command = [str(folder / "nowhere"), "x"]
    bridge = folder / FILES[host].replace(".js", ".mjs").replace(".ts", ".mts")
    bridge.write_text(bridge_source(FILES[host], command, limit=3 if "sleep" in ending else 60))
    asked = json.dumps({"host": host, "event": event, "screen": screen})
    done = subprocess.run(
        [NODE, "--no-warnings", str(WANTED / "bridge_host.mjs"), str(bridge), asked],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def saying(**answer):
    return f"print({json.dumps(json.dumps(answer))})"


@pytest.mark.parametrize(
    ("host", "event"), [("pi", "tool_call"), ("opencode", "tool.execute.before")]
)
def test_the_command_gets_its_words_the_event_and_no_environment(tmp_path, host, event):
    made = fire(tmp_path, host, event, saying())

    words, seen, environment = json.loads((tmp_path / "seen.json").read_text())
    assert words == ["$HOME `word`", event]
    assert (seen["session_id"], seen["folder"], seen["tool"]) == ("s1", str(tmp_path), "bash")
    assert seen["arguments"] == {"command": SECRET, "timeout": 5}
    assert set(environment) <= {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
    kept = made["input"] if host == "pi" else made["output"]["args"]
    assert kept == {"command": SECRET, "timeout": 5}


@pytest.mark.parametrize("failure", REFUSALS)
def test_what_fails_stops_calls_results_and_prompts(tmp_path, failure):
    ending = BREAKING.get(failure, "gone")
    reason = f"toolbus: {REFUSALS[failure]}, so this was blocked"

    in_pi = fire(tmp_path, "pi", "tool_call", ending), fire(tmp_path, "pi", "tool_result", ending)
    in_opencode = fire(tmp_path, "opencode", "tool.execute.after", ending)

    assert in_pi[0]["returned"] == {"block": True, "reason": reason}
    block = {"type": "text", "text": reason}
    assert in_pi[1]["returned"] == {"content": [block], "details": {}, "isError": True}
    assert in_opencode["output"]["output"] == reason
    assert SECRET not in json.dumps(in_opencode)


@pytest.mark.parametrize("event", ["tool.execute.before", "chat.message"])
def test_opencode_refuses_by_an_error(tmp_path, event):
    assert fire(tmp_path, "opencode", event, saying(block="no"))["thrown"] == "no"


def test_arguments_are_replaced_as_a_whole(tmp_path):
    ending = saying(arguments={"command": "ls"})

    in_pi = fire(tmp_path, "pi", "tool_call", ending)
    in_opencode = fire(tmp_path, "opencode", "tool.execute.before", ending)

    assert in_pi["input"] == in_opencode["output"]["args"] == {"command": "ls"}


@pytest.mark.parametrize(("screen", "runs"), [("yes", True), ("no", False)])
def test_pi_asks_the_person(tmp_path, screen, runs):
    made = fire(tmp_path, "pi", "tool_call", saying(ask="really?"), screen)

    refused = {"block": True, "reason": "toolbus: the person at the screen refused this call"}
    assert made.get("returned") == (None if runs else refused)


@pytest.mark.parametrize("event", ["tool.execute.after", "mcp"])
def test_a_replaced_result_says_nothing_of_the_original(tmp_path, event):
    result = "new" if event != "mcp" else [{"type": "text", "text": "new"}]

    made = fire(tmp_path, "opencode", event, saying(result=result))

    assert "new" in json.dumps(made)
    assert SECRET not in json.dumps(made)


def test_a_tool_that_throws_is_replaced_in_what_is_sent(tmp_path):
    event = "experimental.chat.messages.transform"

    replaced = fire(tmp_path, "opencode", event, saying(result="new"))
    blocked = fire(tmp_path, "opencode", event, "sys.exit(1)")

    words, seen, _ = json.loads((tmp_path / "seen.json").read_text())
    assert (words[-1], seen["result"], seen["is_error"]) == ("tool.failed", SECRET, True)
    assert [part["state"]["error"] for part in replaced["output"]["messages"][0]["parts"]] == [
        "new"
    ]
    assert SECRET not in json.dumps(blocked)


def test_a_prompt_is_refused_or_has_context(tmp_path):
    refused = fire(tmp_path, "pi", "input", saying(block="no"), "yes")
    context = fire(tmp_path, "pi", "input", saying(context="more"))
    part = fire(tmp_path, "opencode", "chat.message", saying(context="more"))["output"]["parts"][-1]

    assert (refused["returned"], refused["shown"]) == ({"action": "handled"}, ["no"])
    assert context["returned"] == {"action": "continue"}
    message = {"customType": "toolbus", "content": "more", "display": False}
    assert context["later"] == {"message": message}
    assert (part["text"], part["synthetic"], part["messageID"]) == ("more", True, "m1")
