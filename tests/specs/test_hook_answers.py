"""The scenarios of `specs/hook_answers.md`."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_answers import check_answer, stops
from hostile_events import HOSTS, has_secret, hostile_events, without_secrets
from recorded_events import all_recorded, recorded
from toolbus.errors import LoadError
from toolbus.hosts.dialects import DIALECTS, dialect
from toolbus.hosts.dialects.hook_events import HookAnswer, HookDecision
from toolbus.hosts.run.event_answer import answer
from toolbus.hosts.run.event_input import read_event
from toolbus.hosts.run.requests import HookSettings
from toolbus.messages.records import ToolCall, ToolResponse

EVENTS = [(host, name, payload) for host in HOSTS for name, payload in all_recorded(host)]


KINDS = {(host, name): dialect(host).decode(name, payload).kind for host, name, payload in EVENTS}
MASKS = """
from toolbus import AgentComponent, Deny, events, guard, on

def masked(text):
    return text.replace("SWORDFISH-1", "***").replace("the-planted-word", "***")

class Masks(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx): return Deny("never")
    @guard(events.RUN_BEFORE)
    def refuse(self, ctx): return Deny("never")
    @on(events.MESSAGE_APPEND_BEFORE, roles="tool", on_error="closed")
    def mask(self, ctx):
        return ctx.value.with_tool_response(ctx.value.tool_response.map_text(masked))
"""


def events(kind):
    """Return all recorded events of *kind*, of all hosts, as their dialects read them."""
    read = [dialect(host).decode(name, payload) for host, name, payload in EVENTS]
    return [event for event in read if event.kind == kind]


def answered(event, **decision):
    """Return the JSON of the host's answer, checked, as text; and what is undelivered."""
    made = dialect(event.host).encode(event, HookDecision(**decision))
    value = check_answer(event.host, event.name, made)
    return json.dumps(value), value, made.undelivered


def with_arguments(event, **arguments):
    return event.call.with_arguments(arguments)


def test_an_event_without_a_decision_passes():
    for host, name, payload in EVENTS:
        event = dialect(host).decode(name, payload)

        _, value, undelivered = answered(event)

        assert (value or {}, undelivered) == ({}, ())


def test_a_call_is_denied():
    assert {event.host for event in events("call")} == set(DIALECTS)
    for event in events("call"):
        text, value, undelivered = answered(event, denied="the reason")

        assert stops("call", value)
        assert "the reason" in text
        assert undelivered == ()


def test_a_question_is_the_host_s_own():
    for event in events("call"):
        text, value, _ = answered(event, asked="the question")

        assert "the question" in text
        if not stops("call", value):
            assert dialect(event.host).facts.abilities["ask"] == "yes"
            assert '"ask"' in text


def test_rewritten_arguments_reach_the_call():
    for event in events("call"):
        text, value, _ = answered(event, call=with_arguments(event, one="new", two=2))

        assert '{"one": "new", "two": 2}' in text
        assert not stops("call", value)


def test_another_tool_cannot_be_called_instead():
    for event in events("call"):
        text, value, _ = answered(event, call=ToolCall(id=event.call.id, name="other"))

        assert stops("call", value)
        assert "other" in text
        assert event.call.name in text


def test_a_changed_result_reaches_the_model():
    for event in events("result"):
        masked = event.response.map_text(without_secrets)

        text, value, undelivered = answered(event, response=masked)

        assert not has_secret(text.encode())
        if masked != event.response:
            assert ("***" in text and stops("result", value)) or undelivered


@pytest.mark.parametrize("tool", ["Bash", "Read", "mcp", "mcp-structured", "mcp-image"])
def test_a_result_keeps_the_shape_of_its_tool(tool):
    payload = recorded("claude-code", f"PostToolUse-{tool}")
    event = dialect("claude-code").decode("PostToolUse", payload)

    _, value, _ = answered(event, response=event.response.map_text(without_secrets))

    expected = without_secrets(json.dumps(payload["tool_response"]))
    assert value["hookSpecificOutput"]["updatedToolOutput"] == json.loads(expected)


def test_a_notice_replaces_a_result():
    for event in events("result"):
        text, value, undelivered = answered(event, response=ToolResponse("a notice"))

        assert not has_secret(text.encode())
        assert ("a notice" in text and stops("result", value)) or undelivered


def test_context_is_delivered_or_reported():
    for host, name, payload in EVENTS:
        event = dialect(host).decode(name, payload)

        text, _, undelivered = answered(event, context=("also this",))

        assert ("also this" in text) != ("add_context" in undelivered)


def test_a_prompt_is_blocked():
    for event in events("prompt"):
        text, value, _ = answered(event, denied="the reason")

        assert dialect(event.host).facts.abilities["block_prompt"] == "yes"
        assert stops("prompt", value)
        assert "the reason" in text


def test_a_fail_closed_answer_needs_no_payload():
    for host, name, payload in EVENTS:
        kind = dialect(host).decode(name, payload).kind
        for shown in (None, payload):
            made = dialect(host).fail_closed_answer(name, shown, "it broke")

            value = check_answer(host, name, made)
            if kind in {"call", "prompt", "result"}:
                assert stops(kind, value) or made.undelivered


@settings(max_examples=2 * settings.default.max_examples)
@given(data=st.data())
def test_a_hostile_event_is_blocked(data, tmp_path_factory):
    host = data.draw(st.sampled_from(HOSTS))
    name, event = data.draw(hostile_events(host))
    folder = tmp_path_factory.getbasetemp()
    broken = HookSettings(config=str(folder / "none.toml"), store=folder / "hooks.db")

    made = answer(host, name, event, broken)

    value = check_answer(host, name, made)
    kind = KINDS[host, name]
    if kind in {"call", "prompt", "result"}:
        assert stops(kind, value) or made.undelivered
    assert not has_secret(made.stdout + made.stderr)


@pytest.mark.full
def test_the_command_answers_hostile_events(tmp_path):
    (tmp_path / "masks.py").write_text(MASKS)
    config = tmp_path / "toolbus.toml"
    config.write_text('[[component]]\nuse = "./masks.py:Masks"\n')
    options = ("--config", str(config), "--store", str(tmp_path / "hooks.db"))

    def run(host, name, event):
        words = [sys.executable, "-m", "toolbus", "hook", host, name, *options]
        env = {"HOME": str(tmp_path)}
        made = subprocess.run(
            words, input=event, capture_output=True, cwd=tmp_path, env=env, check=False
        )
        return HookAnswer(stdout=made.stdout, stderr=made.stderr, exit_code=made.returncode)

    @settings(max_examples=3 * settings.default.max_examples)
    @given(data=st.data())
    def each(data):
        host = data.draw(st.sampled_from(HOSTS))
        name, event = data.draw(hostile_events(host))

        made = run(host, name, event)

        value = check_answer(host, name, made)
        assert b"Traceback" not in made.stdout + made.stderr
        assert not has_secret(made.stdout + made.stderr)
        if KINDS[host, name] in {"call", "prompt"}:
            assert stops(KINDS[host, name], value)

    whole = json.dumps(recorded("claude-code", "PostToolUse-Bash")).encode()
    assert b"the *** value" in run("claude-code", "PostToolUse", whole).stdout
    each()


@pytest.mark.parametrize(
    ("name", "words"),
    [("claude", "did you mean 'claude-code'?"), ("emacs", "known: claude-code, codex")],
)
def test_an_unknown_host_is_named(name, words):
    with pytest.raises(LoadError, match=f"no host named '{name}'") as error:
        dialect(name)

    assert words in str(error.value)


def test_cursor_runs_a_hook_for_claude_code(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    command = "python3 -I -S /home/ann/.local/state/toolbus/hooks/a1/hook.py cursor preToolUse"
    hooks = tmp_path / ".cursor/hooks.json"
    hooks.parent.mkdir()
    payload = json.dumps(recorded("cursor", "preToolUse")).encode()

    alone = read_event("claude-code", "PreToolUse", payload)
    hooks.write_text(json.dumps({"hooks": {"preToolUse": [{"command": command}]}}))
    beside = read_event("claude-code", "PreToolUse", payload)

    denied = alone.dialect.encode(alone.event, HookDecision(denied="no"))
    denial = check_answer("cursor", "preToolUse", denied)
    assert (alone.event.host, stops("call", denial)) == ("cursor", True)
    passed = beside.dialect.encode(beside.event, HookDecision())
    assert (beside.event.kind, passed.stdout) == ("other", b"")
