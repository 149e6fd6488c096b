"""What pages of the guide say of the library's parts, held against these."""

import json
import re
import shlex
from importlib import import_module, metadata
from importlib.resources import files
from pathlib import Path

import pytest

from toolbus import events
from toolbus.cli import proxy


def page(name):
    return files("toolbus.guide").joinpath(f"{name}.md").read_text("utf-8")


def constant(event):
    return next(name for name, value in vars(events).items() if value is event)


def test_failures_has_every_event():
    text = page("failures")

    table = re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE)
    observed = re.findall(r"`([A-Z_]{5,})`", text[: text.index("are only observed")])
    transforms = [one for one in events.CATALOGUE if isinstance(one, events.TransformEvent)]
    assert table == [constant(event) for event in transforms]
    others = [constant(event) for event in events.CATALOGUE if event not in transforms]
    assert observed[-len(others) :] == others


def test_the_changelog_names_what_there_is():
    rows = re.findall(r"^\| .+ \| (.+) \|$", page("changelog"), re.MULTILINE)[1:]

    modules = [name for row in rows for name in re.findall(r"`(toolbus\.[\w.]+)`", row)]
    assert len(modules) >= 8
    for module in modules:
        import_module(module)


def test_components_are_those_that_we_ship():
    named = re.findall(
        r"^\| `([a-z-]+)` \| (?:`toolbus\[(\w+)\]`)? ?\|", page("components"), re.MULTILINE
    )
    ours = metadata.distribution("toolbus")

    offered = [one.name for one in ours.entry_points if one.group == "toolbus.components"]
    assert sorted(name for name, _ in named) == sorted(offered)
    assert {extra for _, extra in named if extra} <= set(ours.metadata.get_all("Provides-Extra"))


CLIENTS = dict(re.findall(r"^\| ([\w ]+) \| .+ \| `(.+)` \|$", page("mcp"), re.MULTILINE))


def read_entry(client: str) -> list[str]:
    """Return the words with which *client* starts its server, as its settings have them."""
    if client in {"Claude Code", "Codex"}:
        return shlex.split(CLIENTS[client])[5:]
    (entry,) = re.findall(r"```json\n(.*?)```", page("mcp"), re.DOTALL)
    settings = json.loads(CLIENTS[client].replace("ENTRY", entry))
    (servers,) = settings.values()
    return [servers["files"]["command"], *servers["files"]["args"]]


@pytest.mark.parametrize(
    "client", ["Claude Code", "Codex", "Claude Desktop", "Cursor", "Gemini CLI", "VS Code"]
)
def test_the_line_of_a_client_starts_a_proxy(client: str):
    program, name, *words = read_entry(client)

    parser, _ = proxy.command()
    found = parser.parse_all(words)

    assert (Path(program).name, name) == ("toolbus", "proxy")
    assert found.config == "/home/me/toolbus.toml"
    assert found.command[:3] == ["--", "npx", "-y"]
