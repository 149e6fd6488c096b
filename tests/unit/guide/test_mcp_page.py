import json
import re
import shlex
from pathlib import Path

import pytest

import toolbus
from toolbus.cli import proxy

PAGE = Path(toolbus.__file__).parent.joinpath("guide/mcp.md").read_text("utf-8")
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


@pytest.mark.parametrize("client", CLIENTS)
def test_the_settings_of_a_client_start_a_proxy(client):
    (entry,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)

    (servers,) = json.loads(CLIENTS[client].replace("ENTRY", entry)).values()

    words = [servers["files"]["command"], *servers["files"]["args"]]
    assert started(words)[:3] == ["--", "npx", "-y"]


def test_six_clients_are_told_of():
    assert (len(COMMANDS), len(CLIENTS)) == (2, 4)
