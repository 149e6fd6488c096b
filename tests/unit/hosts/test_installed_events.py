"""The events that are installed are those that the dialects know."""

from importlib import import_module

import pytest

from toolbus.hosts.dialects import DIALECTS
from toolbus.hosts.install.host_files import HOSTS


def test_every_dialect_can_be_installed():
    assert set(HOSTS) == set(DIALECTS)


@pytest.mark.parametrize("host", HOSTS)
def test_all_that_a_dialect_knows_is_installed_and_no_more(host):
    dialect = DIALECTS[host]
    module = import_module(type(dialect).__module__)
    kinds = getattr(dialect, "kinds", None) or module._KINDS

    assert set(HOSTS[host].events) == set(kinds)
    assert [kinds[event] for event in HOSTS[host].tool_events[:2]] == ["call", "result"]
    assert {kinds[event] for event in HOSTS[host].tool_events[2:]} <= {"result"}
