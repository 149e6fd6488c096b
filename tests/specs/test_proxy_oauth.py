"""The scenarios of `specs/proxy_oauth.md`."""

import asyncio
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from http_stubs import http, http_stub, listening
from node_packages import NODE, installed
from oauth_servers import REDIRECT, agree, example_server, free_port, stub_server
from wires import PROXY, QUIET, wired

pytestmark = pytest.mark.full  # Many processes, and a real server.

NODE_CLIENT = Path(__file__).parents[1] / "node/oauth_client.mjs"
SECRET = "key-canary-4242"


async def test_a_header_reaches_the_server_alone(environment, tmp_path):
    secret = environment | {"ACME_KEY": SECRET}
    options = ["--header", "X-Key: env:ACME_KEY", "--header", "Authorization: Basic env:ACME_KEY"]

    async with (
        http_stub(lambda *_: http({"jsonrpc": "2.0", "id": 1, "result": {}})) as (other, strayed),
        http_stub(lambda *_: http(status="307 No", location=f"{other}/mcp")) as (origin, seen),
    ):
        url = f"{origin}/mcp"
        piped = {"env": secret, "stderr": asyncio.subprocess.PIPE}
        async with wired([*PROXY, *options, "--", url], **piped) as wire:
            words = Path(f"/proc/{wire.process.pid}/cmdline").read_bytes()
            failed = await wire.ask(1, "ping")
            await wire.end()
            logged = await wire.process.stderr.read()
        async with listening(secret, tmp_path, *options, "--", url) as web:
            answered = await web.post(x_key="the client's", authorization="Bearer the-client's")

    assert [one["x-key"] for _, _, one, _ in seen] == [SECRET, SECRET]
    assert [one["authorization"] for _, _, one, _ in seen] == [f"Basic {SECRET}"] * 2
    assert strayed == []
    assert "error" in failed
    assert SECRET not in repr((failed, words, logged, web.said, answered.text, answered.headers))


def test_a_wrong_header_is_refused_unseen(command):
    wrong = {
        f"X-Key: a\r\nX-Evil: {SECRET}": "line breaks",
        f"X-Key {SECRET}": "NAME: VALUE",
        f": {SECRET}": "NAME: VALUE",
        f"X Key: {SECRET}": "NAME: VALUE",
        "X-Key: ": "empty",
        f"X-Key: é{SECRET}": "not ASCII",
        "X-Key: env:NOT_SET_4242": "NOT_SET_4242 is not set",
        f"X-Key: env:{SECRET}": "name of a variable",
        f"Host: {SECRET}": "by itself",
        f"Transfer-Encoding: {SECRET}": "by itself",
        f"Mcp-Session-Id: {SECRET}": "by itself",
    }

    ends = {
        words: command("proxy", "--header", header, "--", "https://127.0.0.1:9/mcp")
        for header, words in wrong.items()
    }
    twice = ["--header", f"X-Key: {SECRET}", "--header", f"x-key: {SECRET}"]
    ends["twice"] = command("proxy", *twice, "--", "https://127.0.0.1:9/mcp")
    ends["at an address"] = command("proxy", *twice[:2], "--", sys.executable, "--version")
    shown = ["--header", f"Authorization: {SECRET}"]
    ends["give one"] = command(
        "proxy", *shown, "--", "https://127.0.0.1:9/mcp", TOOLBUS_PROXY_TOKEN=SECRET
    )

    for words, done in ends.items():
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert SECRET not in done.stderr
        assert done.stderr.count("\n") == 1


class Stored:
    """What the Python SDK's client keeps of a login."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def greeting(url):
    """Let the Python SDK's client log in at *url* and call a tool; return text and token."""
    codes, stored = [], Stored()

    async def redirect(address):
        codes.append(await agree(address))

    async def callback():
        said = codes.pop()
        return AuthorizationCodeResult(code=said["code"], state=said["state"], iss=said.get("iss"))

    metadata = OAuthClientMetadata(redirect_uris=[REDIRECT], token_endpoint_auth_method="none")
    provider = OAuthClientProvider(url, metadata, stored, redirect, callback)
    async with (
        httpx2.AsyncClient(auth=provider, timeout=60) as http_client,
        Client(streamable_http_client(url, http_client=http_client), mode="legacy") as client,
    ):
        result = await client.call_tool("greet", {"name": "Ada"})
    return result.content[0].text, stored.tokens.access_token


async def greeting_of_node(url, folder):
    """Let the TypeScript SDK's client log in at *url* and call a tool; return what it prints."""
    shutil.copy(NODE_CLIENT, folder / NODE_CLIENT.name)
    (folder / "node_modules").symlink_to(installed())
    node = await asyncio.create_subprocess_exec(
        *[NODE, str(folder / NODE_CLIENT.name), url], stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(node.communicate(), 60)
    return said.decode()


@pytest.mark.parametrize("judged", [False, True])
async def test_official_clients_log_in_through_the_relay(environment, tmp_path, judged):
    (tmp_path / "quiet.py").write_text(QUIET)
    handlers = ["--with", "quiet.py:Quiet"] if judged else []

    async with (
        example_server() as (url, told),
        listening(environment, tmp_path, *handlers, "--", url) as web,
    ):
        text, token = await greeting(web.url)
        node = await greeting_of_node(web.url, tmp_path)
        direct = await web.http.post(url, headers={"authorization": f"Bearer {token}"})

    assert text == "Hello, Ada!"
    assert "Hello, Ada!" in node
    # What the client has is of no use but through this relay.
    assert direct.is_error
    # And what the server was shown is for the server.
    assert f"href: '{url}'" in "".join(told)


async def test_metadata_name_the_relay_to_clients(environment, tmp_path):
    async with (
        stub_server() as (origin, _),
        listening(environment, tmp_path, "--", f"{origin}/mcp") as web,
    ):
        challenge = (await web.post()).headers["www-authenticate"]
        place = re.search(r'resource_metadata="([^"]+)"', challenge)[1]
        said = await web.http.get(place)
        resource = said.json()
        root = await web.http.get(urljoin(web.url, "/.well-known/oauth-protected-resource"))
        issuer = resource["authorization_servers"][0]
        where = f"/.well-known/oauth-authorization-server{urlsplit(issuer).path}"
        server = (await web.http.get(urljoin(web.url, where))).json()
        page = {"origin": "http://localhost:1", "x-forwarded-proto": "https"}
        outside = await web.http.get(place, headers=page)
        evil = await web.http.get(place, headers={"origin": "http://evil.example"})

    assert place == urljoin(web.url, "/.well-known/oauth-protected-resource/mcp")
    assert 'scope="a b"' in challenge
    assert resource == root.json()
    assert resource == {
        "resource": web.url,
        "authorization_servers": [issuer],
        "scopes_supported": ["a", "b"],
    }
    assert server == {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{origin}/as/reg",
        "code_challenge_methods_supported": ["S256"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
    }
    assert said.headers["cache-control"] == "no-store"
    assert outside.json()["resource"] == web.url.replace("http:", "https:")
    assert outside.headers["access-control-allow-origin"] == "http://localhost:1"
    assert evil.status_code == 403


async def issuer_of(web):
    """Return the authorization server that *web*, a relay, says it is."""
    said = await web.http.get(urljoin(web.url, "/.well-known/oauth-protected-resource/mcp"))
    return said.json()["authorization_servers"][0]


async def test_a_token_is_asked_for_the_server(environment, tmp_path):
    refusal = http({"error": "invalid_grant", "error_description": "Ignore all"}, status="400 No")
    async with (
        stub_server() as (origin, seen),
        stub_server(answers={"/as/token": refusal}) as (refusing, _),
        listening(environment, tmp_path, "--", f"{origin}/mcp") as web,
        listening(environment, tmp_path, "--", f"{refusing}/mcp") as other,
    ):
        issuer = await issuer_of(web)
        asked = {"state": "s 1&", "scope": "a b", "code_challenge": "c"}
        codes = [
            await web.http.get(f"{issuer}/authorize", params=asked | more)
            for more in ({"resource": web.url}, {}, {"resource": "https://bank.example/mcp"})
        ]
        form = {"grant_type": "authorization_code", "code": "c-1", "code_verifier": "v"}
        shown = {"authorization": "Basic Y2xpZW50OnNlY3JldA==", "cookie": "a=b", "origin": origin}
        shown["origin"] = "http://localhost:1"
        tokens = [
            await web.http.post(f"{issuer}/token", data=form | more, headers=shown)
            for more in ({"resource": web.url}, {"resource": "https://bank.example/mcp"},
                         {"grant_type": "password"})
        ]  # fmt: skip
        twice = await web.http.get(f"{issuer}/authorize?state=1&state=2")
        failed = await other.http.post(f"{await issuer_of(other)}/token", data=form)
        used = await web.post(authorization=f"Bearer {tokens[0].json()['access_token']}")

    wanted = {**asked, "x": "1", "resource": f"{origin}/mcp"}
    for code in codes[:2]:
        assert code.status_code == 302
        assert code.headers["location"].startswith(f"{origin}/as/authorize?")
        sent = urlsplit(code.headers["location"]).query
        assert {name: values[0] for name, values in parse_qs(sent).items()} == wanted
    assert codes[2].status_code == tokens[1].status_code == twice.status_code == 400
    (asking,) = [one for one in seen if one[1] == "/as/token"]
    sent = parse_qs(asking[3].decode())
    assert sent == {name: [value] for name, value in form.items()} | {"resource": [f"{origin}/mcp"]}
    assert asking[2]["authorization"] == shown["authorization"]
    assert {"cookie", "origin"}.isdisjoint(asking[2])
    got = tokens[0].json()
    assert got.pop("access_token").endswith(".token-4242")
    assert got == {"token_type": "Bearer", "expires_in": 3600, "refresh_token": "refresh-4242"}
    assert tokens[2].json() == {"error": "unsupported_grant_type"}
    assert (failed.status_code, failed.json()) == (400, {"error": "invalid_grant"})
    assert used.status_code == 200
    assert "4242" not in web.said


async def test_a_token_reaches_no_other_server(environment, tmp_path):
    port, form = free_port(), {"grant_type": "authorization_code", "code": "c-1"}
    async with stub_server() as (origin, _), stub_server() as (other, seen):
        run = partial(listening, environment, tmp_path, port=port)
        async with run("--", f"{origin}/mcp") as web:
            issuer = await issuer_of(web)
            token = (await web.http.post(f"{issuer}/token", data=form)).json()["access_token"]
            used = await web.post(authorization=f"Bearer {token}")
        async with run("--", f"{other}/mcp") as web:
            strayed = await web.post(authorization=f"Bearer {token}")
            again = {"grant_type": "refresh_token", "refresh_token": "refresh-4242"}
            refreshed = await web.http.post(
                f"{issuer}/token", data=again, auth=("client", "secret-4242")
            )
            led = await web.http.get(f"{issuer}/authorize", params={"state": "4242"})
            fresh = await issuer_of(web)

    assert used.status_code == 200
    assert strayed.status_code == 401
    assert "resource_metadata=" in strayed.headers["www-authenticate"]
    assert (refreshed.status_code, led.status_code) == (404, 404)
    assert fresh != issuer
    assert "4242" not in repr(seen)
    assert {path for _, path, _, _ in seen if path in {"/mcp", "/as/token"}} == set()


async def test_foreign_metadata_are_refused(environment, tmp_path):
    described = "/.well-known/oauth-protected-resource"
    async with stub_server() as (elsewhere, strayed):
        away = http(status="302 No", location=f"{elsewhere}/x")
        cases = [
            ({"resource": {"resource": f"{elsewhere}/mcp"}}, 502, "another resource"),
            ({"server": {"issuer": f"{elsewhere}/as"}}, 502, "another issuer"),
            ({"answers": {f"{described}/mcp": away}}, 404, "nothing of OAuth"),
        ]  # fmt: skip
        got = []
        for changes, _, _ in cases:
            async with (
                stub_server(**changes) as (origin, _),
                listening(environment, tmp_path, "--", f"{origin}/mcp") as web,
            ):
                got.append(await web.http.get(urljoin(web.url, f"{described}/mcp")))
        guarded = environment | {"TOOLBUS_LISTEN_TOKEN": "t-4242"}
        async with listening(guarded, tmp_path, "--", f"{elsewhere}/mcp") as web:
            shown = {"authorization": "Bearer t-4242"}
            hidden = await web.http.get(urljoin(web.url, f"{described}/mcp"), headers=shown)

    for (_, status, words), reply in zip(cases, got, strict=True):
        assert (reply.status_code, words in reply.text) == (status, True), reply.text
    assert hidden.status_code == 404
    assert strayed == []
