"""The scenarios of `specs/policy_command.md`."""

import json
import sys
from pathlib import Path

import pytest

from toolbus import Scope, ToolCall
from toolbus.cli.command_line import main
from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.rules.judge import CallJudge
from toolbus.policy.rules.policy_file import read_policy, read_table
from toolbus.policy.rules.verdict_texts import question_text, refusal_text
from toolbus.policy.shared_facts import StatedFacts

DATA = Path(__file__).parents[1] / "data" / "policy"
SERVERS = Path(__file__).parents[1] / "servers"
MEMORY = LineCache()


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Return what runs a command in a folder of its own: exit code, standard output, error."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = main(["policy", *map(str, words)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def written(text, name="policy.toml"):
    path = Path(name)
    path.write_text(text, "utf-8")
    return path


def judged(judge, name, arguments):
    """Return the verdict on a call, and what is said of it."""
    reader = CallReader(judge.rules, MEMORY)
    call = ToolCall(id="c", name=name, arguments=arguments)
    judgement = judge.judge(reader.facts(call, None, Scope(), origins=StatedFacts()))
    texts = {"deny": refusal_text, "ask": question_text}
    says = texts.get(judgement.verdict, lambda _: "")
    return judgement.verdict, says(judgement)


def rows(name):
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


@pytest.fixture
def project(tmp_path, run):
    """Return a judge by the policy to start with, in a project."""
    run("init")
    for name in ("src", "vendor"):
        (tmp_path / name).mkdir()
    for name in (".env", "README.md", "src/main.py", "vendor/lib.tar.gz"):
        (tmp_path / name).write_text("text\n")
    return CallJudge(read_policy(tmp_path / "policy.toml"))


SOUND = """\
folder = "."
[[rule]]
name = "reading"
verdict = "allow"
effects = ["read"]
reads = ["/**"]
[[rule]]
name = "secrets"
verdict = "deny"
reads = ["**/.env"]
reason = "not for a model"
[[rule]]
name = "no force"
verdict = "deny"
command = "git push --force"
"""


# --- a policy can be checked ---------------------------------------------------------------------


def test_a_valid_file_has_no_problems(run):
    written(SOUND)

    assert run("check", "policy.toml") == (0, "✓ 3 rules, no problems\n", "")


def test_an_error_names_its_line(run):
    written(SOUND.replace("effects", "efects"))

    code, _, error = run("check", "policy.toml")
    assert code == 2
    told = "error: policy.toml:5: rule 'reading': unknown key 'efects'; did you mean 'effects'?"
    assert error.strip() == told
    assert run("check", "absent.toml")[0] == 2


BROKEN = """\
defalt = "ask"
[tools.x]
efects = ["read"]
reads = 3
[[call]]
name = "c"
comand = "x"
[[rule]]
name = "a"
verdict = "alow"
efects = ["read"]
[[rule]]
name = "b"
verdict = "allow"
hots = "x"
command = 3
[[rule]]
verdict = "deny"
[[rule]]
name = "d"
verdict = "deny"
tools = "pay"
only_after = ["c", "e"]
"""


def test_all_mistakes_of_a_file_are_listed(run):
    written(BROKEN)

    code, out, error = run("check", "policy.toml")
    assert (code, out) == (2, "")
    lines = [line.removeprefix("error: policy.toml:") for line in error.splitlines()]
    for line, told in zip(
        lines,
        (
            "1: unknown key 'defalt'; did you mean",
            "3: tool 'x': unknown key 'efects'; did you mean",
            "4: tool 'x': expected `array",
            "7: call 'c': unknown key 'comand'",
            "10: rule 'a': unknown verdict 'alow'",
            "11: rule 'a': unknown key 'efects'",
            "15: rule 'b': unknown key 'hots'; did you mean 'hosts'?",
            "16: rule 'b': key 'command': expected a text",
            "17: rule 3: it has no `name`",
            "23: rule 'd': key 'only_after': there is no [[call]] 'e'",
        ),
        strict=True,
    ):
        assert line.startswith(told)
    code, out, _ = run("check", "policy.toml", "--json")
    assert code == 2
    assert [line for line, *_ in json.loads(out)["remarks"]] == [
        int(line.partition(":")[0]) for line in lines
    ]


def rule(name, verdict, **conditions):
    lines = [f"{key} = {json.dumps(value)}" for key, value in conditions.items()]
    return "\n".join(["[[rule]]", f'name = "{name}"', f'verdict = "{verdict}"', *lines, ""])


def test_rules_that_never_decide_are_reported(run):
    written(
        rule("a", "deny", tools=["rm_*", "drop"])
        + rule("opposite", "allow", tools=["rm_*", "drop"])
        + rule("covered", "ask", tools="drop")
        + rule("again", "deny", tools=["drop", "rm_*"])
        + rule("overlaps", "ask", tools=["drop", "other"])
    )

    code, out, _ = run("check", "policy.toml")
    assert code == 1
    opposite, covered, again = [line.removeprefix("policy.toml:") for line in out.splitlines()]
    start = "5: error: rule 'opposite' never decides: 'a' (line 1)"
    assert opposite == f"{start} says the opposite, and deny beats allow"
    start = "9: warning: rule 'covered' never decides: 'a' (line 1)"
    assert covered == f"{start} matches everything it matches, and deny beats ask"
    assert again == "13: warning: rule 'again' adds nothing to 'a' (line 1)"


def test_a_limited_rule_hides_no_other(run):
    limited = rule("limited", "deny", tools="pay", only_after="paid", repeats=3)
    call = '[[call]]\nname = "paid"\ntools = "pay"\n'
    written(
        call
        + limited
        + rule("large", "ask", tools="pay", arguments={}).replace("{}", "{ amount = { min = 9 } }")
        + rule("allowed", "allow", tools="pay", repeats=3)
        + rule("loops", "deny", repeats=2)
    )
    sound = run("check", "policy.toml")
    written(call + limited + limited.replace("limited", "again"))
    twice = run("check", "policy.toml")

    assert sound == (0, "✓ 4 rules, no problems\n", "")
    assert twice[0] == 1
    assert "rule 'again' adds nothing to 'limited'" in twice[1]


def test_rules_that_miss_their_purpose_are_reported(run):
    written(
        """\
[[rule]]
name = "none"
verdict = "deny"
[[rule]]
name = "writing"
verdict = "audit"
effects = ["write"]
[[rule]]
name = "only writing"
verdict = "allow"
effects = ["write"]
[[rule]]
name = "typo"
verdict = "audit"
command = "gti push"
"""
    )

    code, out, _ = run("check", "policy.toml", "--json")
    remarks = [(line, text) for line, _, text in json.loads(out)["remarks"]]
    assert code == 1
    assert [line for line, _ in remarks] == [1, 8, 11, 15]
    assert remarks[0][1] == "rule 'none' has no condition, so it denies every call"
    assert "'none' (line 1) matches everything" in remarks[1][1]
    assert remarks[2][1].endswith("add 'read' to `effects`")
    assert remarks[3][1].startswith("command 'gti push' matches only this spelling because ")


AGENT = '''\
from toolbus import AgentComponent, tool


class Files(AgentComponent):
    @tool
    def read_file(self, path: str, lines: int = 1) -> str:
        """Read it."""
        return path
'''


OPEN = """\
[tools.ssh]
command = "line"
[tools.fetch]
effects = ["network"]
[[rule]]
name = "all"
verdict = "allow"
effects = ["read", "write", "network"]
[[rule]]
name = "cat"
verdict = "allow"
command = ["cat", "git log", "npm test"]
[[rule]]
name = "mail"
verdict = "deny"
tools = ["send_mail", "fetch", "bash", "ssh", "*"]
command = "git tag"
[[rule]]
name = "main"
verdict = "deny"
command = ["git push main", "git push * main", "git push origin", "git push"]
[[rule]]
name = "writes"
verdict = "allow"
effects = ["read", "write"]
hosts = "x.org"
tools = "t"
"""
NAMED = """\
[[rule]]
name = "inside"
verdict = "allow"
effects = ["read", "write", "network"]
reads = ["./**"]
writes = ["./**"]
hosts = ["x.org"]
[[rule]]
name = "value"
verdict = "allow"
tools = "read"
effects = ["read"]
arguments = { path = { glob = "docs/*" } }
[[rule]]
name = "hosts"
verdict = "allow"
effects = ["read", "network"]
hosts = ["x.org"]
[[rule]]
name = "cat"
verdict = "allow"
command = "cat"
reads = ["./**"]
"""


def test_rules_that_cover_too_much_are_reported(run):
    written(OPEN)
    code, out, _ = run("check", "policy.toml")
    lines = [line.removeprefix("policy.toml:") for line in out.splitlines()]
    written(NAMED)
    named = run("check", "policy.toml")

    assert code == 1
    for line, told in zip(
        lines,
        (
            "5: warning: rule 'all' reads any file; list them in `reads`, or use [\"/**\"]",
            "5: warning: rule 'all' writes any file; list them in `writes`",
            "5: warning: rule 'all' reaches any host; list them in `hosts`",
            "12: warning: rule 'cat': 'cat' reads any file; list them in `reads`",
            "16: warning: rule 'mail' never applies: 'send_mail' is not a known shell; if it is",
            "16: warning: rule 'mail' never applies: 'fetch' is not a known shell; if it is",
            "21: warning: rule 'main': 'git push main' misses `HEAD:main`, `+main` and a bare push",
            "21: warning: rule 'main': 'git push * main' misses `HEAD:main`",
            "22: warning: rule 'writes' has the effect 'write' without `writes`, so it allows no",
            "22: warning: rule 'writes' adds nothing to 'all'",
        ),
        strict=True,
    ):
        assert line.startswith(told)
    assert named == (0, "✓ 4 rules, no problems\n", "")


def test_rules_are_compared_with_tools(run):
    written(AGENT, "agent.py")
    written(
        """\
[tools.read_file]
effects = ["read"]
reads = ["paht"]
[tools.red_file]
effects = ["read"]
[[rule]]
name = "right"
verdict = "deny"
tools = "read_*"
arguments = { path = { glob = "x" }, lines = { max = 3 } }
[[rule]]
name = "wrong"
verdict = "deny"
tools = ["read_file", "wite_file"]
[rule.arguments]
pat = "x"
lines = { glob = "3" }
"""
    )

    code, out, _ = run("check", "policy.toml", "--tools", "agent.py")
    assert code == 1
    mismatch = "has 'lines' of type integer, and the test is for a text"
    for line, told in zip(
        out.splitlines(),
        (
            "3: error: tool 'read_file' has no argument 'paht'; did you mean 'path'?",
            "4: error: no tool named 'red_file'; did you mean 'read_file'?",
            "14: error: rule 'wrong': no tool named 'wite_file'; did you mean 'read_file'?",
            "16: error: rule 'wrong': tool 'read_file' has no argument 'pat'; did you mean 'path'?",
            f"17: error: rule 'wrong': tool 'read_file' {mismatch}",
        ),
        strict=True,
    ):
        assert line == f"policy.toml:{told}"
    listed = {"name": "fetch", "inputSchema": {"type": "object", "properties": {"url": {}}}}
    written(json.dumps({"pages": [[listed]], "results": {}}), "tools.json")
    server = f"{sys.executable} {SERVERS / 'listed.py'} tools.json"
    code, out, _ = run("check", "policy.toml", "--mcp", server)
    assert code == 1
    assert "no tool named 'read_file'; known: fetch" in out


# --- a verdict can be explained ------------------------------------------------------------------


def test_a_line_is_explained_part_by_part(run, tmp_path):
    written(SOUND)

    code, out, _ = run("explain", "policy.toml", "--command", "cd x && bash -c 'cat .env'")
    assert code == 0
    reads = f"it reads {tmp_path}/x/.env, matching **/.env"
    for line in (
        "cd x",
        "cat .env",
        "  run by bash -c",
        "  does: read",
        "  read: .env relative to x",
        "  ✓ reading  allowed",
        f"  ✗ secrets  denied: {reads}",
        "  · no force  not run (command): it is not git",
        f"  deny, by rule 'secrets': not for a model ({reads})",
    ):
        assert line in out.splitlines(), line
    assert out.splitlines()[-1] == f"deny  shell in {tmp_path}"


def test_a_call_is_explained(run, tmp_path):
    written(SOUND)

    arguments = json.dumps({"path": "a/../.env"})
    code, out, _ = run("explain", "policy.toml", "--tool", "view", "--arguments", arguments)

    assert code == 0
    assert f"it reads {tmp_path}/.env, matching **/.env" in out
    assert "unknown: the effects of this tool are unknown" in out
    assert out.splitlines()[-1] == f"deny  view in {tmp_path}"


def test_explanations_are_available_as_json(run):
    written(SOUND)

    _, out, _ = run("explain", "policy.toml", "--command", "ls; cat .env", "--json")

    told = json.loads(out)
    assert told["verdict"] == "deny"
    assert [part["verdict"] for part in told["parts"]] == ["allow", "deny"]
    assert [part["effects"] for part in told["parts"]] == [["read"], ["read"]]
    statuses = [[each["status"] for each in part["rules"]] for part in told["parts"]]
    assert statuses == [["allowed", "not run", "not run"], ["allowed", "denied", "not run"]]


def test_wrong_arguments_are_refused(run):
    written(SOUND)

    for words, told in (
        ([], "which call? give --command LINE, or --arguments JSON"),
        (["--command", "ls", "--arguments", "{}"], "which call?"),
        (["--arguments", "{"], "--arguments: expected JSON: "),
        (["--arguments", "[]"], "--arguments: expected a JSON object, got '[]'"),
    ):
        code, _, error = run("explain", "policy.toml", *words)
        assert code == 2
        assert error.startswith(f"error: {told}")


# --- a policy can be tested ----------------------------------------------------------------------

TABLE = """\
[[call]]
command = "ls"
verdict = "allow"
[[call]]
command = "cat .env"
verdict = "deny"
[[call]]
tool = "view"
arguments = { path = ".env" }
verdict = "deny"
"""


def test_tables_of_both_kinds_are_compared(run):
    written(SOUND)
    written(TABLE, "calls.toml")
    lines = [
        {"command": "ls", "verdict": "allow"},
        {"command": "cat .env", "verdict": "deny"},
        {"tool": "view", "arguments": {"path": ".env"}, "verdict": "deny", "source": "x"},
    ]
    written("\n".join(map(json.dumps, lines)), "calls.jsonl")

    for table, place in (("calls.toml", 4), ("calls.jsonl", 2)):
        written(SOUND)
        result = run("test", "policy.toml", table)
        assert result == (0, "3 of 3 verdicts are as expected\n", "")
        written(SOUND.replace("**/.env", "**/other"))
        code, out, _ = run("test", "policy.toml", table)
        assert code == 1
        assert out.splitlines()[:3] == [
            f"{table}:{place}: cat .env",
            "  expected deny, got allow",
            "  rule 'reading': all its conditions match",
        ]
        assert out.splitlines()[-1] == "1 of 3 verdicts are as expected"


def test_a_row_can_name_its_rule(run):
    written(SOUND)
    row = '[[call]]\ncommand = "cat .env"\nverdict = "deny"\nrule = "{}"\n'

    written(row.format("secrets"), "right.toml")
    written(row.format("no force"), "wrong.toml")

    assert run("test", "policy.toml", "right.toml")[0] == 0
    code, out, _ = run("test", "policy.toml", "wrong.toml")
    assert code == 1
    assert "expected rule 'no force', got rule 'secrets'" in out


def test_a_table_is_judged_in_a_folder(run):
    written('[[rule]]\nname = "secrets"\nverdict = "deny"\ntouches = [".env"]\n')
    written('[[call]]\ncommand = "cat .env"\nverdict = "deny"\n', "calls.toml")

    inside = run("test", "policy.toml", "calls.toml", "--folder", ".")
    anywhere = run("test", "policy.toml", "calls.toml")

    assert inside == (0, "1 of 1 verdicts are as expected\n", "")
    assert anywhere[0] == 1
    assert "expected deny, got ask" in anywhere[1]


LIMITS = """\
folder = "."
default = "allow"
[tools.shell]
command = "command"
keeps_folder = true
[[call]]
name = "tests-passed"
command = "pytest"
[[call]]
name = "web"
command = "curl"
[[rule]]
name = "mails"
verdict = "deny"
tools = "mail"
at_most = { calls = 2, seconds = 60 }
[[rule]]
name = "bytes"
verdict = "deny"
tools = "fetch"
at_most = { bytes = 3 }
[[rule]]
name = "deploy"
verdict = "deny"
command = "make deploy"
only_after = "tests-passed"
[[rule]]
name = "after the web"
verdict = "ask"
tools = "mail"
never_after = "web"
[[rule]]
name = "loops"
verdict = "deny"
repeats = 3
[[rule]]
name = "secrets"
verdict = "deny"
touches = "/etc/shadow"
"""
HISTORIES = """\
[[call]]
tool = "mail"
after = [{ tool = "mail", arguments = { n = 1 } }]
verdict = "allow"
[[call]]
tool = "mail"
after = [{ tool = "mail", arguments = { n = 1 } }, { tool = "mail", arguments = { n = 2 } }]
verdict = "deny"
rule = "mails"
[[call]]
tool = "mail"
after = [{ tool = "mail", seconds_ago = 61 }, { tool = "mail", arguments = { n = 2 } }]
verdict = "allow"
[[call]]
tool = "fetch"
after = [{ tool = "fetch", arguments = { n = 1 }, text = "four" }]
verdict = "deny"
[[call]]
command = "make deploy"
verdict = "deny"
[[call]]
command = "make deploy"
after = ["pytest"]
verdict = "allow"
[[call]]
command = "make deploy"
after = [{ command = "pytest", outcome = "error" }]
verdict = "deny"
[[call]]
tool = "mail"
after = ["curl https://example.com", "ls"]
verdict = "ask"
[[call]]
command = "ls"
after = ["ls", "ls"]
verdict = "deny"
rule = "loops"
[[call]]
command = "cat shadow"
after = ["cd /etc"]
verdict = "ask"
[[call]]
command = "ls"
verdict = "allow"
"""


def test_a_call_is_judged_after_earlier_calls(run):
    written(LIMITS)
    written(HISTORIES, "calls.toml")
    never = '[[call]]\ncommand = "ls"\nafter = ["ls", "make deploy"]\nverdict = "allow"\n'
    written(never, "never.toml")

    assert run("test", "policy.toml", "calls.toml") == (
        0,
        "11 of 11 verdicts are as expected\n",
        "",
    )
    code, out, _ = run("test", "policy.toml", "never.toml")
    assert code == 1
    told = "  call 2 of `after` never runs because it is denied: make deploy"
    assert out.splitlines()[:2] == ["never.toml:1: ls", told]
    code, out, _ = run("test", "policy.toml", "calls.toml", "--json")
    row = json.loads(out)[1]["row"]["after"][0]
    assert (row["tool"], row["arguments"], row["outcome"]) == ("mail", {"n": 1}, "success")


def test_an_invalid_table_is_refused(run):
    written(SOUND)
    row, first = '[[call]]\ncommand = "x"\nverdict = "deny"\nafter = {}\n', "a.toml:1: after.0: "
    policy = "this is a policy; expected a table of calls"
    for name, text, told in (
        ("a.toml", "", "a.toml: it has no row; add [[call]]"),
        ("a.toml", "[[calls]]\nx = 1", "a.toml: unknown key 'calls'; did you mean 'call'?"),
        ("a.toml", SOUND, "a.toml: unknown key 'folder'; known: call"),
        ("a.toml", SOUND.partition("\n")[2], f"a.toml: unknown key 'rule': {policy}"),
        (
            "a.db",
            "SQLite format 3\0",
            "a.db: expected a text file, got a store of sessions; `toolbus",
        ),
        ("a.toml", row.format('"make"'), "a.toml:1: after: expected an array of calls, got 'make'"),
        ("a.toml", row.format("[3]"), "a.toml:1: after.0: expected"),
        ("a.toml", row.format("[{ comand = 'x' }]"), f"{first}unknown key 'comand'; did you mean"),
        ("a.toml", row.format("[{ x = 'x' }]"), f"{first}unknown key 'x'; known: arguments,"),
        (
            "a.toml",
            row.format("[{ text = '' }]"),
            "a.toml:1: call 1 of `after` needs a `command` or",
        ),
        (
            "a.toml",
            row.format("['x', { command = 'x', seconds_ago = 3 }]"),
            "a.toml:1: `after` lists calls in order",
        ),
        ("a.toml", row.format("[{ command = 'x', outcome = 'no' }]"), "a.toml:1: after.0.outcome:"),
        ("a.toml", TABLE.replace("command", "comand"), "a.toml:1: unknown key 'comand'; did you"),
        ("a.toml", TABLE.replace('"allow"', '"alow"'), "a.toml:1: unknown verdict 'alow'; did you"),
        ("a.jsonl", '{"verdict": "deny", "tool": "x"}\n{', "a.jsonl:2: expected JSON: "),
        ("a.jsonl", '{"verdict": "deny"}', "a.jsonl:1: a row needs a `command` or a `tool`"),
        ("a.jsonl", "[]", "a.jsonl:1: expected a table, got []"),
    ):
        written(text, name)
        code, _, error = run("test", "policy.toml", name)
        assert code == 2
        assert error.startswith(f"error: {told}"), error


# --- A starting policy exists --------------------------------------------------------------------


def test_the_starting_policy_is_written_once(run, tmp_path):
    code, out, _ = run("init")
    path = tmp_path / "policy.toml"
    before = path.read_bytes()

    assert code == 0
    assert out.index('use = "flow"') < out.index('use = "policy"')
    assert run("check", "policy.toml")[:2] == (
        0,
        f"✓ {before.count(b'[[rule]]')} rules, no problems\n",
    )
    code, _, error = run("init")
    assert code == 2
    assert error == "error: 'policy.toml' exists; name another file\n"
    assert path.read_bytes() == before


def test_the_starting_policy_is_short(run, tmp_path):
    run("init")

    words = (tmp_path / "policy.toml").read_text("utf-8").split()

    assert len(words) <= 900


def test_everyday_commands_rarely_need_approval(project):
    table = rows("everyday_commands.jsonl")

    wrong = []
    for row in table:
        verdict, text = judged(project, "shell", {"command": row["command"]})
        if verdict != row["verdict"]:
            wrong.append((row["command"], verdict, text))

    assert wrong == []


def test_workarounds_are_never_allowed(tmp_path):
    (tmp_path / "src").mkdir()
    for name in (".env", "README.md"):
        (tmp_path / name).write_text("text\n")

    allowed = []
    for row in rows("bypass_commands.jsonl"):
        rule = {"name": "r", "verdict": "deny", **row["rule"]}
        table = {"default": "allow", "folder": ".", "rule": [rule]}
        verdict, _ = judged(
            CallJudge(read_table(table, tmp_path)), "shell", {"command": row["command"]}
        )
        if verdict == "allow":
            allowed.append(row)

    assert allowed == []


def test_secrets_and_destruction_are_denied(project, tmp_path):
    calls = [
        ("shell", {"command": "cat .env"}),
        ("shell", {"command": "cp .env /tmp/x"}),
        ("shell", {"command": "cat ~/.ssh/id_rsa"}),
        ("shell", {"command": "echo x >> ~/.ssh/authorized_keys"}),
        ("read_file", {"path": ".env"}),
        ("write_file", {"path": "~/.aws/credentials", "content": "x"}),
        ("shell", {"command": "git add -f .env"}),
        ("shell", {"command": "printenv"}),
        ("shell", {"command": "env -u X | sort"}),
        ("shell", {"command": "declare -p"}),
        ("shell", {"command": "ps auxe"}),
        ("shell", {"command": "strings /proc/1/environ"}),
        ("shell", {"command": "jq -n '$ENV.TOKEN'"}),
        ("shell", {"command": "awk 'BEGIN { print ENVIRON[\"TOKEN\"] }'"}),
        ("shell", {"command": "rm -rf ~/other"}),
        ("shell", {"command": "rm ../x"}),
        ("shell", {"command": "cd .. && rm -rf x"}),
        ("shell", {"command": "git -C ../other reset --hard"}),
        ("shell", {"command": "rm -rf .git"}),
        ("shell", {"command": "git push --force"}),
        ("shell", {"command": "kubectl delete pod x"}),
        ("shell", {"command": "redis-cli flushall"}),
    ]
    for name, arguments in calls:
        verdict, text = judged(project, name, arguments)

        assert verdict == "deny", arguments
        assert "\ninstead: " in text


def test_destruction_inside_needs_approval(project):
    for line in (
        "rm src/main.py",
        "rm -rf node_modules dist",
        "cd src && rm main.py",
        "git restore src/main.py",
        "git checkout -- src/main.py",
        "git reset --hard HEAD~3",
        "git clean -fdx",
        "kill 1234",
        "docker compose down",
        'rm "$file"',
    ):
        assert judged(project, "shell", {"command": line})[0] == "ask", line


def test_reading_outside_needs_approval(project):
    for line in (
        "cat src/main.py",
        "cat node_modules/react/package.json",
        "grep -rn x .venv/lib/python3.13/site-packages/attr",
        "cat /usr/include/stdio.h",
        "ls -la src",
        "find . -name x",
        "env PORT=1 ls",
        "set -e",
        "ps aux",
        "jq .env package.json",
    ):
        assert judged(project, "shell", {"command": line})[0] == "allow", line
    for line in (
        "cat ~/.bashrc",
        "cat ../x",
        "ls ..",
        "tree /etc",
        "find / -name x",
        "fd x /var",
        "cd /etc && cat passwd",
        "git -C .. log",
    ):
        assert judged(project, "shell", {"command": line})[0] == "ask", line
    assert judged(project, "read_file", {"path": "src/main.py"})[0] == "allow"
    assert judged(project, "read_file", {"path": "/etc/passwd"})[0] == "ask"
    assert judged(project, "list_files", {"path": "/opt"})[0] == "ask"
    assert judged(project, "list_files", {"path": "src"})[0] == "allow"


def test_writing_outside_needs_approval(project):
    calls = [
        ("shell", {"command": "echo x > /tmp/x"}),
        ("shell", {"command": "touch ../x"}),
        ("write_file", {"path": "../x", "content": "x"}),
        ("shell", {"command": "git -C ../other commit -m x"}),
        ("shell", {"command": "cd .. && git commit -m x"}),
        ("shell", {"command": "curl https://example.com"}),
        ("shell", {"command": "git push"}),
        ("shell", {"command": "npm install left-pad"}),
        ("shell", {"command": "sudo ls"}),
        ("shell", {"command": "make -f /tmp/x.mk"}),
        ("shell", {"command": "npm --prefix ../x test"}),
        ("shell", {"command": "make install"}),
        ("shell", {"command": "echo x > .git/hooks/pre-commit"}),
        ("shell", {"command": "tar xPf x.tar"}),
        ("shell", {"command": "python -c 'print(1)'"}),
        ("other_tool", {}),
    ]
    for name, arguments in calls:
        assert judged(project, name, arguments)[0] == "ask", arguments
    assert judged(project, "write_file", {"path": "src/x", "content": "x"})[0] == "allow"
