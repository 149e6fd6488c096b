import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.plugins.code_blocks import PageRun, read_code_blocks

import toolbus
from toolbus.cli import proxy

PAGE = Path(toolbus.__file__).parent.joinpath("cli/guide/mcp.md").read_text("utf-8")
COMMANDS = dict(re.findall(r"^((claude|codex) mcp add .+)$", PAGE, re.MULTILINE))
CLIENTS = dict(re.findall(r"^\| ([\w ]+) \| .+ \| `(.+ENTRY.+)` \|$", PAGE, re.MULTILINE))


def started(words: list[str]) -> list[str]:
    """Return the command of the server behind the proxy that a client starts with *words*."""
    program, name, *arguments = words
    parsed = proxy.command()[0].parse_all(arguments)
    assert (Path(program).name, name, parsed.config) == (
        "toolbus",
        "proxy",
        "/home/me/toolbus.toml",
    )
    return parsed.command


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_client_names_a_proxy(command):
    words = shlex.split(command)

    assert started(words[words.index("--") + 1 :])[:3] == ["--", "npx", "-y"]


@pytest.mark.full
def test_clients_hold_what_the_page_adds(tmp_path, monkeypatch):
    blocks = read_code_blocks("mcp.md", PAGE)
    (block,) = [block for block in blocks if "programs" in block.notes]
    page = PageRun(tmp_path, monkeypatch)

    page.run(block, full=True)

    claude = json.loads(tmp_path.joinpath(".claude.json").read_text())["projects"]
    codex = tomllib.loads(tmp_path.joinpath(".codex/config.toml").read_text())
    held = [claude[str(page.folder)]["mcpServers"]["files"], codex["mcp_servers"]["files"]]
    for server in held:
        assert started([server["command"], *server["args"]])[:3] == ["--", "npx", "-y"]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_settings_of_a_client_start_a_proxy(client):
    (entry,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)

    (servers,) = json.loads(CLIENTS[client].replace("ENTRY", entry)).values()

    words = [servers["files"]["command"], *servers["files"]["args"]]
    assert started(words)[:3] == ["--", "npx", "-y"]


def test_a_client_can_open_the_server(tmp_path):
    (server,) = [block for block in read_code_blocks("mcp.md", PAGE) if block.file == "server.py"]
    tmp_path.joinpath("server.py").write_text(server.text)
    frames = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "ping"},
    ]
    lines = "".join([json.dumps({"jsonrpc": "2.0"} | frame) + "\n" for frame in frames])

    program = [sys.executable, tmp_path / "server.py"]
    answers = subprocess.run(program, input=lines, capture_output=True, text=True, check=True)

    opened, listed, alive = map(json.loads, answers.stdout.splitlines())
    assert (opened["id"], opened["result"]["capabilities"]) == (1, {"tools": {}})
    assert (listed["id"], listed["result"]["tools"][0]["name"]) == (2, "delete")
    assert alive["result"] == {}


def test_six_clients_are_told_of():
    assert (len(COMMANDS), len(CLIENTS)) == (2, 4)
