"""The benchmarks run, count what can be counted, and never judge by the clock."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import against, environment, report, targets, version_rows
from benchmarks.__main__ import FILES
from benchmarks.approvals.scenarios import SCENARIOS
from benchmarks.handlers import functions
from benchmarks.harness import LOOP, OURS, CannotError, Contender, Rig
from benchmarks.peers import PEERS, contenders

pytestmark = pytest.mark.full  # All of them run once.

ROOT = Path(__file__).parents[2]

# The tables that there must be, by the names that ours have.
TABLES = {
    "observe, sync": {"observe_sync"},
    "observe, async": {"observe_async"},
    "transform": {"transform", "transform_sync", "apply", "apply_sync"},
    "records": {"records", "records_memory"},
    "one tool call": {"tool_call"},
    "append to SQLite": {"append", "append_commits"},
    "growth": {"growth_handlers", "growth_messages", "growth_sqlite", "growth_memory"},
    "import": {"import", "installed"},
    "the tap": {"tap", "digest"},
    "streams": {"streaming"},
    "the proxy": {"proxy", "proxy_start", "proxy_memory"},
    "the relay": {"relay"},
    "approvals": {"approvals"},
}
BESIDE_US = {
    "observe_sync": {"blinker", "psygnal", "pluggy", "pyee", "django", "strands-agents"},
    "observe_async": {"blinker", "aiosignal", "pyee", "strands-agents", "bubus", "google-adk"},
    "transform": {"fastmcp", "langchain raw", "langchain as shipped"},
    "records": {"dataclasses", "attrs", "pydantic", "langchain"},
    "tool_call": {
        "strands-agents",
        "pydantic-ai-slim",
        "langgraph",
        "fastmcp",
        "google-adk",
        "openai-agents",
    },
}


@pytest.fixture(scope="module")
def once() -> dict:
    command = [sys.executable, "-m", "benchmarks", "--once", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "making" not in done.stderr, "it must install nothing"
    return json.loads(done.stdout)


def cells(result: dict, table: str) -> dict[tuple[str, str], float | None]:
    (found,) = [one for one in result["tables"] if one["name"] == table]
    return {(one["row"], one["contender"]): one["value"] for one in found["figures"]}


@pytest.mark.parametrize("names", TABLES.values(), ids=TABLES)
def test_a_table_of_the_issue_exists(names: set[str], once):
    assert names <= {table["name"] for table in once["tables"]}


def test_every_table_has_a_claim_and_figures(once):
    tables = once["tables"]
    assert all(table["claim"] and (table["figures"] or table["absent"]) for table in tables)


def test_a_run_without_a_clock_has_no_times(once):
    timed = {"append_commits", "installed", "approvals"}
    values = [
        figure["value"]
        for table in once["tables"]
        for figure in table["figures"]
        if table["name"] not in timed
    ]

    assert set(values) == {None}


def test_sixty_four_concurrent_appends_need_at_most_four_commits(once):
    assert cells(once, "append_commits")["64 sessions", OURS] <= 4


def test_each_scenario_of_approvals_holds_here(once):
    ours = {row: value for (row, name), value in cells(once, "approvals").items() if name == OURS}
    (notes,) = [one["notes"] for one in once["tables"] if one["name"] == "approvals"]

    assert ours == dict.fromkeys([one.claim for one in SCENARIOS], 1.0), notes


def test_the_json_says_versions_and_machine(once):
    assert {"toolbus", "msgspec", "blinker", "pluggy", "sqlite"} <= once["versions"].keys()
    assert {"python", "build", "machine", "processor"} == once["machine"].keys()


def test_what_the_test_environment_has_takes_part(once):
    names = {contender for _, contender in cells(once, "observe_sync")}

    assert names >= {LOOP, OURS, "blinker", "pluggy"}


def test_every_file_is_run():
    files = {path.stem.removeprefix("bench_") for path in ROOT.glob("benchmarks/bench_*.py")}

    assert sorted(FILES) == sorted(files)


@pytest.mark.parametrize("table", BESIDE_US)
def test_the_peers_of_the_issue_have_contenders(table: str):
    assert {name for name, _ in contenders(table)} >= BESIDE_US[table]


def test_a_target_speaks_of_a_table_that_exists(once):
    names = {table["name"] for table in once["tables"]}

    assert {target.table for target in targets.TARGETS} <= names


def test_a_target_against_the_loop_speaks_of_rows_that_exist(once):
    mine = [one for one in targets.TARGETS if one.under == (one.over[0], LOOP)]

    assert len(mine) == 9
    assert all({one.over, one.under} <= cells(once, one.table).keys() for one in mine)


@pytest.mark.parametrize(("value", "reached"), [(3.0, True), (3.1, False), (None, None)])
def test_a_target_is_judged(value, reached):
    figures = [{"row": "per idle handler", "contender": "tap", "value": value}]

    (verdict,) = targets.judge([{"name": "tap", "figures": figures}])

    assert verdict["reached"] is reached


def test_a_cell_is_the_median_of_the_processes():
    runs = [
        {"tables": [{"name": "t", "figures": [{"row": "r", "contender": "c", "value": value}]}]}
        for value in (9.0, 1.0, 2.0)
    ]

    (table,) = report.merge(runs)

    assert table["figures"] == [{"row": "r", "contender": "c", "value": 2.0}]


def test_a_table_says_where_a_peer_costs_less(capsys):
    values = {LOOP: 1.0, OURS: 4.0, "cheap": 2.0, "dear": 8.0}
    figures = [{"row": "1", "contender": name, "value": value} for name, value in values.items()]
    facts = {"unit": "ns", "ours": OURS, "baseline": LOOP, "lacks": {LOOP: "everything"}}

    report.print_table(
        {"name": "t", "claim": "It works.", "absent": {"gone": "why"}, "figures": figures, **facts}
    )

    said = capsys.readouterr().out
    assert "*2.00" in said
    assert said.count("*") == 2
    assert "not measured: gone: why" in said


def test_handlers_have_code_of_their_own():
    made = functions(3)

    assert len({id(one.__code__) for one in made}) == 3


def test_a_contender_that_calls_no_handler_is_found_out():
    rig = Rig(once=True)

    with pytest.raises(AssertionError, match="0 handlers were called, not 2"):
        rig.race("2 handlers", [(OURS, lambda: Contender(OURS, "pass", {}, "", 2))])

    rig.close()


def test_a_peer_that_is_not_there_is_listed():
    def build() -> Contender:
        raise CannotError("nothing to hash")

    rig = Rig(once=True)
    rig.race("hash", [("peer", build)])
    rig.close()

    assert rig.absent == {"peer": "CannotError: nothing to hash"}
    assert rig.figures == []


def test_a_race_times_every_contender():
    rig = Rig()
    builds = [(name, lambda name=name: Contender(name, "pass", {})) for name in ("one", "other")]

    rig.race("row", builds, rounds=2)
    rig.close()

    assert [figure.contender for figure in rig.figures] == ["one", "other"]
    assert all(figure.value > 0 for figure in rig.figures)


def test_a_peer_that_cannot_be_installed_is_listed_with_its_reason(monkeypatch, tmp_path):
    ran = []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        (tmp_path / "venv").mkdir(exist_ok=True)
        failed = "nonesuch" in command
        return subprocess.CompletedProcess(command, int(failed), "", "ERROR: no such thing")

    monkeypatch.setattr(environment, "PLACE", tmp_path / "venv")
    monkeypatch.setattr(environment, "run", run)

    first = environment.prepare(("blinker", "nonesuch"))
    before = len(ran)
    second = environment.prepare(("blinker", "nonesuch"))

    assert first.absent == second.absent == {"nonesuch": "ERROR: no such thing"}
    assert len(ran) == before, "what was made is taken again"


def test_each_peer_has_a_file_and_a_way_to_import_it():
    for peer in PEERS:
        assert (ROOT / "benchmarks/peers" / f"{peer.module}.py").is_file()
        assert peer.hooks.startswith("import ")


def test_a_version_is_compared_with_the_working_tree_row_by_row():
    command = [sys.executable, "-m", "benchmarks", "--against", "HEAD", "--once", "--json"]
    done = subprocess.run(
        [*command, "--rows", "tool call"], capture_output=True, text=True, check=False, cwd=ROOT
    )

    assert done.returncode == 0, done.stderr
    rows = {row["row"]: row for row in json.loads(done.stdout)["rows"]}
    assert "tool call, over bare await" in rows
    assert all(isinstance(row["then"], float) and row["ratio"] for row in rows.values())
    assert "row 2 of" in done.stderr


def test_a_row_beside_another_is_compared_with_it():
    assert against.chosen(["judged"]) == ["bare await", "byte forwarder", "judged proxy call"]


def test_each_row_of_a_comparison_is_timed_by_this_version():
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.version_rows"],
        input="".join(json.dumps(row) + "\n" for row in version_rows.ROWS),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    answers = [json.loads(line) for line in process.stdout.splitlines()]
    assert len(answers) == len(version_rows.ROWS)
    assert all(isinstance(answer, float) for answer in answers), answers


def test_a_row_that_a_version_lacks_is_not_there(capsys):
    figures = {"bare await": [100.0, 100.0], "tool call": ["ImportError: no ToolRunner", 300.0]}

    against.print_compared("v0", against.judged(figures))

    said = capsys.readouterr().out
    assert "not there" in said
    assert "not there: tool call, over bare await, v0: ImportError: no ToolRunner" in said


def test_a_bound_of_a_comparison_is_judged():
    figures = {
        "bare await": [100.0, 100.0],
        "tool call": [1100.0, 1000.0],
        "byte forwarder": [100.0, 100.0],
        "judged proxy call": [300.0, 400.0],
    }

    lines = {line.row: line for line in against.judged(figures)}

    assert lines["tool call, over bare await"].ratio == 0.9
    assert lines["tool call, over bare await"].reached is True
    assert lines["judged proxy call, times byte forwarder"].now == 4.0
    assert lines["judged proxy call, times byte forwarder"].reached is False


@pytest.mark.parametrize(
    ("treeish", "told"),
    [
        ("nonesuch", "git knows no tree 'nonesuch'; give a commit, a branch or a tag"),
        ("HEAD", "the tree 'HEAD' has no src/toolbus/__init__.py to install"),
    ],
)
def test_a_tree_without_toolbus_is_told(treeish: str, told: str, tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "nothing"], check=True)

    with pytest.raises(SystemExit, match=re.escape(told)):
        against.unpack(treeish, tmp_path / "tree", tmp_path)


def test_a_folder_that_is_no_repository_is_told(tmp_path):
    with pytest.raises(SystemExit, match="needs a git repository"):
        against.unpack("HEAD", tmp_path / "tree", tmp_path)


def test_an_unknown_row_of_a_comparison_is_told():
    with pytest.raises(SystemExit, match=r"no row holds .*agent\.append"):
        against.chosen(["nonesuch"])
