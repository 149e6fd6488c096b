"""Cursor runs hooks for Claude Code: they speak its language, and judge nothing twice."""

import json

import pytest

from host_answers import check_answer
from recorded_events import recorded
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.hosts.run.event_input import answer_unread, read_event

OURS = (
    "/usr/bin/python3 -I -S /home/ann/.local/state/toolbus/hooks/a1/hook.py cursor preToolUse 100"
)


def read(name, payload):
    """Return what a hook for Claude Code reads of its event *name*."""
    return read_event("claude-code", name, json.dumps(payload).encode())


def told(made, **decision):
    return made.dialect.encode(made.event, HookDecision(**decision))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".cursor").mkdir()
    return tmp_path


def installed(home, **hooks):
    (home / ".cursor/hooks.json").write_text(json.dumps({"version": 1, "hooks": hooks}))


@pytest.mark.parametrize(
    ("name", "theirs", "kind"),
    [
        ("PreToolUse", "preToolUse", "call"),
        ("PostToolUse", "postToolUse", "result"),
        ("PostToolUseFailure", "postToolUseFailure", "result"),
        ("UserPromptSubmit", "beforeSubmitPrompt", "prompt"),
    ],
)
def test_an_event_of_cursor_is_answered_in_its_form(home, name, theirs, kind):
    made = read(name, recorded("cursor", theirs))

    answer = told(made, denied="no")

    assert (made.event.host, made.event.name, made.event.kind) == ("cursor", theirs, kind)
    check_answer("cursor", theirs, answer)


def test_a_call_of_cursor_is_denied_as_cursor_denies(home):
    made = read("PreToolUse", recorded("cursor", "preToolUse"))

    answer = json.loads(told(made, denied="no").stdout)

    assert answer == {"permission": "deny", "user_message": "no", "agent_message": "no"}


def test_what_our_own_hook_in_cursor_judges_passes(home):
    installed(home, preToolUse=[{"command": "other"}, {"command": OURS}])

    call = read("PreToolUse", recorded("cursor", "preToolUse"))
    result = read("PostToolUse", recorded("cursor", "postToolUse"))

    assert (call.event.host, call.event.kind, call.event.call) == ("cursor", "other", None)
    assert not told(call).stdout
    assert result.event.kind == "result"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no JSON",
        "[]",
        '{"hooks": 3}',
        '{"hooks": {"preToolUse": [{"command": "echo hook.py cursor preToolUse"}]}}',
        "[" * 5000,
    ],
)
def test_a_file_that_does_not_name_it_judges_nothing(home, content):
    (home / ".cursor/hooks.json").write_text(content)

    assert read("PreToolUse", recorded("cursor", "preToolUse")).event.kind == "call"


def test_what_a_project_says_of_our_hook_does_not_count(home):
    project = home / "work"
    (project / ".cursor").mkdir(parents=True)
    hooks = {"hooks": {"preToolUse": [{"command": OURS}]}}
    (project / ".cursor/hooks.json").write_text(json.dumps(hooks))
    payload = recorded("cursor", "preToolUse") | {"cwd": str(project)}

    assert read("PreToolUse", payload).event.kind == "call"


def test_what_fails_is_blocked_as_cursor_blocks(home):
    answer = answer_unread("claude-code", "PreToolUse", b'{"cursor_version": "1"}', "broken")

    reason = "toolbus: broken"
    assert json.loads(answer.stdout) == {
        "permission": "deny",
        "user_message": reason,
        "agent_message": reason,
    }


def test_an_event_of_claude_code_is_its_own(home):
    installed(home, preToolUse=[{"command": OURS}])

    event = read("PreToolUse", recorded("claude-code", "PreToolUse")).event

    assert (event.host, event.kind) == ("claude-code", "call")
