"""What ends a login, and what of it is told."""

import asyncio

import pytest

from http_stubs import http
from oauth_servers import agree_and_return, stub_server
from toolbus.errors import ToolServerError
from toolbus.mcp.client.login import log_in

REFUSED = http({"error": "invalid_grant", "error_description": "of c-4242"}, status="400 No")
BROKEN = http({"access_token": ["token-4242"], "refresh_token": 4242})
AWAY = http(status="302 No", location="https://203.0.113.1/x")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"resource": {"resource": "https://bank.example/mcp"}}, "does not match"),
        ({"server": {"issuer": "https://bank.example/as"}}, "issuer mismatch"),
        ({"server": {"code_challenge_methods_supported": None}}, "PKCE"),
        ({"server": {"code_challenge_methods_supported": ["plain"]}}, "PKCE"),
        ({"server": {"token_endpoint": "http://203.0.113.1/token"}}, "without https"),
        ({"server": {"registration_endpoint": "http://203.0.113.1/reg"}}, "without https"),
        ({"server": {"authorization_endpoint": "http://203.0.113.1/a"}}, "without https"),
        (
            {"answers": {"/.well-known/oauth-authorization-server/as": AWAY}},
            "does not register clients",
        ),
        ({"answers": {"/as/token": REFUSED}}, "issued no token, 400, invalid_grant"),
        ({"answers": {"/as/token": BROKEN}}, "issued no token"),
        ({"answers": {"/as/token": http(b"token-4242")}}, "issued no token"),
        ({"answers": {"/as/token": AWAY}}, "issued no token, 302"),
        (
            {"answers": {"/as/reg": http({"client_secret": ["s-4242"]})}},
            "does not register clients",
        ),
        ({"answers": {"/mcp": http(b"", status="500 No")}}, "HTTP status 500"),
    ],
)
async def test_a_login_that_fails_says_why_and_no_secret(changes, words, caplog):
    places = []

    async with stub_server(**changes) as (origin, _):
        with pytest.raises(ToolServerError) as raised:
            await log_in(f"{origin}/mcp", led(places), 30)

    text = str(raised.value)
    assert words in text
    assert text.startswith(f"mcp server '{origin}/mcp': login failed: ")
    assert "-4242" not in text + repr(raised.value.__cause__) + caplog.text


async def test_nobody_agrees_in_time():
    async with stub_server() as (origin, _):
        with pytest.raises(ToolServerError, match=r"not approved within 0\.1 s"):
            await log_in(f"{origin}/mcp", lambda _: None, 0.1)


async def test_who_asks_for_no_login_gets_none():
    open_server = http({"jsonrpc": "2.0", "id": 1, "result": {}})

    async with stub_server(answers={"/mcp": open_server}) as (origin, _):
        assert await log_in(f"{origin}/mcp", lambda _: None, 5) is None


async def test_a_login_shows_no_token():
    places = []
    async with stub_server() as (origin, _):
        login = await log_in(f"{origin}/mcp", led(places), 30)

    assert login.access_token == "token-4242"
    assert "-4242" not in repr(login)
    assert login.resource == f"{origin}/mcp"


def led(places):
    """Return what does with an address what a browser does."""

    def lead(place):
        places.append(asyncio.create_task(agree_and_return(place)))

    return lead
