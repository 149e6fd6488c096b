"""The events that are installed are those that the dialects know."""

import pytest

from toolbus.hosts.dialects import DIALECTS, dialect
from toolbus.hosts.install.host_files import HOSTS


def test_every_dialect_can_be_installed():
    assert set(HOSTS) == set(DIALECTS)


@pytest.mark.parametrize("host", HOSTS)
def test_calls_come_before_results(host):
    kinds = dialect(host).facts.kinds

    assert [kinds[event] for event in HOSTS[host].tool_events[:2]] == ["call", "result"]
    assert {kinds[event] for event in HOSTS[host].tool_events[2:]} <= {"result"}
