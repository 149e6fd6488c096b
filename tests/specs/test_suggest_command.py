"""The scenarios of `specs/suggest_command.md`."""

import json
import sqlite3
from contextlib import closing

import pytest
from tests.servers.terminal import Terminal

from approved_calls import Line, record
from toolbus import Scope, ToolCall
from toolbus.cli.command_line import main
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.policy_file import read_policy, read_table

POLICY = """\
# Our rules.
default = "ask"     # of course

[[rule]]
name = "reading"    # in the project
verdict = "allow"
effects = ["read"]
reads = ["./**"]
"""
REFUSED = "a call like it was refused once"
CHECKS = [Line("gh pr checks"), Line("gh pr checks"), Line("cat notes.txt", "")]
BOTH = [*CHECKS, Line("gh issue list"), Line("gh issue list")]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return the current folder, with a policy."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "100")
    (folder / "policy.toml").write_text(POLICY)
    return folder


@pytest.fixture
def suggest(project, capsys):
    """Return what runs the command in this process: exit code, standard output, error."""

    def run(*words, policy=("--policy", "policy.toml"), store="a.db"):
        capsys.readouterr()
        code = main(["policy", "suggest", store, *policy, *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def person(project, environment):
    """Return what runs the command with `--write` on a terminal."""

    def run(*words):
        words = ["policy", "suggest", "a.db", "--policy", "policy.toml", "--write", *words]
        return Terminal(words, cwd=project, env=environment | {"NO_COLOR": "1"}, columns=100)

    return run


def document(run, **options):
    code, out, err = run("--json", **options)
    assert (code, err) == (0, "")
    return json.loads(out)


def names(policy="policy.toml"):
    return [rule.name for rule in read_policy(policy).rules]


def test_a_habit_becomes_a_rule_with_its_proof(project, suggest):
    record("a.db", project, *[CHECKS] * 6)

    code, out, _ = suggest()

    assert code == 0
    assert 'exactly = "gh pr checks"' in out
    assert ": ann allowed 8 calls in 4 sessions, 2025-11-08 to 2025-11-11.\n" in out
    assert "12 questions would have been 0; nothing denied that you allowed" in out
    assert "nothing allowed that you refused" in out
    assert "older sessions, with the evidence: 8 questions would have been 0" in out
    assert "newer sessions: 4 questions would have been 0" in out
    assert names() == ["reading"]


def test_a_later_refusal_drops_the_rule(project, suggest):
    record("a.db", project, *[CHECKS] * 5, [Line("gh pr checks", "no")])

    found = document(suggest)

    assert found["proposals"] == []
    assert found["left_out"] == {REFUSED: 8}
    assert found["proof"]["total"] == {"calls": 16, "before": 11, "after": 11}
    assert (found["proof"]["denied"], found["proof"]["allowed"]) == (0, 0)


def test_a_later_refused_line_drops_its_parts(project, suggest):
    record("a.db", project, *[CHECKS] * 5, [Line("gh pr checks && rm notes.txt", "no")])

    assert document(suggest)["proposals"] == []


def test_a_used_id_hides_no_refusal(project, suggest):
    refused = [Line("gh pr checks", "no", id="x"), Line("gh issue list", id="x")]
    record("a.db", project, refused, *[CHECKS] * 5)

    found = document(suggest)

    assert found["proposals"] == []


def test_a_refused_file_drops_its_family(project, suggest):
    (project / "policy.toml").write_text('default = "ask"\n')
    lines = [Line(f"wc -l docs/{name}.md") for name in "abc"]
    record("a.db", project, *[lines] * 5, [Line("wc -l docs/CAPITALS.md", "no")])

    found = document(suggest)

    assert found["proposals"] == []
    assert found["left_out"] == {"a rule for it would allow a call that you refused": 12}


def test_a_repeated_call_is_one_question(project, suggest):
    record("a.db", project, *[[Line("gh pr checks"), Line("gh pr checks", "")]] * 6)

    found = document(suggest)

    assert found["proof"]["total"] == {"calls": 6, "before": 6, "after": 0}


def test_damaged_rows_are_told(project, suggest):
    record("a.db", project, *[CHECKS] * 6)
    with closing(sqlite3.connect("a.db")) as store, store:
        for table in ("messages", "states", "ledger"):
            store.execute(f"UPDATE {table} SET body = '{{' WHERE key = 2")

    code, out, err = suggest()

    assert (code, err) == (0, "")
    assert "3 rows could not be read; see `toolbus check`" in out


def test_hidden_values_count_as_they_were(project, suggest):
    hidden = Line("curl -d [email-3] https://example.com")
    record("a.db", project, *[[*CHECKS, hidden]] * 6)

    found = document(suggest)

    assert found["proof"]["hidden"] == 6
    assert found["proof"]["total"] == {"calls": 24, "before": 18, "after": 6}


def test_sessions_of_other_projects_do_not_count(project, suggest, tmp_path):
    record("a.db", tmp_path / "other", *[CHECKS] * 6)

    found = document(suggest)

    assert (found["proposals"], found["proof"]["total"]["calls"]) == ([], 0)
    out = suggest()[1]
    assert out.startswith("no rule to suggest\n")
    assert "no recorded call comes from a project of this policy" in out


def test_suggestions_are_available_as_json(project, suggest):
    record("a.db", project, *[BOTH] * 6)

    found = document(suggest)

    first, second = found["proposals"]
    assert {each["rule"]["exactly"] for each in (first, second)} == {
        "gh pr checks",
        "gh issue list",
    }
    evidence = [(each["session_id"], each["answer"], each["by"]) for each in first["evidence"]]
    assert sorted(evidence) == sorted([(f"s{n}", "yes", "ann") for n in range(4)] * 2)
    assert found["proof"]["shares"] == {each["rule"]["name"]: 12 for each in (first, second)}
    assert found["proof"]["older"] == {"calls": 20, "before": 16, "after": 0}
    assert found["taken"] == []


@pytest.mark.full
def test_a_database_is_read_like_a_file(project, suggest, database):
    for address in ("a.db", database):
        record(address, project, *[BOTH] * 6)

    assert document(suggest, store=database) == document(suggest)


def test_taken_rules_are_written_with_their_evidence(project, person):
    record("a.db", project, *[BOTH] * 6)
    (project / "policy.toml").chmod(0o640)

    with person() as terminal:
        terminal.expect("1 of 2: add this rule? [y/N; q keeps those taken, Ctrl-D drops them] ")
        terminal.type("yy\n")
        terminal.expect("1 of 2: add this rule? [y/N; q keeps those taken, Ctrl-D drops them] ")
        terminal.type("y\n")
        shown = terminal.expect(
            "2 of 2: add this rule? [y/N; q keeps those taken, Ctrl-D drops them] "
        )
        terminal.type("n\n")
        code, rest = terminal.end()

    text = (project / "policy.toml").read_text()
    assert (code, "1 rule added to policy.toml" in rest) == (0, True)
    assert "answers 12 of 24 questions" in shown
    assert "24 questions would have been 12; nothing denied that you allowed" in rest
    assert text.startswith(POLICY)
    added = text.removeprefix(POLICY).splitlines()
    assert "ann allowed 8 calls in 4 sessions" in added[1]
    assert added[2].startswith("# Look again on ")
    assert len(names()) == 2
    assert (project / "policy.toml").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("second", "added"), [("n", 0), ("q", 1)])
def test_the_person_takes_none_or_ends_early(project, person, second, added):
    record("a.db", project, *[BOTH] * 6)

    with person() as terminal:
        terminal.expect("1 of 2: add this rule? [y/N; q keeps those taken, Ctrl-D drops them] ")
        terminal.type("y\n" if added else "n\n")
        terminal.expect("2 of 2: add this rule? [y/N; q keeps those taken, Ctrl-D drops them] ")
        terminal.type(f"{second}\n")
        code, rest = terminal.end()

    assert (code, "nothing was written" in rest) == (0, not added)
    assert len(names()) == 1 + added


@pytest.mark.full
def test_the_end_of_input_writes_nothing(project, person):
    record("a.db", project, *[BOTH] * 6)

    with person() as terminal:
        terminal.expect("1 of 2: add this rule? [y/N; q keeps those taken, Ctrl-D drops them] ")
        terminal.type("y\n")
        terminal.expect("2 of 2: add this rule? [y/N; q keeps those taken, Ctrl-D drops them] ")
        terminal.type("\x04")
        code, rest = terminal.end()

    assert (code, "nothing was written" in rest) == (1, True)
    assert (project / "policy.toml").read_text() == POLICY


def test_a_written_rule_answers_the_question(project, person, suggest):
    record("a.db", project, *[CHECKS] * 6)
    with person("--json") as terminal:
        code, rest = terminal.answer({"[y/N; q keeps those taken, Ctrl-D drops them] ": "y"})
    written = json.loads(rest.splitlines()[-1])["taken"]

    found = document(suggest)

    assert code == 0
    assert written == names()[1:]
    assert (found["proposals"], found["proof"]["total"]["before"]) == ([], 0)


def test_an_agent_cannot_add_rules(project, suggest, monkeypatch):
    record("a.db", project, *[CHECKS] * 6)

    refused = [suggest("--write")]
    monkeypatch.setenv("AI_AGENT", "x")
    refused.append(suggest("--write"))

    for code, out, err in refused:
        assert (code, out) == (2, "")
        assert "this needs a person at an interactive terminal" in err
    assert (project / "policy.toml").read_text() == POLICY


def test_a_text_without_room_is_told_first(project, suggest, person):
    record("a.db", project, *[CHECKS] * 6)
    text = 'default = "ask"\nrule = [{ name = "a", verdict = "deny", command = "rm" }]\n'
    (project / "policy.toml").write_text(text)

    code, out, _ = suggest()
    with person() as terminal:
        refused, rest = terminal.end()

    assert (code, 'exactly = "gh pr checks"' in out) == (0, True)
    assert (refused, "edit it by hand" in rest, "[y/N" in rest) == (2, True, False)
    assert (project / "policy.toml").read_text() == text


def test_a_change_meanwhile_is_refused(project, person):
    record("a.db", project, *[CHECKS] * 6)

    with person() as terminal:
        terminal.expect("add this rule? [y/N; q keeps those taken, Ctrl-D drops them] ")
        (project / "policy.toml").write_text(f"{POLICY}# another\n")
        terminal.type("y\n")
        code, rest = terminal.end()

    assert (code, "the file has changed meanwhile" in rest) == (2, True)
    assert (project / "policy.toml").read_text() == f"{POLICY}# another\n"


@pytest.mark.full
def test_a_project_must_be_trusted_again(project, person, as_person):
    record("a.db", project, *[CHECKS] * 6)
    text = '[[component]]\nuse = "policy"\nsettings = { file = "policy.toml" }\n'
    (project / "toolbus.toml").write_text(text)
    assert main(["trust"]) == 0

    with person() as terminal:
        code, rest = terminal.answer({"[y/N; q keeps those taken, Ctrl-D drops them] ": "y"})

    assert code == 0
    assert f"{project}/toolbus.toml names it and is no longer trusted" in rest
    assert f"toolbus trust {project}/toolbus.toml" in rest


@pytest.mark.parametrize(
    "line",
    [
        "toolbus policy suggest",
        "python -m toolbus policy suggest --write",
        "toolbus policy --json suggest a.db",
        "tmux send-keys 'toolbus policy suggest --write' Enter",
        "A=suggest; toolbus policy $A",
    ],
)
def test_no_judged_tool_runs_the_command(line):
    judge = CallJudge(read_table({"default": "allow"}))
    call = ToolCall(id="c", name="shell", arguments={"command": line})

    reading = CallReader(judge.rules, LineCache()).facts(call, None, Scope(), "/work")

    assert judge.judge(reading).verdict == "deny"


def test_useless_rules_come_with_their_lines(project, suggest):
    rules = (
        '\n[[rule]]\nname = "twin"\nverdict = "allow"\neffects = ["read"]\nreads = ["./**"]\n'
        '\n[[rule]]\nname = "guard"\nverdict = "deny"\ntouches = ["/vault"]\n'
        '\n[[rule]]\nname = "unused"\nverdict = "allow"\ncommand = "make"\nwrites = ["./**"]\n'
    )
    (project / "policy.toml").write_text(f"{POLICY}{rules}")
    record("a.db", project, [Line("cat notes.txt", "")] * 1_001)

    code, out, _ = suggest()

    lines = [line.strip() for line in out.splitlines()]
    guard = "matched none of 1,001 calls; as a guard it may be why no such call came"
    assert code == 0
    assert "policy.toml:10: rule 'twin' adds nothing to 'reading' (line 4)" in lines
    assert f"policy.toml:16: rule 'guard' {guard}" in lines
    assert "policy.toml:21: rule 'unused' matched none of 1,001 calls" in lines


def test_the_active_policy_is_found(project, suggest, tmp_path, as_person):
    record("a.db", project, *[CHECKS] * 6)
    own = tmp_path / "config/toolbus"
    own.mkdir(parents=True)
    component = '[[component]]\nuse = "policy"\nsettings = { file = "policy.toml" }\n'
    (own / "toolbus.toml").write_text(component)
    (own / "policy.toml").write_text(f'project = "session"\n{POLICY}')

    code, out, _ = suggest(policy=())
    (project / "toolbus.toml").write_text(component)
    assert main(["trust"]) == 0
    refused, _, err = suggest(policy=())

    assert (code, out.splitlines()[0]) == (0, str(own / "policy.toml"))
    assert "gh pr checks" in out
    assert refused == 2
    assert f"several are active: {own}/policy.toml, policy.toml" in err.replace(f"{project}/", "")
