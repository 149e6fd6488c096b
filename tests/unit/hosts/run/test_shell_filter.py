"""The program behind the pipe of a filtered command, with a hook of ours."""

import json
import subprocess
import sys

import pytest

from toolbus.hosts.run import shell_filter
from toolbus.hosts.run.shell_filter import shown_text

HOOK = "import json, os, sys\nevent = json.load(sys.stdin)\n"


def run(folder, text, ending):
    """Filter *text* with a hook that ends in *ending*; return what is shown."""
    client = folder / "hook.py"
    client.write_text(HOOK + ending)
    command = [sys.executable, "-I", "-S", shell_filter.__file__, str(client), "s1", "c1"]
    done = subprocess.run(command, input=text, capture_output=True, check=True, cwd=folder)
    assert not done.stderr
    return done.stdout.decode()


def test_the_hook_is_told_of_a_result_of_the_call(tmp_path):
    shown = run(tmp_path, b"a\xffb", "json.dump([sys.argv[1:], event], open('seen', 'w'))")

    words, event = json.loads((tmp_path / "seen").read_text())
    assert words == ["claude-code", "PostToolUse"]
    assert (event["session_id"], event["tool_use_id"], event["tool_name"]) == ("s1", "c1", "Bash")
    assert (event["cwd"], event["tool_response"]["stdout"]) == (str(tmp_path), "a\ufffdb")
    assert shown == "a\ufffdb"


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("sys.exit(2)", "its filter failed (CalledProcessError)"),
        ("print('no JSON')", "its filter failed (JSONDecodeError)"),
        ("print('[]')", "its filter failed (AttributeError)"),
    ],
)
def test_what_fails_shows_a_notice(tmp_path, ending, reason):
    shown = run(tmp_path, b"the-planted-word", ending)

    assert shown == f"toolbus: what the command wrote is not shown, for {reason}\n"


def test_nothing_written_is_nothing_shown(tmp_path):
    assert run(tmp_path, b"", "sys.exit(2)") == ""


def test_a_text_that_is_too_long_is_not_shown(tmp_path):
    shown = run(tmp_path, b"x" * (shell_filter.MAX_BYTES + 1), "")

    assert shown.endswith("it is longer than 33,554,432 bytes\n")


def answer(**members):
    return json.dumps(members).encode()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"", "old"),
        (answer(hookSpecificOutput={"updatedToolOutput": "new"}), "new"),
        (answer(hookSpecificOutput={"updatedToolOutput": {"stdout": "new", "stderr": ""}}), "new"),
        (answer(hookSpecificOutput={"additionalContext": "more"}), "old\nmore\n"),
        (answer(**{"continue": False, "stopReason": "stopped"}), "stopped\n"),
    ],
)
def test_the_answer_is_laid_over_the_text(said, shown):
    assert shown_text("old", said) == shown


@pytest.mark.parametrize("output", [5, None, {"stdout": 5, "stderr": ""}, {"stdout": "a"}, []])
def test_an_output_of_another_form_is_refused(output):
    with pytest.raises(ValueError):
        shown_text("old", answer(hookSpecificOutput={"updatedToolOutput": output}))
