"""The scenarios of `specs/coming_from.md`."""

import json
import re
import sys
import tomllib

import pytest

from code_blocks import read_code_blocks
from concepts import count_concepts, find_concepts
from host_programs import ClaudeCode
from host_runs import HostFolders, run_host
from peer_programs import (
    AGENTS,
    GUIDE,
    HIDDEN,
    assert_proxy_refuses_and_hides,
    assert_refused_and_hidden,
    deleting_model,
    read_programs,
)

RULES, PROXY = "from-permission-rules", "from-fastmcp"

SERVER = f"""
from mcp.server import MCPServer

files = MCPServer("files")


@files.tool()
def delete(path: str) -> str:
    return f"deleted {{path}} on {HIDDEN}"


files.run()
"""


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
