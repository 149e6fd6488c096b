import importlib
import io
import json
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from code_blocks import PageRun, provided, read_code_blocks
from toolbus import Agent, AssistantMessage, Deny, ToolCall, events
from toolbus.cli import proxy
from toolbus.config.configuration import load
from toolbus.inspect.explaining import explain
from toolbus.models.scripted import ScriptedModel
from toolbus.store.sqlite import SqliteStore
from toolbus.terminal.output import Output
from toolbus.testing.fakes import counting_ids

ACME = Path(__file__).parents[1] / "distributions/acme-guards"
README = Path(__file__).parents[2].joinpath("README.md").read_text("utf-8")
PROGRAMS = [one for one in read_code_blocks("README.md", README) if one.kind == "python"]
CODE = [program.text for program in PROGRAMS]
BLOCKS = [block for block in CODE if "anthropic:NAME" not in block]

# What the README shows of a real model; taken from there, if it has one.
LIVE = next(
    (block for block in CODE if "anthropic:NAME" in block),
    """\
from toolbus import Agent, Deny, events

def delete(path: str) -> str:
    return f"deleted {path}"

agent = Agent("anthropic:NAME", tools=[delete])  # the key is in ANTHROPIC_API_KEY

@agent.guard(events.TOOL_CALL_BEFORE)
def inside_only(ctx):
    return Deny("only inside the project") if ctx.value.arguments["path"].startswith("/") else None

print(agent.run_sync("delete /etc/passwd").text)
""",
)


def test_code_blocks_print_what_they_show(tmp_path, monkeypatch):
    page = PageRun(tmp_path, monkeypatch)

    for program in PROGRAMS:
        if program.text in BLOCKS:
            page.run(program)


def test_a_real_model_works_in_ten_lines(capsys, monkeypatch):
    asking = [("call", "c1", "delete", '{"path": "/etc/passwd"}')]
    lines = [line for line in LIVE.splitlines() if line.strip()]

    with provided([asking, [("text", "I may not.")]]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k-" + "1" * 9)
        exec(compile(LIVE, "README.md", "exec"), {"__name__": "readme"})

    assert len(lines) <= 10
    assert capsys.readouterr().out == "I may not.\n"
    assert "only inside the project" in json.dumps(server.requests[1].body)
    assert server.requests[0].body["model"] == "NAME"


def test_the_first_handler_has_at_most_fifteen_lines():
    lines = [line for line in BLOCKS[0].splitlines() if line and not line.startswith("#")]

    assert len(lines) <= 15


def test_the_table_of_events_is_the_catalogue():
    named = re.findall(r"^\| `([A-Z_]+)` \| (\w+)", README, re.MULTILINE)

    def kind(event):
        return "transform" if isinstance(event, events.TransformEvent) else "observe"

    by_name = {name: value for name, value in vars(events).items() if value in events.CATALOGUE}
    assert named == [
        (next(name for name, one in by_name.items() if one is event), kind(event))
        for event in events.CATALOGUE
    ]


def test_the_configuration_is_one(tmp_path, monkeypatch):
    # A package that is installed as pip would do it, and the adapter of the README.
    monkeypatch.chdir(ACME)
    monkeypatch.syspath_prepend(ACME)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    wheel = importlib.import_module("backend").build_wheel(tmp_path)
    ZipFile(tmp_path / wheel).extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    (block,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    tmp_path.joinpath("short.py").write_text(BLOCKS[1])
    tmp_path.joinpath("toolbus.toml").write_text(block)

    short, guard = load(tmp_path / "toolbus.toml")

    assert [type(short).__name__, type(guard).__name__] == ["ShortReads", "NoForcePush"]
    assert guard.branches == ("main",)


SHOWN = re.search(r"of\s+which\s+this\s+is\s+a\s+part:\n\n```text\n(.*?)```", README, re.DOTALL)[1]


def without_times(text: str) -> list[str]:
    plain = re.sub(r" +(all )?[\d.]+ [mµ]s$", "", text, flags=re.MULTILINE)
    return [line.rstrip() for line in plain.splitlines()]


async def test_the_explanation_is_what_the_command_prints(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def normalise(ctx):
        return ctx.value.merge_arguments({"path": ctx.value.arguments["path"].replace("//", "/")})

    def inside_only(ctx):
        return Deny("only inside the project") if ctx.value.arguments["path"] == "/etc" else None

    def audit(ctx):
        return None

    call = ToolCall(id="call-1", name="delete", arguments={"path": "//etc"})
    model = ScriptedModel([AssistantMessage(id="m-1", tool_calls=(call,)), "I may not."])
    path = tmp_path / "agent.db"
    async with SqliteStore(path) as store:
        options = {"store": store, "session_id": "3f9a", "keep_originals": True}
        ids = counting_ids("m")
        async with Agent(model, tools=[delete], ids=ids, **options) as agent:
            agent.on(events.TOOL_CALL_BEFORE, normalise)
            agent.guard(events.TOOL_CALL_BEFORE, inside_only)
            agent.guard(events.TOOL_CALL_BEFORE, audit)
            await agent.run("clean up")

    out = io.StringIO()
    explain(Output(out), path, call="call-1")

    (part,) = [one for one in out.getvalue().split("\n\n") if one.startswith("tool:call:before")]
    assert without_times(SHOWN) == without_times(part)


def delete(path: str) -> str:
    return f"deleted {path}"


CLIENTS = dict(re.findall(r"^\| ([\w ]+) \| .+ \| `(.+)` \|$", README, re.MULTILINE))


def read_entry(client: str) -> list[str]:
    """Return the words with which *client* starts its server, as its settings have them."""
    if client in {"Claude Code", "Codex"}:
        return shlex.split(CLIENTS[client])[5:]
    (entry,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
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


def test_the_table_of_components_is_what_we_ship():
    named = re.findall(r"^\| `([a-z-]+)` \| (?:`toolbus\[(\w+)\]`)? ?\|", README, re.MULTILINE)
    ours = metadata.distribution("toolbus")

    offered = [one.name for one in ours.entry_points if one.group == "toolbus.components"]
    assert sorted(name for name, _ in named) == sorted(offered)
    assert {extra for _, extra in named if extra} <= set(ours.metadata.get_all("Provides-Extra"))


def test_it_has_fewer_than_270_lines():
    assert len(README.splitlines()) < 270
