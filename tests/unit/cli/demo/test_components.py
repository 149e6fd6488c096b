"""The demo's handlers, called as its users' tests would call theirs."""

import pytest

from toolbus import Ask, Deny, EventContext, ToolCall, ToolResponse
from toolbus.cli.demo.components import AskBeforePush, GitManners, NoDestruction, Redact, components
from toolbus.events.catalogue import TOOL_CALL_BEFORE


def context(command):
    call = ToolCall(id="c", name="shell", arguments={"command": command})
    return EventContext(TOOL_CALL_BEFORE, call)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"t=ghp_{'a1' * 18};", "t=[GitHub token];"),
        ("sk_live_abc123", "[Stripe key]"),
        ("postgres://me:s3cret@db/x", "postgres://me:[password]@db/x"),
        ("at 10:30 call me@home", "at 10:30 call me@home"),
    ],
)
def test_credentials_are_told_by_their_shapes(text, redacted):
    call = ToolCall(id="c", name="x")
    response = ToolResponse(structured={"key": text}, content=())

    assert Redact().redact(text) == redacted
    assert Redact().adapt_response(response, call).structured == {"key": redacted}


@pytest.mark.parametrize(
    "command", ["git reset --hard", "cd x && git clean -fd", "rm -rf logs", "rm -f a", "rm -r b"]
)
def test_destruction_is_denied(command):
    assert isinstance(NoDestruction().forbid(context(command)), Deny)


@pytest.mark.parametrize("command", ["git reset HEAD a", "git clean -n", "rmdir x", "ls"])
def test_the_rest_is_not_denied(command):
    assert NoDestruction().forbid(context(command)) is None


def test_commands_are_rewritten_into_what_was_meant():
    for command, better in (
        ("git push -f origin", "git push --force-with-lease origin"),
        ("git push --force", "git push --force-with-lease"),
    ):
        assert GitManners().rewrite(context(command)).arguments["command"] == better
        assert GitManners().rewrite(context(better)) is None


def test_only_a_push_is_asked_about():
    assert isinstance(AskBeforePush().ask(context("git push")), Ask)
    assert AskBeforePush().ask(context("git pull")) is None


def test_components_are_fresh_each_time():
    one, two = components(), components()

    assert [type(each) for each in one] == [type(each) for each in two]
    assert not {id(each) for each in one} & {id(each) for each in two}
