"""The scenarios of `specs/policy_exact.md`."""

import json
from datetime import date, time
from math import inf, nan

import pytest

from toolbus import EventBus, Scope, ToolCall
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.policy import Policy
from toolbus.policy.rules.policy_file import PolicyFile, read_table
from toolbus.policy.tools.diagnostics import check_policy
from toolbus.toml.values import MisfitError


class Judge:
    """The policy of a project in *folder*, with rules that allow exactly some calls."""

    def __init__(self, folder, *exactly, rules=(), tools=""):
        self.folder, file = folder, folder / "policy.toml"
        made = [
            {"name": f"allowed {number}", "verdict": "allow", **_keys(each)}
            for number, each in enumerate(exactly)
        ]
        tables = [*rules, *made]
        file.write_text("\n".join([tools, *[f"[[rule]]\n{_pairs(each)}" for each in tables]]))
        self.policy, self.bus = Policy.read(file), EventBus()

    async def call(self, name, arguments, folder=None):
        """Return the verdict on a call in *folder*, by default the project's."""
        call, place = ToolCall(id="c", name=name, arguments=arguments), str(folder or self.folder)
        scope = Scope(folder=place, project=str(self.folder))
        async with self.policy.installed(self.bus):
            context = await self.bus.apply(TOOL_CALL_BEFORE, call, scope=scope)
        return "deny" if context.denied else "ask" if context.asked else "allow"

    async def allowed(self, *lines, folder=None):
        """Return the allowed ones of *lines*."""
        verdicts = [await self.call("shell", {"command": line}, folder) for line in lines]
        return [line for line, each in zip(lines, verdicts, strict=True) if each == "allow"]


def _keys(exactly):
    return exactly if isinstance(exactly, dict) else {"exactly": exactly}


def _pairs(table):
    return "\n".join(f"{key} = {_toml(value)}" for key, value in table.items())


def _toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


# --- exact commands -------------------------------------------------------------------------------


async def test_an_exact_command_allows_only_itself(tmp_path):
    judge = Judge(tmp_path, "git push origin docs")

    allowed = await judge.allowed(
        "git  push 'origin' docs",
        "git push origin docs --force",
        "git push origin docs main",
        "git push origin main",
        "git push origin",
        "git push docs origin",
        "/tmp/git push origin docs",
        "git push origin d*",
    )

    assert allowed == ["git  push 'origin' docs"]


async def test_exact_words_may_be_unknown(tmp_path):
    lines = ["frobnicate 'a;b' --now", "gh workflow run 'a{path}'"]

    assert await Judge(tmp_path, *lines).allowed(*lines) == lines


async def test_nothing_around_an_exact_command_counts(tmp_path):
    judge = Judge(tmp_path, ["git push origin docs", "sh", "tail -5"])

    allowed = await judge.allowed(
        "X=1 git push origin docs",
        "for x in a; do git push origin docs; done",
        "git push origin docs < notes.txt",
        "git push origin docs > notes.txt",
        "sudo git push origin docs",
        "bash -c 'git push origin docs'",
        "echo x | xargs git push origin docs",
        "git push origin docs | sh",
        "git push origin docs 2>/dev/null",
        "git push origin docs | tail -5",
    )

    assert allowed == ["git push origin docs 2>/dev/null", "git push origin docs | tail -5"]


async def test_no_other_part_connects_an_exact_command(tmp_path):
    reading = {"name": "reading", "verdict": "allow", "effects": "read", "reads": "./**"}
    judge = Judge(tmp_path, "mytool go", rules=[reading])

    allowed = await judge.allowed(
        "exec < notes.txt; mytool go",
        "exec <<< 'any text'; mytool go",
        "(exec < notes.txt; mytool go)",
        "while true; do mytool go; exec < notes.txt; done",
        "f() { exec < notes.txt; }; f; mytool go",
        "command exec < notes.txt; mytool go",
        'eval "exec < notes.txt"; mytool go',
        "mytool go <&3",
        "{ mytool go; } <&-",
        "mytool go 3<<< x",
        'mytool go <<< "$X"',
        "mytool go >&3",
        "echo 'any text' | { mytool go & wait; }",
        "mytool go 2>&1",
        "mytool go >&2",
    )

    assert allowed == ["mytool go 2>&1", "mytool go >&2"]


async def test_no_argument_of_the_shell_is_unknown(tmp_path):
    judge = Judge(tmp_path, "mytool go", tools='[tools.term]\nignore = ["sandbox"]')
    call = {"command": "mytool go"}
    known = [
        ("shell", {"timeout": 5, "sandbox": None}),
        ("shell", {"run_in_background": False, "shell": "bash"}),
        ("term", {"sandbox": False}),
    ]
    unknown = [("shell", {"sandbox": each}) for each in (False, 0, "", True, "off")]

    assert {await judge.call(name, {**call, **each}) for name, each in known} == {"allow"}
    assert {await judge.call(name, {**call, **each}) for name, each in unknown} == {"ask"}


async def test_an_exact_command_has_its_folder(tmp_path):
    web, elsewhere = tmp_path / "shop" / "web", tmp_path / "elsewhere"
    web.mkdir(parents=True)
    elsewhere.mkdir()
    judge = Judge(tmp_path / "shop", "make notes", "cd web && make docs", "cd web", "cd ..")
    lines = ("make notes", "make docs")

    assert await judge.allowed(*lines, "cd web && make docs") == [
        "make notes",
        "cd web && make docs",
    ]
    assert await judge.allowed(*lines, folder=web) == ["make docs"]
    assert await judge.allowed(*lines, folder=elsewhere) == []
    assert await judge.allowed("cd web; make docs", "cd $X && make docs") == []
    web.rmdir()
    web.symlink_to(elsewhere)
    assert await judge.allowed("make notes", "cd web && make docs") == ["make notes"]
    assert await judge.allowed("make docs", folder=elsewhere) == []


async def test_a_link_moves_no_exact_command(tmp_path):
    judge, notes = Judge(tmp_path, "cat notes.txt", "ln -s x y"), tmp_path / "notes.txt"
    notes.write_text("hello")

    before = await judge.allowed("cat notes.txt", "ln -sf /etc/passwd notes.txt; cat notes.txt")
    notes.unlink()
    notes.symlink_to("/etc/passwd")
    after = await judge.allowed("cat notes.txt")

    assert (before, after) == (["cat notes.txt"], [])


async def test_a_path_in_exact_words_is_limited(tmp_path):
    (tmp_path / "data").mkdir()
    judge = Judge(tmp_path, {"exactly": "wc -l {path}", "reads": "data/**"})

    allowed = await judge.allowed(
        "wc -l data/a.csv",
        "wc -l notes.txt",
        "wc -l data/../notes.txt",
        "wc -l data/a.csv data/b.csv",
        "wc -l -c",
        "wc -lc data/a.csv",
        "wc -l '{path}'",
        "wc -l data/$X",
    )

    assert allowed == ["wc -l data/a.csv"]


# --- exact arguments ------------------------------------------------------------------------------


async def test_exact_arguments_are_all_arguments(tmp_path):
    message = {"channel": "#ops", "text": "deployed", "times": 1}
    judge = Judge(tmp_path, {"tools": "send", "exactly": message})
    others = [
        {**message, "text": "failed"},
        {**message, "file": "a"},
        {**message, "file": None},
        {"channel": "#ops", "text": "deployed"},
        {**message, "times": 1.0},
        {**message, "times": True},
    ]

    assert await judge.call("send", message) == "allow"
    assert await judge.call("send", dict(reversed(message.items()))) == "allow"
    assert [each for each in others if await judge.call("send", each) != "ask"] == []
    assert await judge.call("send_mail", message) == "ask"


async def test_words_of_a_table_stand_for_values(tmp_path):
    (tmp_path / "docs").mkdir()
    exactly = {"path": "{path}", "edits": [{"text": "{text}"}], "mode": "end"}
    rule = {"tools": "edit", "exactly": exactly, "writes": "docs/*.md"}
    judge = Judge(tmp_path, rule, tools='[tools.edit]\neffects = ["write"]')
    usual = {"path": "docs/a.md", "edits": [{"text": "x"}], "mode": "end"}
    others = [
        {**usual, "path": "a.md"},
        {**usual, "path": "{path}"},
        {**usual, "mode": "start"},
        {**usual, "edits": [{"text": ["x"]}]},
        {**usual, "edits": [{"text": "x"}, {"text": "y"}]},
        {**usual, "to": "docs/b.md"},
        {"path": "docs/a.md", "mode": "end"},
    ]

    assert await judge.call("edit", usual) == "allow"
    assert await judge.call("edit", {**usual, "edits": [{"text": "{path}"}]}) == "allow"
    assert [each for each in others if await judge.call("edit", each) == "allow"] == []


async def test_a_link_moves_no_exact_argument(tmp_path):
    judge, notes = (
        Judge(tmp_path, {"tools": "show", "exactly": {"path": "notes.txt"}}),
        tmp_path / "notes.txt",
    )
    notes.write_text("hello")

    before = await judge.call("show", {"path": "notes.txt"})
    notes.unlink()
    notes.symlink_to("/etc/passwd")

    assert (before, await judge.call("show", {"path": "notes.txt"})) == ("allow", "ask")


async def test_an_exact_table_stays_in_its_project(tmp_path):
    shop, elsewhere = tmp_path / "shop", tmp_path / "elsewhere"
    for folder in (shop / "web", elsewhere):
        folder.mkdir(parents=True)
    rules = [{"tools": "show", "exactly": {"path": each}} for each in ("a.md", f"{shop}/b.md")]
    judge = Judge(shop, *rules, {"tools": "send", "exactly": {"text": "hello"}})

    relative = [await judge.call("show", {"path": "a.md"}, at) for at in (shop, shop / "web")]
    relative.append(await judge.call("show", {"path": "a.md"}, elsewhere))
    others = [
        await judge.call("show", {"path": f"{shop}/b.md"}, elsewhere),
        await judge.call("send", {"text": "hello"}, shop / "web"),
    ]

    assert (relative, others) == (["allow", "ask", "ask"], ["allow", "allow"])


# --- exact rules loosen nothing else --------------------------------------------------------------


async def test_an_exact_call_lifts_no_question(tmp_path):
    lines = ["git push --force", "rm -rf build", "touch policy.toml"]
    rules = [
        {"name": "no force", "verdict": "deny", "command": "git push --force"},
        {"name": "destruction", "verdict": "ask", "effects": "destroy"},
    ]
    judge = Judge(tmp_path, *lines, rules=rules)

    assert [await judge.call("shell", {"command": line}) for line in lines] == [
        "deny",
        "ask",
        "deny",
    ]


def test_wrong_exact_calls_are_reported():
    def read(project="file", **keys):
        read_table({"project": project, "rule": [{"name": "r", "verdict": "allow", **keys}]})

    for keys, reason in [
        ({"verdict": "deny", "exactly": "ls"}, "only an allow rule can have it"),
        ({"exactly": "ls; rm x"}, "expected one command"),
        ({"exactly": "cd a && cd b && ls"}, "expected one command"),
        ({"exactly": "cd a &&"}, "expected one command"),
        ({"exactly": "ls 'x"}, "cannot be read"),
        ({"exactly": {"a": 1}}, "needs `tools`"),
        ({"exactly": "wc {path}"}, "needs `reads` or `writes`"),
        ({"tools": "t", "exactly": {"a": "{path}"}}, "needs `reads` or `writes`"),
        ({"project": "session", "tools": "t", "exactly": {"a": 1}}, "hold in every project"),
        ({"tools": "t", "exactly": {"a": [{"b": date(1979, 5, 27)}]}}, "is a date or a time"),
        ({"tools": "t", "exactly": {"a": time(7, 32)}}, "is a date or a time"),
        ({"tools": "t", "exactly": {"a": inf}}, "no argument is inf"),
        ({"tools": "t", "exactly": {"a": nan}}, "no argument is nan"),
        ({"exactly": 3}, "a command, a list of commands, or a table of all arguments"),
    ]:
        with pytest.raises(MisfitError, match=reason):
            read(**keys)


def test_exact_texts_that_match_nothing_are_reported(tmp_path):
    only = "matches only the word '{text}', which is any text only in a table of arguments"
    dead = ["ls *", "ls $HOME", "A=1 ls", "ls ~", "mytool {a,b}", "ls # x", "cd ~ && ls", "! ls"]
    words = ["frobnicate {path}", "git push origin {path}", "cat {text}"]
    fine = ["ls '*'", "cd .. && ls 'a b'", "timeout 5 ls", "cat {path}", "cd docs && cd"]
    rules = [{"exactly": each, "reads": "./**"} for each in (*dead, *words, *fine)]
    Judge(tmp_path, *rules)

    remarks = check_policy(PolicyFile(tmp_path / "policy.toml"))

    assert [remark.text.partition(": ")[2] for remark in remarks] == [
        *[
            f"{each!r} never matches a call of this text, which a shell reads otherwise;"
            " quote literal words"
            for each in dead
        ],
        *[f"{each!r} never matches: '{{path}}' names none of its files" for each in words[:2]],
        f"'cat {{text}}' {only}",
    ]


def test_an_exact_call_of_code_is_reported(tmp_path):
    lines = ["cd web && bash tools/fmt.sh", "git push origin docs"]
    Judge(tmp_path, lines, {"tools": "send", "exactly": {"channel": "#ops"}})

    remarks = check_policy(PolicyFile(tmp_path / "policy.toml"))

    assert [(remark.line, remark.kind, remark.text) for remark in remarks] == [
        (
            5,
            "warning",
            "rule 'allowed 0': 'cd web && bash tools/fmt.sh' runs code, which may change meanwhile",
        )
    ]
