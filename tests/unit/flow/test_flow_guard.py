"""The settings of `FlowGuard` in Python: wrong ones are errors, and trust nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from toolbus.errors import RegistrationError
from toolbus.flow import FlowGuard


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"trusted_tools": "web_*"},
            "trusted_tools: expected a list of glob patterns, got 'web_*'",
        ),
        ({"trusted_paths": [3]}, "trusted_paths: expected a list of glob patterns, got [3]"),
        ({"private_tools": None}, "private_tools: expected a list of glob patterns, got None"),
        ({"private_paths": [" "]}, "private_paths: expected a list of glob patterns, got [' ']"),
        ({"trusted_hosts": ["https://a.example/"]}, "trusted_hosts: expected a host such as"),
        ({"trusted_hosts": ["a.example:8000"]}, "without scheme, port and path, got 'a.example:8"),
        ({"sinks": ["send_*"]}, "sinks: expected sinks by glob pattern, got ['send_*']"),
        ({"sinks": {3: "message"}}, "sinks: expected a list of glob patterns, got (3,)"),
        ({"sinks": {"send_*": "mesage"}}, "unknown sink 'mesage'; did you mean 'message'?"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(RegistrationError, match=re.escape(reason)):
        FlowGuard(**settings)


def test_lists_and_tuples_are_settings() -> None:
    guard = FlowGuard(trusted_tools=["docs_*"], trusted_hosts=("*.ours.example", "localhost"))

    assert guard.settings.trusted_tools == ("docs_*",)
    assert guard.settings.trusted_hosts == ("*.ours.example", "localhost")
