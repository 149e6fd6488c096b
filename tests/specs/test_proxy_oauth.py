"""The scenarios of `specs/proxy_oauth.md`."""

import asyncio
import sys
from pathlib import Path

import pytest

from http_stubs import http, http_stub, listening
from wires import PROXY, wired

pytestmark = pytest.mark.full  # Many processes, and a real server.

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
