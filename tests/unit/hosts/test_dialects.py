"""The table of dialects: all names, and an error that helps."""

import pytest

from toolbus.errors import LoadError
from toolbus.hosts.dialects import DIALECTS, dialect

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
