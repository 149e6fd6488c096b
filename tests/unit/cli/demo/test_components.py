"""The demo's handlers, called as its users' tests would call theirs."""

import pytest

from toolbus import Ask, Deny, EventContext, ToolCall, ToolResponse
from toolbus.cli.demo.components import (
    AskBeforePush,
    GitManners,
    MissingFiles,
    NoDestruction,
    Redact,
    Shorten,
    components,
)
from toolbus.events.catalogue import TOOL_CALL_BEFORE, TOOL_CALL_ERROR, ToolCallFailure


def context(command, name="run_command"):
    call = ToolCall(id="c", name=name, arguments={"command": command})
    return EventContext(TOOL_CALL_BEFORE, call)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"t=ghp_{'a1' * 18};", "t=[GitHub token];"),
        ("AKIAABCDEFGHIJKLMNOP", "[AWS key]"),
        ("sk_live_abc123", "[Stripe key]"),
        ("xoxb-12-ab", "[Slack token]"),
        ("postgres://me:s3cret@db/x", "postgres://me:[password]@db/x"),
        ("at 10:30 call me@home", "at 10:30 call me@home"),
    ],
)
def test_credentials_are_told_by_their_shapes(text, redacted):
    call = ToolCall(id="c", name="x")
    response = ToolResponse(structured={"key": text}, content=())

    assert Redact().redacted(text) == redacted
    assert Redact().adapt_response(response, call).structured == {"key": redacted}


@pytest.mark.parametrize(("lines", "left"), [(36, 36), (37, 25), (5_000, 25)])
def test_only_long_texts_are_shortened(lines, left):
    text = "\n".join(map(str, range(lines)))

    short = Shorten().shortened(text)

    assert len(short.splitlines()) == left
    assert short.startswith("0\n1\n")
    assert short.endswith(f"\n{lines - 1}")


@pytest.mark.parametrize(
    "command", ["git reset --hard", "cd x && git clean -fd", "rm -rf logs", "rm -f a", "rm -r b"]
)
def test_destruction_is_denied(command):
    assert isinstance(NoDestruction().forbid(context(command)), Deny)
    assert NoDestruction().forbid(context(command, name="read_file")) is None


@pytest.mark.parametrize("command", ["git reset HEAD a", "git clean -n", "rmdir x", "ls"])
def test_the_rest_is_not_denied(command):
    assert NoDestruction().forbid(context(command)) is None


def test_commands_are_rewritten_into_what_was_meant():
    for command, better in (
        ("git push -f origin", "git push --force-with-lease origin"),
        ("git push --force", "git push --force-with-lease"),
        ("git log", "git log --oneline -n 20"),
    ):
        assert GitManners().rewrite(context(command)).arguments["command"] == better
        assert GitManners().rewrite(context(better)) is None


def test_only_a_push_is_asked_about():
    assert isinstance(AskBeforePush().ask(context("git push")), Ask)
    assert AskBeforePush().ask(context("git pull")) is None


def test_only_a_missing_file_is_answered(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/a.log").touch()

    def answer(error_type):
        call = ToolCall(id="c", name="read_file", arguments={"path": "logs/b.log"})
        failure = ToolCallFailure(
            call=call, response=ToolResponse(), error_type=error_type, error_text="no"
        )
        return MissingFiles(tmp_path).answer(EventContext(TOOL_CALL_ERROR, failure))

    assert answer("FileNotFoundError").text == "no logs/b.log; logs has: a.log"
    assert answer("OSError") is None


def test_components_are_fresh_each_time():
    one, two = components(), components()

    assert [type(each) for each in one] == [type(each) for each in two]
    assert not {id(each) for each in one} & {id(each) for each in two}
