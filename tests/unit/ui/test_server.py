"""The sockets of the page, on machines with and without ::1."""

import errno
import socket
from contextlib import closing

import pytest

from toolbus.settings.usage_error import UsageError
from toolbus.ui import server
from toolbus.ui.server import listen_on_loopback


@pytest.fixture
def listen():
    """Return what listens, and closes its sockets at the end."""
    opened = []

    def listen(port=0):
        sockets = listen_on_loopback(port)
        opened.extend(sockets)
        return [each.getsockname()[:2] for each in sockets]

    yield listen
    for each in opened:
        each.close()


def test_both_addresses_have_the_same_port(listen):
    first, second = listen()

    assert first == ("127.0.0.1", second[1])
    assert second[0] == "::1"
    with pytest.raises(UsageError, match=f"port {first[1]} is in use"):
        listen(first[1])


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
def test_a_machine_without_ipv6_has_one_address(listen, monkeypatch, number):
    listen_on = server.listen_on

    def listen_without_ipv6(host, port):
        if host == "::1":
            raise OSError(number, "no IPv6")
        return listen_on(host, port)

    monkeypatch.setattr(server, "listen_on", listen_without_ipv6)

    assert [host for host, _ in listen()] == ["127.0.0.1"]


def test_what_listens_at_one_address_alone_keeps_the_port(listen):
    with closing(socket.create_server(("::1", 0), family=socket.AF_INET6)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} is in use"):
            listen(port)

    assert listen(port)[0] == ("127.0.0.1", port)
