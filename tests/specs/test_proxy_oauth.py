"""The scenarios of `specs/proxy_oauth.md`."""

import asyncio
import json
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from http_stubs import http, http_stub, listening
from node_packages import NODE, installed
from oauth_servers import (
    REDIRECT,
    agree,
    agree_and_return,
    example_server,
    free_port,
    stub_server,
)
from wires import PROXY, QUIET, SECONDS, wired

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


def test_an_invalid_header_is_refused_without_its_value(command):
    wrong = {
        f"X-Key: a\r\nX-Evil: {SECRET}": "line breaks",
        f"X-Key {SECRET}": "NAME: VALUE",
        f": {SECRET}": "NAME: VALUE",
        f"X Key: {SECRET}": "NAME: VALUE",
        "X-Key: ": "empty",
        f"X-Key: é{SECRET}": "not ASCII",
        "X-Key: env:NOT_SET_4242": "NOT_SET_4242 is not set",
        f"X-Key: env:{SECRET}": "name of a variable",
        f"Host: {SECRET}": "sets this header itself",
        f"Transfer-Encoding: {SECRET}": "sets this header itself",
        f"Mcp-Session-Id: {SECRET}": "sets this header itself",
    }

    ends = {
        words: command("proxy", "--header", header, "--", "https://127.0.0.1:9/mcp")
        for header, words in wrong.items()
    }
    twice = ["--header", f"X-Key: {SECRET}", "--header", f"x-key: {SECRET}"]
    ends["twice"] = command("proxy", *twice, "--", "https://127.0.0.1:9/mcp")
    ends["--header is for a remote server; a command has its environment"] = command(
        "proxy", *twice[:2], "--", sys.executable, "--version"
    )
    shown = ["--header", f"Authorization: {SECRET}"]
    ends["are both given; use one"] = command(
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


async def test_a_token_is_requested_for_the_server(environment, tmp_path):
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
    assert "-4242" not in web.said


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
            led = await web.http.get(f"{issuer}/authorize", params={"state": "s-4242"})
            fresh = await issuer_of(web)

    assert used.status_code == 200
    assert strayed.status_code == 401
    assert "resource_metadata=" in strayed.headers["www-authenticate"]
    assert (refreshed.status_code, led.status_code) == (404, 404)
    assert fresh != issuer
    assert "-4242" not in repr(seen)
    assert {path for _, path, _, _ in seen if path in {"/mcp", "/as/token"}} == set()


async def test_foreign_metadata_are_refused(environment, tmp_path):
    described = "/.well-known/oauth-protected-resource"
    async with stub_server() as (elsewhere, strayed):
        away = http(status="302 No", location=f"{elsewhere}/x")
        cases = [
            ({"resource": {"resource": f"{elsewhere}/mcp"}}, 502, "another resource"),
            ({"server": {"issuer": f"{elsewhere}/as"}}, 502, "another issuer"),
            ({"answers": {f"{described}/mcp": away}}, 404, "no OAuth metadata"),
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


@pytest.fixture
def private(environment, tmp_path):
    """Return an environment in which logins have a folder of their own."""
    return environment | {"XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state/toolbus/logins"


async def log_in(private, url, browse=agree_and_return, *options):
    """Let `toolbus login` run while *browse* does what a browser does; return its end."""
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "toolbus", "login", url, "--no-browser", *options],
        env=private,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    line = await asyncio.wait_for(process.stdout.readline(), SECONDS)
    if line.startswith(b"open "):
        await browse(line.split()[1].decode())
    said, wrong = await asyncio.wait_for(process.communicate(), SECONDS)
    return process.returncode, line.decode() + said.decode(), wrong.decode()


async def asked(private, url, times=1, options=()):
    """Return the answers to *times* requests at once over pipes, and all that was said."""
    piped = {"env": private, "stderr": asyncio.subprocess.PIPE}
    async with wired([*PROXY, *options, "--", url], **piped) as wire:
        for own in range(times):
            wire.send(id=own, method="ping")
        answers = [await wire.frame() for _ in range(times)]
        await wire.end()
        said = b"".join(wire.lines) + await wire.process.stderr.read()
    return answers, said.decode()


def kept(folder):
    """Return the logins in *folder*."""
    return [json.loads(file.read_bytes()) for file in folder.glob("*.json")]


async def test_a_login_serves_the_proxy_on_pipes(private, folder, command):
    async with example_server() as (url, _):
        before, _ = await asked(private, url)
        ended = await log_in(private, url)
        (login,) = kept(folder)
        listed = command("login", "--list", **private)
        as_json = command("login", "--list", "--json", **private)
        async with Client(
            stdio_client(
                StdioServerParameters(command=PROXY[0], args=[*PROXY[1:], "--", url], env=private)
            ),
            mode="legacy",
        ) as client:
            result = await client.call_tool("greet", {"name": "Ada"})
        left = command("logout", url, **private)
        again = command("logout", url, **private)
        after, said = await asked(private, url)

    assert result.content[0].text == "Hello, Ada!"
    assert (ended[0], ended[2]) == (0, "")
    assert (login["server"], login["resource"]) == (url, url)
    assert f"toolbus login {url}" in before[0]["error"]["message"]
    assert f"toolbus login {url}" in after[0]["error"]["message"]
    assert url in listed.stdout
    assert json.loads(as_json.stdout)[0]["address"] == url
    assert (left.returncode, again.returncode, kept(folder)) == (0, 1, [])
    assert login["access_token"] not in repr((ended, listed.stdout, as_json.stdout, left, said))


async def test_only_the_owner_reads_a_login(private, folder, command, tmp_path):
    def listed():
        done = command("login", "--list", **private)
        return done.returncode, done.stderr

    async with stub_server() as (origin, seen):
        url = f"{origin}/mcp"
        await log_in(private, url)
        (file,) = folder.glob("*.json")
        modes = [oct(path.stat().st_mode & 0o777) for path in (folder.parent, folder, file)]
        wrong = {}
        file.chmod(0o644)
        wrong["chmod 600"] = [listed(), await asked(private, url)]
        file.chmod(0o600)
        folder.chmod(0o755)
        wrong["chmod 700"] = [listed(), await asked(private, url)]
        folder.chmod(0o700)
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
        wrong["the file is a link"] = [listed(), await asked(private, url)]
        file.unlink()
        folder.rename(tmp_path / "folder")
        folder.symlink_to(tmp_path / "folder")
        wrong["a link, or not a folder"] = [listed(), (await log_in(private, url))[::2]]
        shown = [one.get("authorization") for _, path, one, _ in seen if path == "/mcp"]

    assert modes == ["0o700", "0o700", "0o600"]
    for words, ends in wrong.items():
        assert all(words in repr(end) for end in ends)
        assert "-4242" not in repr(ends)
        assert ends[0][0] == 2
    # Nothing was shown that others could have read: once it was the login's own check.
    assert shown.count("Bearer token-4242") == 2
    assert list((tmp_path / "folder").glob("*.json")) == []


async def test_an_expired_login_is_renewed(private, folder):
    given = []

    def take(asking):
        form = {name: values[0] for name, values in parse_qs(asking[3].decode()).items()}
        if form["grant_type"] == "authorization_code":
            said = {"access_token": "token-4242", "refresh_token": "refresh-0"}
        elif form["refresh_token"] == f"refresh-{len(given)}" and len(given) < 1:
            given.append(form)
            said = {"access_token": "token-4242", "refresh_token": f"refresh-{len(given)}"}
        else:
            return http({"error": "invalid_grant"}, status="400 No")
        return http({"token_type": "bearer", "expires_in": 3600, **said})

    async with stub_server(answers={"/as/token": take}) as (origin, _):
        url = f"{origin}/mcp"
        await log_in(private, url)
        (login,), (file,) = kept(folder), folder.glob("*.json")
        file.write_text(json.dumps(login | {"access_token": "old-4242"}))
        both = await asyncio.gather(asked(private, url, 5), asked(private, url, 5))
        (renewed,) = kept(folder)
        file.write_text(json.dumps(renewed | {"access_token": "gone-4242"}))
        refused, said = await asked(private, url)

    assert [one.get("result") for answers, _ in both for one in answers] == [{}] * 10
    assert len(given) == 1
    assert given[0]["resource"] == url
    assert given[0]["client_id"] == "client-1"
    assert (renewed["access_token"], renewed["refresh_token"]) == ("token-4242", "refresh-1")
    assert f"toolbus login {url}" in refused[0]["error"]["message"]
    assert "-4242" not in said + both[0][1] + both[1][1]


async def test_a_login_reaches_no_other_server(private, folder):
    async with stub_server() as (other, strayed):
        moved = http(status="307 No", location=f"{other}/mcp")
        async with stub_server() as (origin, seen):
            url = f"{origin}/mcp"
            await log_in(private, url)
            count = len(seen)
            for elsewhere in (f"{url}/x", f"{url}?x=1", url.replace("127.0.0.1", "localhost")):
                await asked(private, elsewhere)
            await asked(private, f"{other}/mcp")
            shown = [one.get("authorization") for _, _, one, _ in seen[count:]]
        port = urlsplit(origin).port
        async with http_stub(lambda *_: moved, port) as (same, after):
            failed, _ = await asked(private, f"{same}/mcp")

    assert shown == [None] * 3
    assert [one["authorization"] for _, _, one, _ in after] == ["Bearer token-4242"]
    assert "error" in failed[0]
    assert [one.get("authorization") for _, _, one, _ in strayed] == [None]


async def test_invalid_server_responses_end_a_login(private, folder):
    broken = http({"access_token": ["token-4242"], "refresh_token": 424_242_4242})
    cases = [
        ({"server": {"issuer": "https://bank.example/as"}}, "issuer mismatch"),
        ({"answers": {"/as/token": broken}}, "issued no token"),
    ]
    ends = []
    for changes, _ in cases:
        async with stub_server(**changes) as (origin, _):
            ends.append(await log_in(private, f"{origin}/mcp"))

    async def refuse(address):
        query = parse_qs(urlsplit(address).query)
        back = {"error": "access_denied", "state": query["state"][0]}
        async with httpx2.AsyncClient() as browser:
            await browser.get(query["redirect_uri"][0], params=back)

    async with stub_server() as (origin, _):
        cases.append(({}, "access_denied"))
        ends.append(await log_in(private, f"{origin}/mcp", refuse))

    for (_, words), (code, said, wrong) in zip(cases, ends, strict=True):
        assert (code, words in wrong, wrong.count("\n")) == (1, True, 1), wrong
        assert not re.search("-4242|4242424242", said + wrong)
    assert kept(folder) == []


async def test_a_forged_redirect_is_refused(private, folder):
    got = []

    async def browse(address):
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        place, state = query["redirect_uri"], query["state"]
        async with httpx2.AsyncClient() as browser:
            for where, params, headers in (
                (place, {"code": "evil", "state": f"{state}x"}, {}),
                (place, {"code": "evil"}, {}),
                (f"{place}/x", {"code": "evil", "state": state}, {}),
                (place, {"code": "evil", "state": state}, {"host": "evil.example"}),
                (f"{place}?code=evil&state={state}&code=evil2", None, {}),
                (place, {"code": "c-1", "state": state}, {}),
            ):
                got.append(await browser.get(where, params=params, headers=headers))

    async with stub_server() as (origin, seen):
        code, _, _ = await log_in(private, f"{origin}/mcp", browse)

    assert [one.status_code for one in got] == [*[400] * 5, 200]
    assert all("evil" not in one.text for one in got)
    (asking,) = [body.decode() for _, path, _, body in seen if path == "/as/token"]
    assert parse_qs(asking)["code"] == ["c-1"]
    assert (code, len(kept(folder))) == (0, 1)
