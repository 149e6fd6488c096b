"""Commands that are rewritten so that what they write passes the filter."""

import json
import subprocess

import pytest

from recorded_events import recorded
from toolbus.hosts.dialects import dialect
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.hosts.run.filtered_shell import filtered, filtered_command

HOOK = """
import json, sys
event = json.load(sys.stdin)
new = dict(event["tool_response"], stdout=event["tool_response"]["stdout"].replace("word", "[x]"))
print(json.dumps({"hookSpecificOutput": {"updatedToolOutput": new}}))
"""


@pytest.fixture
def client(tmp_path):
    path = tmp_path / "a hook's.py"
    path.write_text(HOOK)
    return str(path)


@pytest.mark.parametrize(
    ("command", "shown", "code"),
    [
        ("echo word", "[x]\n", 0),
        ("echo word; echo 'a word' >&2; exit 3", "[x]\na [x]\n", 3),
        ("cat <<END\nword $((1 + 1))\nEND", "[x] 2\n", 0),
        ("echo word # )", "[x]\n", 0),
        ("echo word \\", "[x]\n", 0),
        ("kill -9 $BASHPID", "", 137),
    ],
)
def test_a_command_writes_into_the_filter_and_keeps_its_code(client, command, shown, code):
    new = filtered_command(command, client, "s1", "c1")

    done = subprocess.run(["/bin/bash", "-c", new], capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == (shown, code)


@pytest.mark.parametrize(
    "command", ["echo a ) ; echo word ; ( true", "cat <<END\nword", "echo 'word", "} ; echo word"]
)
def test_a_command_that_is_not_whole_is_none(client, command):
    assert filtered_command(command, client, "s1", "c1") is None


def encoded(client, payload, **decision):
    spoken = filtered(dialect("claude-code"), client)
    event = spoken.decode("PreToolUse", payload)
    answer = spoken.encode(event, HookDecision(**decision))
    return json.loads(answer.stdout)["hookSpecificOutput"] if answer.stdout else None


def call(**arguments):
    return recorded("claude-code", "PreToolUse-mcp") | {
        "tool_name": "Bash",
        "tool_input": arguments,
    }


def test_what_guards_made_of_a_call_is_filtered_last(client):
    payload = call(command="echo word", description="d")
    rewritten = dialect("claude-code").decode("PreToolUse", payload).call
    rewritten = rewritten.merge_arguments({"command": "echo safe"})

    plain, changed = encoded(client, payload), encoded(client, payload, call=rewritten)

    assert plain["updatedInput"]["command"].startswith("set -o pipefail\n(\necho word\n) 2>&1 | ")
    assert plain["updatedInput"]["description"] == "d"
    assert "\necho safe\n" in changed["updatedInput"]["command"]


def test_a_question_shows_the_filtered_command_and_a_denial_stays(client):
    asked = encoded(client, call(command="echo word"), asked="really?")
    denied = encoded(client, call(command="echo word"), denied="no")

    assert (asked["permissionDecision"], "updatedInput" in asked) == ("ask", True)
    assert (denied["permissionDecision"], denied["permissionDecisionReason"]) == ("deny", "no")


def test_a_command_that_is_not_whole_is_denied(client):
    denied = encoded(client, call(command="echo a ) ; echo word ; ( true"))

    assert denied["permissionDecision"] == "deny"
    assert "no whole shell command" in denied["permissionDecisionReason"]


def test_other_calls_run_as_they_are(client):
    assert encoded(client, recorded("claude-code", "PreToolUse-mcp")) is None
    assert encoded(client, call(command="serve", run_in_background=True)) is None
    assert encoded(client, call(command=5)) is None


def test_only_a_host_that_needs_it_has_it(client):
    for host in ("codex", "pi", "gemini-cli"):
        assert type(filtered(dialect(host), client)) is type(dialect(host))
    made = filtered(dialect("claude-code"), client)
    assert (made.name, made.title) == ("claude-code", "Claude Code")
    assert made.abilities["replace_failure"] == "commands"
    assert made.block("PreToolUse", None, "no") == dialect("claude-code").block(
        "PreToolUse", None, "no"
    )
