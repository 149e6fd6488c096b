"""Which metadata of a server the relay takes for its OAuth, and which it refuses."""

from urllib.parse import urlsplit

import pytest

from http_stubs import http
from oauth_servers import stub_server
from toolbus.http.client import HttpClient
from toolbus.http.server import HttpRequest
from toolbus.mcp.http.failures import HttpError
from toolbus.mcp.oauth.gateway import OAuthGateway
from toolbus.mcp.oauth.metadata import RESOURCE, SERVER, discover

NOTHING = http(b"no", status="404 No")


async def found(named=None, path="/mcp", **changes):
    """Return what is found at a stub server, and the paths that were asked."""
    wire = HttpClient()
    async with stub_server(**changes) as (origin, seen):
        where = None if named is None else urlsplit(origin + named)
        try:
            known = await discover(wire, urlsplit(origin + path), where)
        finally:
            wire.close()
        return known, [target for _, target, _, _ in seen], origin


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"resource": {"resource": "https://bank.example/mcp"}}, "another resource"),
        ({"resource": {"resource": None}}, "another resource"),
        ({"resource": {"resource": "https://["}}, "another resource"),
        ({"resource": {"authorization_servers": ["https://["]}}, "not https"),
        ({"server": {"token_endpoint": "https://x:70000/t"}}, "not https"),
        ({"server": {"issuer": "https://bank.example"}}, "another issuer"),
        ({"server": {"token_endpoint": "http://203.0.113.1/t"}}, "not https"),
        ({"server": {"token_endpoint": None}}, "not https"),
        ({"server": {"authorization_endpoint": "file:///etc/passwd"}}, "not https"),
        ({"resource": {"authorization_servers": ["ftp://127.0.0.1"]}}, "not https"),
        ({"server": {"require_pushed_authorization_requests": True}}, "pushed"),
        ({"answers": {f"{SERVER}/as": NOTHING}}, "no metadata"),
        ({"answers": {f"{SERVER}/as": http(status="302 No", location="/x")}}, "no metadata"),
        ({"answers": {f"{RESOURCE}/mcp": http(b"", status="500 No")}}, "status 500"),
        ({"answers": {f"{RESOURCE}/mcp": http(b" " * 2**19)}}, "more than"),
        ({"answers": {f"{RESOURCE}/mcp": b"SSH-2.0\r\n\r\n"}}, "HTTP"),
    ],
)
async def test_metadata_of_others_are_refused(changes, words):
    with pytest.raises(HttpError, match=words) as raised:
        await found(**changes)

    assert raised.value.status == 502


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff"])
async def test_what_is_no_object_is_nothing(body):
    known, asked, _ = await found(answers={f"{RESOURCE}/mcp": http(body)})

    assert known is None
    assert asked[:2] == [f"{RESOURCE}/mcp", RESOURCE]


async def test_a_named_place_comes_first():
    known, asked, origin = await found(named=f"{RESOURCE}/mcp?x=1")

    assert asked == [f"{RESOURCE}/mcp?x=1", f"{SERVER}/as"]
    assert known.resource == f"{origin}/mcp"


async def test_metadata_at_the_root_are_checked_as_well():
    answers = {f"{RESOURCE}/mcp": NOTHING, RESOURCE: http({"resource": "https://bank.example/"})}

    with pytest.raises(HttpError, match="another resource"):
        await found(answers=answers)


async def test_a_server_of_its_own_needs_no_resource_metadata():
    gone = {f"{RESOURCE}/mcp": NOTHING}
    own = {"issuer": "-", "authorization_endpoint": "-", "token_endpoint": "-"}
    known, asked, _ = await found(answers={**gone, SERVER: http(b"", status="404 No")})
    with pytest.raises(HttpError, match="another issuer"):
        await found(answers={**gone, SERVER: http(own)})

    assert known is None
    assert asked[-2:] == [SERVER, "/.well-known/openid-configuration"]


def test_a_challenge_with_no_address_is_ours_as_well():
    gateway = OAuthGateway(HttpClient(), urlsplit("https://x/mcp"), "/mcp")
    said = [("www-authenticate", 'Bearer resource_metadata="https://["')]
    fields = gateway.challenges(HttpRequest("GET", "/mcp", [("host", "127.0.0.1")]), said)

    assert fields[0][1] == f'Bearer resource_metadata="http://127.0.0.1{RESOURCE}/mcp"'
