"""The addresses that logins go by, and their files."""

import pytest

from toolbus.mcp.oauth.logins import Login, Logins, server_url
from toolbus.settings.usage_error import UsageError

LOGIN = Login(
    server="https://a.example/mcp",
    issuer="https://as.example",
    token_endpoint="https://as.example/token",
    client_id="c",
    access_token="token-4242",
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("HTTPS://A.Example:443/MCP?X=1", "https://a.example/MCP?X=1"),
        ("https://a.example", "https://a.example/"),
        ("https://a.example:444/mcp/", "https://a.example:444/mcp/"),
        ("http://127.0.0.1:8000/mcp", "http://127.0.0.1:8000/mcp"),
        ("http://[::1]:80/mcp", "http://[::1]/mcp"),
        ("http://localhost/mcp", "http://localhost/mcp"),
    ],
)
def test_an_address_has_one_form(text, address):
    assert server_url(text) == address


@pytest.mark.parametrize(
    "text",
    ["a.example", "ftp://a.example", "http://a.example/mcp", "https://u:p-4242@a.example/",
     "https://a.example/#x", "https://", "https://a.example:x/", "https://[::1/", "127.0.0.1:80"],
)  # fmt: skip
def test_other_addresses_are_refused(text):
    with pytest.raises(UsageError) as raised:
        server_url(text)

    assert "-4242" not in str(raised.value)


def test_a_login_is_found_by_its_address_alone(tmp_path):
    logins = Logins(tmp_path / "toolbus/logins")
    logins.write(LOGIN)

    assert logins.read("https://a.example/mcp") == LOGIN
    assert logins.read("https://a.example/mcp/") is None
    assert logins.all() == [LOGIN]
    # A file that was put in the place of another one holds for its own address.
    (file,) = logins.folder.glob("*.json")
    logins.write(Login(**{**_members(LOGIN), "server": "https://b.example/mcp"}))
    (other,) = set(logins.folder.glob("*.json")) - {file}
    file.replace(other)
    assert logins.read("https://b.example/mcp") is None
    assert logins.remove("https://b.example/mcp")
    assert not logins.remove("https://b.example/mcp")


def test_a_write_that_fails_leaves_what_was(tmp_path, monkeypatch):
    logins = Logins(tmp_path / "toolbus/logins")
    logins.write(LOGIN)

    def fail(*_):
        raise OSError(28, "no space")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        logins.write(Login(**{**_members(LOGIN), "access_token": "new"}))

    assert logins.read(LOGIN.server) == LOGIN
    assert len(list(logins.folder.iterdir())) == 1


def _members(login):
    return {name: getattr(login, name) for name in login.__struct_fields__}
