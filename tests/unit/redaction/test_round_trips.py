"""Files with secrets through read, change and write: no placeholder replaces a secret.

Each kind of file has the words `mode-one`, which a model wants to be `mode-two`. Harmless ways
change these alone, harmful ways write what was read.
"""

import asyncio
import json
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from hashlib import sha512
from itertools import count
from pathlib import Path

import pytest

from toolbus import Agent
from toolbus.hosts.run.event_answer import answer
from toolbus.hosts.run.requests import HookSettings
from toolbus.models.scripted import ScriptedModel
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.workspace.file_tools import FileTools
from toolbus.workspace.shell_tool import ShellTool

CONFIGURATION = '[[component]]\nuse = "redact-secrets"\n'
SERVER = Path(__file__).parents[2] / "servers/files.py"
HELD = re.compile(r"\[[a-z0-9-]+-[a-z][a-z2-7]{15}\]")
BASE64 = re.compile(r"[A-Za-z0-9+/=]{24,}")


def letters(number, count):
    digest = sha512(b"%d" % number).digest()
    return "".join([one for one in b64encode(digest * 4).decode() if one.isalnum()])[:count]


PAT, OTHER, PASSWORD = "ghp_" + letters(1, 36), "ghp_" + letters(2, 36), letters(3, 24)
URL = f"postgres://app:{PASSWORD}@db.internal/shop"
KEY = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        *[letters(number, 64) for number in range(10, 22)],
        "-----END RSA PRIVATE KEY-----",
    ]
)
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "source": ["mode = 'mode-one'\n", f"token = '{PAT}'\n"]},
        {"cell_type": "code", "source": [f"url = '{URL}'\n"]},
    ],
    "nbformat": 4,
}
FILES = {
    ".env": f"MODE=mode-one\nDB_PASSWORD={PASSWORD}\nTOKEN={PAT}\n",
    "quoted.env": f'export MODE="mode-one"\nexport GITHUB_TOKEN="{PAT}"\n',
    "twice.env": f"MODE=mode-one\nFIRST_TOKEN={PAT}\nSECOND_TOKEN={PAT}\nTHIRD_TOKEN={OTHER}\n",
    "windows.env": f"MODE=mode-one\r\nGITHUB_TOKEN={PAT}\r\nDB_PASSWORD={PASSWORD}\r\n",
    "settings.yaml": f"mode: mode-one\ngithub:\n  token: {PAT}\n  url: {URL}\n",
    "folded.yaml": "mode: mode-one\nkey: |\n  " + KEY.replace("\n", "\n  ") + "\n",
    "settings.json": json.dumps({"mode": "mode-one", "token": PAT, "urls": [URL]}, indent=2),
    "settings.toml": f'mode = "mode-one"\n[github]\ntoken = "{PAT}"\npassword = "{PASSWORD}"\n',
    "settings.ini": f"[app]\nmode = mode-one\npassword = {PASSWORD}\ntoken = {PAT}\n",
    "app.properties": f"mode=mode-one\nspring.datasource.password={PASSWORD}\ntoken={PAT}\n",
    "main.tf": 'variable "mode" { default = "mode-one" }\nprovider "github" {\n'
    f'  token = "{PAT}"\n}}\n',
    "secret.k8s.yaml": "kind: Secret\nmetadata:\n  name: mode-one\ndata:\n  url: "
    f"{b64encode(URL.encode()).decode()}\nstringData:\n  token: {PAT}\n",
    "compose.yaml": "services:\n  db:\n    image: mode-one\n    environment:\n"
    f"      - GITHUB_TOKEN={PAT}\n      - DATABASE_URL={URL}\n",
    "settings.py": "MODE = 'mode-one'\n"
    f"DATABASES = {{'default': {{'PASSWORD': '{PASSWORD}'}}}}\nTOKEN = '{PAT}'\n",
    "config.js": f"module.exports = {{\n  mode: 'mode-one',\n  token: '{PAT}',\n}};\n",
    "deploy.sh": "#!/bin/sh\nMODE=mode-one\n"
    f"curl -H 'Authorization: Bearer {PAT}' https://api.github.com\n",
    "server.pem": f"# mode-one\n{KEY}\n",
    ".netrc": f"# mode-one\nmachine github.com login jane password {PAT}\n",
    ".npmrc": f"; mode-one\n//npm.pkg.github.com/:_authToken={PAT}\n",
    "pip.conf": f"[global]\n# mode-one\nindex-url = https://jane:{PASSWORD}@pypi.internal/simple\n",
    "users.csv": f"name,password,mode\njane,{PASSWORD},mode-one\njoe,{PAT},other\n",
    "notes.ipynb": json.dumps(NOTEBOOK, indent=1),
    "README.md": f"# Shop\n\nmode-one\n\nThe token is `{PAT}`.\n",
    ".git/config": f'[core]\n\tmode = mode-one\n[remote "o"]\n\turl = https://jane:{PAT}@github.com/a/b\n',
}
SECRETS = (PAT, OTHER, PASSWORD, KEY.splitlines()[3], b64encode(URL.encode()).decode())


def harmful(path, shown):
    """Return calls that write a placeholder as it was read, by their way."""
    lines = shown.splitlines()
    at = next(index for index, line in enumerate(lines) if holds(line))
    line = lines[at]
    whole = shown.replace("mode-one", "mode-two")
    diff = f"--- a/{path}\n+++ b/{path}\n@@ -{at + 1} +{at + 1},2 @@\n {line}\n+mode-two\n"
    pattern = re.sub(r"([][/.*\\])", r"\\\1", line)
    encoded = b64encode(whole.encode()).decode()
    program = f"open({path!r}, 'w').write({json.dumps(whole)})"
    return {
        "write": ("write", path, whole),
        "edit": ("edit", path, line, f"{line}\nmode-two"),
        "heredoc": ("shell", f"cat > '{path}' <<'EOF'\n{whole}\nEOF"),
        "append": ("shell", f"printf '%s\\n' {json.dumps(line)} >> '{path}'"),
        "sed": ("shell", f"sed -i '{at + 1}s/.*/{pattern}/' '{path}'"),
        "python": ("shell", f"python3 - <<'EOF'\n{program}\nEOF"),
        "patch": ("shell", f"patch -p1 <<'EOF'\n{diff}EOF"),
        "base64": ("shell", f"echo {encoded} | base64 -d > '{path}'"),
    }


def harmless(path):
    """Return calls that change the words alone, by their way; together they change nothing."""
    return {
        "edit": ("edit", path, "mode-one", "mode-two"),
        "append": ("shell", f"echo mode-two >> '{path}'"),
        "sed": ("shell", f"sed -i -e '$d' -e s/mode-two/mode-one/ '{path}'"),
        "print": ("shell", f"printf 'mode-two [github-pat-1] [step-1]' > '{path}.note'"),
    }


def holds(text):
    texts = [text, *[b64decode(one).decode(errors="ignore") for one in BASE64.findall(text)]]
    return any(HELD.search(one) for one in texts)


def is_whole(folder, path):
    """Return whether the file has all secrets as often as at first, and no placeholder."""
    text = (folder / path).read_bytes().decode()
    return [text.count(secret) for secret in SECRETS] == [
        FILES[path].count(secret) for secret in SECRETS
    ] and not holds(text)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "project"
    for path, text in FILES.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_bytes(text.encode())
    return made


async def check(folder, read, do, ways=(), *, filled=None):
    """Try the ways on each file; *do* returns why a call is denied, or None once it has run.

    Where a file gets its own lines back, *filled* gets the files and the ways.
    """
    tried = 0
    for path, before in FILES.items():
        shown = await read(path)
        assert holds(shown), (path, shown)
        for way, call in harmful(path, shown).items():
            if not ways or way in ways:
                reason = await do(*call)
                tried += 1
                if filled is not None and way in {"write", "edit"} and reason is None:
                    assert is_whole(folder, path), (path, way)
                    assert "mode-two" in (folder / path).read_text()
                    (folder / path).write_bytes(before.encode())
                    filled.append((path, way))
                    continue
                assert reason, (path, way)
                assert "[" in reason, reason
                assert "edit only the other lines" in reason
                assert (folder / path).read_bytes().decode() == before
        for way, call in harmless(path).items():
            if not ways or way in ways:
                assert await do(*call) is None, (path, way)
                assert is_whole(folder, path), (path, way)
                assert "mode-two" in (folder / path).read_text() or way in {"sed", "print"}
    return tried


FEW_WAYS = ("write", "edit", "append", "sed")


@pytest.mark.parametrize(
    ("ways", "least"), [(FEW_WAYS, 80), pytest.param((), 150, marks=pytest.mark.full)]
)
async def test_tools_of_an_agent(folder, ways, least):
    components = [FileTools(root=folder), ShellTool(root=folder), RedactSecrets()]

    async with Agent(ScriptedModel([]), components=components) as agent:

        async def read(path):
            return (await agent.call_tool("read_file", {"path": path})).response.text

        async def do(way, path, *texts):
            name, given = {
                "write": ("write_file", ("path", "content")),
                "edit": ("edit_file", ("path", "old_text", "new_text")),
                "shell": ("shell", ("command",)),
            }[way]
            called = await agent.call_tool(name, dict(zip(given, (path, *texts), strict=True)))
            assert called.status in {"ok", "denied"}, called.response.text
            return called.response.text if called.status == "denied" else None

        filled = []
        assert await check(folder, read, do, ways, filled=filled) >= least
        assert len(filled) >= 40, filled


@pytest.mark.full
async def test_tools_of_a_server_behind_the_proxy(folder):
    (folder / "toolbus.toml").write_text(CONFIGURATION)
    proxy = [sys.executable, "-m", "toolbus", "proxy", "--config", "toolbus.toml"]
    process = await asyncio.create_subprocess_exec(
        *(*proxy, "--store", "calls.db", "--", sys.executable, str(SERVER), "."),
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1_000_000,
    )
    ids = count(1)

    async def call(name, **arguments):
        own, params = next(ids), {"name": name, "arguments": arguments}
        asked = {"jsonrpc": "2.0", "id": own, "method": "tools/call", "params": params}
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        while (told := json.loads(await process.stdout.readline())).get("id") != own:
            pass
        return told["result"]

    async def read(path):
        return (await call("read", path=path))["content"][0]["text"]

    async def do(way, path, *texts):
        names = {"write": ("content",), "edit": ("old", "new")}[way]
        told = await call(way, path=path, **dict(zip(names, texts, strict=True)))
        return told["content"][0]["text"] if told.get("isError") else None

    assert await check(folder, read, do, ways=("write", "edit")) == 2 * len(FILES)
    process.stdin.close()
    assert await process.wait() == 0


@pytest.mark.full
@pytest.mark.parametrize("host", ["claude-code", "codex"])
async def test_tools_of_a_coding_agent(folder, tmp_path, monkeypatch, host):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "toolbus.toml").write_text(CONFIGURATION)
    ids = count(1)

    async def tell(event, name, given, **more):
        facts = {"session_id": "s", "cwd": str(folder), "hook_event_name": event}
        facts |= {"tool_name": name, "tool_input": given, "tool_use_id": f"t{next(ids)}", **more}
        settings = HookSettings(
            config=str(tmp_path / "toolbus.toml"), store=tmp_path / "hooks.db", limit=60.0
        )
        made = await asyncio.to_thread(answer, host, event, json.dumps(facts).encode(), settings)
        assert (made.stderr, made.exit_code) == (b"", 0)
        return json.loads(made.stdout or b"{}")

    async def read(path):
        text = (folder / path).read_bytes().decode()
        if host == "codex":
            told = await tell("PostToolUse", "Bash", {"command": f"cat {path}"}, tool_response=text)
            return told["reason"]
        output = {"type": "text", "file": {"filePath": path, "content": text}}
        told = await tell("PostToolUse", "Read", {"file_path": path}, tool_response=output)
        return told["hookSpecificOutput"]["updatedToolOutput"]["file"]["content"]

    async def do(way, path, *texts):
        given = {
            "write": ("Write", ("file_path", "content")),
            "edit": ("Edit", ("file_path", "old_string", "new_string")),
            "shell": ("Bash", ("command",)),
        }
        name, names = given[way]
        given = dict(zip(names, (path, *texts), strict=True))
        told = await tell("PreToolUse", name, given)
        output = told.get("hookSpecificOutput", {})
        if "permissionDecisionReason" in output:
            return output["permissionDecisionReason"]
        texts = [output.get("updatedInput", given)[each] for each in names[1:]]
        if way == "shell":
            subprocess.run(["sh", "-c", path], cwd=folder, check=True)
        else:
            file, before = folder / path, (folder / path).read_bytes().decode()
            file.write_bytes((texts[0] if way == "write" else before.replace(*texts)).encode())
        return None

    filled = [] if host == "claude-code" else None
    ways = ("write", "heredoc", "edit", "print")
    assert await check(folder, read, do, ways=ways, filled=filled) >= 60
    assert filled is None or len(filled) >= 40, filled
