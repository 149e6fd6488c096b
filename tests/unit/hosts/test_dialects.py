"""The table of dialects: all names, and an error that helps."""

import pytest

from recorded_events import all_recorded
from toolbus.errors import LoadError
from toolbus.hosts.dialects import DIALECTS, dialect
from toolbus.hosts.dialects.hook_events import HookDecision

GATEWAY = (
    "no host named 'docker-gateway': put the proxy before the gateway's command; "
    "see: toolbus guide mcp"
)


def test_the_table_has_eight_names_and_in_their_order():
    assert list(DIALECTS) == [
        "claude-code",
        "codex",
        "copilot",
        "gemini-cli",
        "vibe",
        "opencode",
        "pi",
        "cursor",
    ]
    assert len(DIALECTS) == 8
    assert "codex" in DIALECTS
    assert "emacs" not in DIALECTS


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("claude", "no host named 'claude'; did you mean 'claude-code'?"),
        (
            "emacs",
            f"no host named 'emacs'; known: {', '.join(DIALECTS)}",
        ),
        (
            "docker-gateway",
            GATEWAY,
        ),
    ],
)
def test_an_unknown_host_is_told_with_the_nearest_or_all(name, message):
    with pytest.raises(LoadError) as error:
        dialect(name)

    assert str(error.value) == message


@pytest.mark.parametrize("host", DIALECTS)
def test_a_blank_reason_is_said_in_words(host):
    spoken = dialect(host)
    for name, payload in all_recorded(host):
        event = spoken.decode(name, payload)
        told = [
            spoken.encode(event, HookDecision(denied=" ")),
            spoken.fail_closed_answer(name, payload, " "),
        ]
        if event.kind in {"call", "result", "prompt"}:
            said = [each for each in told if "replace_failure" not in each.undelivered]
            assert all(b"no reason was given" in each.stdout for each in said if each.stdout)
