"""The scenarios of `specs/coming_from.md`."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.servers.fake_model import FakeModel, ModelCall
from tests.their_programs import prepare

from code_blocks import read_code_blocks
from concepts import count_concepts, find_concepts
from framework_environments import QUIET, Place, interpreter
from host_programs import ClaudeCode
from host_runs import HostFolders, run_host
from host_visits import PLACEHOLDER, POLICY, SECRETS, HostVisit
from peer_programs import (
    AGENTS,
    GUIDE,
    HIDDEN,
    assert_proxy_refuses_and_hides,
    assert_refused_and_hidden,
    deleting_model,
    read_kept_program,
    read_programs,
)

RULES, PROXY = "from-permission-rules", "from-fastmcp"
SDK = "from-claude-agent-sdk"

SERVER = f"""
from mcp.server import MCPServer

files = MCPServer("files")


@files.tool()
def delete(path: str) -> str:
    return f"deleted {{path}} on {HIDDEN}"


files.run()
"""


def shell(command: str) -> ModelCall:
    """Return a call of Claude Code's shell."""
    return ModelCall("Bash", {"command": command})


def run_sdk(visit: HostVisit, program: str, turns: list) -> FakeModel:
    """Run *program* with the newest SDK on a model with *turns*; return the model."""
    python = prepare(SDK, ("claude-agent-sdk",))
    (visit.project / "program.py").write_text(program.replace("NAME", "claude-sonnet-4-5"))
    with FakeModel(turns) as model:
        needed = visit.host.prepare(visit.folders, model.url)
        done = subprocess.run(
            [python, "program.py"],
            cwd=visit.project,
            env={"HOME": str(visit.home), "PATH": os.defpath, "LANG": "C.UTF-8", **needed},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, model.problems) == (0, []), done.stderr[-2000:]
    return model


def read_tables(page: str) -> list[list[int]]:
    """Return the rows of the table of concepts of *page*: theirs, ours."""
    text = GUIDE.joinpath(f"{page}.md").read_text("utf-8")
    table = re.search(r"^\| concepts .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    return [[int(cell) for cell in re.findall(r"\d+", row)] for row in table.splitlines()]


def count_rules() -> list[list[int]]:
    """Return the settings, verdicts and patterns of permission rules, and of a policy."""
    text = GUIDE.joinpath(f"{RULES}.md").read_text("utf-8")
    blocks = read_code_blocks(RULES, text)
    theirs = json.loads(next(block.text for block in blocks if block.kind == "json"))
    ours = tomllib.loads(next(block.text for block in blocks if block.file == "policy.toml"))
    lists = theirs["permissions"]
    patterns = {part for rules in lists.values() for part in re.findall(r"\w+\(|:\*", str(rules))}
    settings = {key for rule in ours["rule"] for key in rule} | set(ours)
    verdicts = {rule["verdict"] for rule in ours["rule"]}
    return [[len(theirs), len(lists), len(patterns)], [len(settings), len(verdicts), 0]]


@pytest.mark.parametrize("page", AGENTS)
def test_the_program_denies_and_redacts(page, monkeypatch, capsys):
    program = read_programs(page)[-1]

    with deleting_model("delete") as model:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k-" + "1" * 9)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k-" + "1" * 9)
        exec(compile(program, page, "exec"), {"__name__": "__main__"})

    assert_refused_and_hidden(model, capsys.readouterr().out)


@pytest.mark.full
async def test_the_handlers_work_in_a_proxy(tmp_path, monkeypatch):
    text = GUIDE.joinpath(f"{PROXY}.md").read_text("utf-8")
    (command,) = [block.text for block in read_code_blocks(PROXY, text) if block.kind == "sh"]
    program, *words, python, server = command.split()
    tmp_path.joinpath("guards.py").write_text(read_programs(PROXY)[-1])
    tmp_path.joinpath(server).write_text(SERVER)
    monkeypatch.chdir(tmp_path)

    await assert_proxy_refuses_and_hides(
        sys.executable, "-m", program, *words, sys.executable, server
    )

    assert (program, python) == ("toolbus", "python")


@pytest.mark.full
def test_permission_rules_judge_as_the_page_says(tmp_path):
    text = GUIDE.joinpath(f"{RULES}.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (`.+`) \| (.+) \| (.+) \|$", text.partition("| command |")[2], re.MULTILINE
    )
    table = [(command, *row[1:]) for row in rows for command in re.findall("`(.+?)`", row[0])]
    blocks = {block.file or block.kind: block for block in read_code_blocks(RULES, text)}
    calls = {
        row.get("command"): row["verdict"]
        for row in tomllib.loads(blocks["calls.toml"].text)["call"]
    }
    host, folders = ClaudeCode(), HostFolders(tmp_path)
    folders.write("project/.claude/settings.json", blocks["json"].text)
    folders.write("project/.env", "KEY=1")

    run = run_host(host, folders, [[host.shell(command)] for command, *_ in table])

    results = [run.model.result(turn) for turn in range(len(table))]
    assert len(table) >= 7
    assert [theirs == "denied" for _, theirs, _ in table] == [
        "has been denied" in result for result in results
    ]
    assert ["prints the file" in theirs for _, theirs, _ in table] == [
        result.startswith("KEY=1") and "cat" in command
        for result, (command, *_) in zip(results, table, strict=True)
    ]
    for command, _, ours in table:
        assert calls[command] == {"denied": "deny", "needs": "ask"}[re.match(r"\w+", ours)[0]]


@pytest.mark.full
async def test_the_handlers_work_in_the_server(tmp_path, monkeypatch):
    folder = Path(os.environ.get("TOOLBUS_ENVIRONMENTS", tmp_path), "fastmcp-kept")
    python = interpreter(Place("fastmcp"), folder)
    tmp_path.joinpath("guards.py").write_text(read_programs(PROXY)[-1])
    tmp_path.joinpath("kept.py").write_text(read_kept_program(PROXY))
    monkeypatch.chdir(tmp_path)

    path = f"PYTHONPATH={QUIET['PYTHONPATH']}"
    await assert_proxy_refuses_and_hides("env", path, python, "kept.py")


@pytest.mark.full
def test_program_of_the_sdk_obeys_the_hook(tmp_path):
    with HostVisit("claude-code", tmp_path, POLICY, SECRETS) as visit:
        visit.install()
        secret = visit.plant("note.txt")
        commands = "touch pushed; git push", "cat note.txt", "cat note.txt; exit 3"

        run = run_sdk(visit, read_kept_program(SDK), [[shell(each)] for each in commands])

        assert "nothing leaves this house" in run.result(0)
        assert not (visit.project / "pushed").exists()
        assert PLACEHOLDER in run.result(1)
        assert secret in run.result(2)


@pytest.mark.full
def test_question_reaches_the_function_of_the_sdk(tmp_path):
    asks = """
import os
from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

async def can_use_tool(name, arguments, context):
    text = arguments["command"]
    with open("asked", "a") as file:
        file.write(text + "\\n")
    return PermissionResultAllow() if "v1" in text else PermissionResultDeny(message="ann says no")
"""
    options = "can_use_tool=can_use_tool, settings=hooks"
    program = asks + read_kept_program(SDK).replace("settings=hooks", options)
    with HostVisit("claude-code", tmp_path, POLICY) as visit:
        visit.install()
        commands = "touch tagged-1; git tag v1", "touch tagged-2; git tag v2"
        task = {"description": "tag", "prompt": "tag it", "run_in_background": False}
        # The sub-agent's first request is the second for a first turn.
        firsts = iter([[ModelCall("Agent", task)], [shell(commands[1])]])

        run_sdk(visit, program, [lambda _: next(firsts), [shell(commands[0])]])

        asked = (visit.project / "asked").read_text().splitlines()
        assert sorted(asked) == [commands[0], commands[0], commands[1]]
        assert (visit.project / "tagged-1").exists()
        assert not (visit.project / "tagged-2").exists()


@pytest.mark.full
def test_options_of_the_sdk_switch_hooks_off(tmp_path):
    text = GUIDE.joinpath(f"{SDK}.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+) \| (runs|ignored) \| (runs|ignored) \|$", text, re.MULTILINE)
    found = []
    for words in ((), ("--project",)):
        with HostVisit("claude-code", tmp_path / f"home{len(words)}", POLICY) as visit:
            visit.install(*words)
            for options, *_ in rows:
                given = re.match(r"`(.+?)`", options)
                other = given[1] if given else "cwd=None"
                program = read_kept_program(SDK).replace("settings=hooks", other)
                run = run_sdk(visit, program, [[shell("git push")]])
                is_denied = "nothing leaves this house" in run.result(0)
                found.append("runs" if is_denied else "ignored")

    assert len(rows) == 4
    assert found == [row[1] for row in rows] + [row[2] for row in rows]


def test_the_tables_have_the_counted_concepts():
    for page in AGENTS:
        counts = [list(count_concepts(program).values()) for program in read_programs(page)]
        assert read_tables(page) == [[*row, sum(row)] for row in counts], page
    _, theirs, ours = read_programs(PROXY)
    # Ours needs a command besides, which is counted by its words.
    for row, program, words in zip(read_tables(PROXY), (theirs, ours), (0, 2), strict=True):
        counts = list(count_concepts(program).values())
        assert row == [*counts, words, sum(counts) + words]
    assert read_tables(RULES) == [[*row, sum(row)] for row in count_rules()]


def test_toolbus_needs_no_more_concepts():
    for page in (*AGENTS, PROXY):
        theirs, ours = read_tables(page)
        assert ours[-1] <= theirs[-1], page
    # What a policy keeps in the project, permission rules cannot say.
    theirs, ours = read_tables(RULES)
    assert ours[-1] == theirs[-1] + 1


def test_a_repeated_name_counts_once():
    program = """
import json
from lib.agents import Base, make, wrap

def own(text, *, call):
    return json.loads(text.strip())["key"]

class Mine(Base):
    def on_call(self, value):
        self.kept = value
        return {"status": make(value.call, limit=1), "path": self.kept}

@wrap.around("x")
def other(ctx):
    return ctx.status, own("{}"), sorted(ctx.names)
"""

    concepts = find_concepts(program)

    assert concepts == {
        "imports": {"lib.agents", "Base", "make", "wrap"},
        "classes": {"on_call"},
        "decorators": {"around"},
        "settings": {"call", "key", "status", "limit"},
        "attributes": {"names"},
    }
