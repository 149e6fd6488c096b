"""The redaction of a file's views: what is hidden, what is withheld, and the count of both."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbus.cli.output import redacted_views
from toolbus.cli.output.redacted_views import ViewRedaction
from toolbus.history.message_history import ValueView
from toolbus.messages.records import (
    AssistantMessage,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    encode,
)

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
PASSWORD = "Tr0ub4dor-and-3"


@pytest.fixture
def redaction():
    return ViewRedaction()


def hidden(redaction, view):
    """Return *view* redacted, after the redaction has learned its values."""
    redaction.learn(view)
    return redaction.redacted(view)


def only_placeholder(text, kind):
    (name,) = re.findall(rf"\[{kind}-[a-z2-7]{{16}}\]", text)
    return name


def test_a_value_has_one_placeholder_in_all_views(redaction):
    call = ToolCall(id="c", name="push", arguments={"token": TOKEN})
    texts = [f"I use {TOKEN}", f"mail jane@example.com with {TOKEN}"]

    shown = [encode(each).decode() for each in hidden(redaction, (call, *texts))]

    names = {only_placeholder(text, "github-pat") for text in shown}
    assert len(names) == 1
    assert redaction.counts == {"github-pat": 1, "email": 1}


def test_a_password_is_hidden_where_no_name_stands_beside_it(redaction):
    call = ToolCall(id="c", name="login", arguments={"password": PASSWORD})
    before, after = f"shall I use {PASSWORD}?", f"logged in: {PASSWORD}"

    shown = hidden(redaction, (before, call, after))

    assert PASSWORD not in encode(shown).decode()


def test_a_value_learned_last_is_hidden_in_the_first_view(redaction):
    redaction.learn(f"shall I use {PASSWORD}?")
    redaction.learn(ToolCall(id="c", name="login", arguments={"password": PASSWORD}))

    assert PASSWORD not in redaction.redacted(f"shall I use {PASSWORD}?")


def test_identifiers_and_keys_are_texts_too(redaction):
    message = AssistantMessage(
        id=TOKEN,
        stop_reason=TOKEN,
        tool_calls=[ToolCall(id=TOKEN, name=TOKEN, arguments={TOKEN: 1})],
    )

    assert TOKEN not in encode(hidden(redaction, message)).decode()


def test_a_secret_split_over_parts_is_hidden(redaction):
    response = ToolResponse((TextPart(TOKEN[:15]), TextPart(TOKEN[15:])))
    message = ToolMessage(id="t", tool_call_id="c", tool_name="read", tool_response=response)
    parts = [{"type": "text", "text": text} for text in (TOKEN[:15], TOKEN[15:])]
    value = ValueView(
        digest="d", size=1, has_value=True, value={"role": "user", "id": "u", "content": parts}
    )

    shown = encode(hidden(redaction, (message, value))).decode()

    assert TOKEN[:15] not in shown
    assert TOKEN[15:] not in shown


def test_numbers_in_values_are_examined(redaction):
    value = ValueView(digest="d", size=1, has_value=True, value={"card": 4111111111111111})

    assert "4111111111111111" not in encode(hidden(redaction, value)).decode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/jane/work/a.py", "~/work/a.py"),
        ("file:///Users/jane/a", "file://~/a"),
        (r"C:\Users\Jane Doe\a", r"~\a"),
        ("cd /home/jane && ls", "cd ~ && ls"),
        ("/mnt/c/Users/jane/a", "~/a"),
        ("/var/home/jane/a", "~/a"),
        (r"\/home\/jane\/a", r"~\/a"),
        (r"\\wsl.localhost\Ubuntu\home\jane\a", r"\\~\a"),
        ("file:///c%3A/Users/jane/a", "file:///~/a"),
        ("src/home/jane, lib/var/home/jane", "src/home/jane, lib/var/home/jane"),
        ("~/.claude/projects/-home-jane-work", "~/.claude/projects/~-work"),
        ("https://example.com/home/jane", "https://example.com/home/jane"),
        ("the /home page", "the /home page"),
    ],
)
def test_home_folders_are_hidden(redaction, text, shown):
    assert redaction.redacted(text) == shown


def test_a_picture_is_withheld(redaction):
    message = UserMessage(id="u", content=(ImagePart.from_bytes(b"\x89PNG", "image/png"),))

    (part,) = hidden(redaction, message).content

    assert "was withheld" in part.text


def test_a_text_that_cannot_be_examined_is_withheld_alone(monkeypatch):
    monkeypatch.setattr(redacted_views, "_CHARS", 1_000)
    redaction = ViewRedaction()
    long, short = UserMessage(id="u1", content="x" * 2_000), UserMessage(id="u2", content="y")

    shown = hidden(redaction, (long, short))

    assert shown[0].content.startswith("withheld because it could not be scanned")
    assert shown[1] == short
    assert redaction.counts == {"withheld": 1}


WORDS = st.lists(
    st.sampled_from(["hello", "key=", "a b", '"', "\n", "\\", "%20", "ü", TOKEN, f"x:{TOKEN}@h"])
).map(" ".join)
VALUES = st.recursive(
    WORDS | st.integers(-(2**63), 2**63 - 1) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, WORDS, WORDS)
@settings(deadline=None)
def test_no_text_keeps_a_credential(value, text, name):
    call = ToolCall(id=f"c {name}", name=name, arguments={"value": value, name: text})
    response = ToolResponse((TextPart(text),), structured=value, parameters={"value": value})
    answer = ToolMessage(id="t", tool_call_id=f"c {name}", tool_name=name, tool_response=response)
    kept = ValueView(digest="d", size=1, has_value=True, value=value)
    message = AssistantMessage(id="a", content=text, reasoning=(ReasoningPart(name),))

    shown = hidden(ViewRedaction(), (call, answer, kept, message, text))

    assert TOKEN[10:] not in encode(shown).decode()


def test_placeholders_of_two_files_have_nothing_in_common():
    first, second = (only_placeholder(hidden(ViewRedaction(), TOKEN), "github-pat") for _ in "ab")

    assert first != second


def test_many_secrets_are_all_hidden(redaction):
    tokens = [f"ghp_{number:03}{'aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3'}" for number in range(300)]

    shown = hidden(redaction, tuple(tokens))

    assert all(only_placeholder(text, "github-pat") == text for text in shown)
    assert redaction.counts == {"github-pat": 300}
