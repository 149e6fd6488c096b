"""The scenarios of `specs/hosts_command.md`."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.terminal import Terminal, run_as_person

from toolbus.cli import main
from toolbus.hosts.doctor.codex_inspection import hooks_of_program
from toolbus.hosts.install.host_files import HOSTS, hooks_file
from toolbus.hosts.install.targets import fail_closed_answers

RUN_BY_SHELL = tuple(host for host in HOSTS if HOSTS[host].form != "bridge")
MINE = "echo mine"
FULL = pytest.mark.full  # They need other programs, or many seconds.
ROOT = Path(__file__).parents[2]


class Home:
    """A home folder of a test, and a project below it, which is the current folder."""

    def __init__(self, path, capsys):
        self.path, self.project, self._capsys = path, path / "work", capsys
        self.project.mkdir()
        (self.project / ".git").mkdir()
        own = '[[component]]\nuse = "redact-secrets"\n'
        self.config = self.write(path / ".config/toolbus/toolbus.toml", own)

    def run(self, *words, code=0):
        """Run `toolbus hosts`; return what it wrote, to standard error if that is a failure."""
        self._capsys.readouterr()
        assert main(["hosts", *words]) == code
        captured = self._capsys.readouterr()
        return captured.err if code == 2 else captured.out

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def contents(self):
        """Return the bytes, and the permissions, of all that is there, by path."""
        return {
            str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
            for path in self.path.rglob("*")
        }

    def tell_settings(self):
        """Write hooks of the person's own for every host; return the files."""
        group = {"hooks": [{"type": "command", "command": MINE}]}
        texts = {
            "claude-code": f'{{\n  "hooks": {{"PreToolUse": [{json.dumps(group)}]}}\n}}\n',
            "codex": json.dumps({"hooks": {"PreToolUse": [group], "Stop": []}}),
            "copilot": '{"version": 1, "hooks": {}}\n',
            "gemini-cli": '{\n\t// why\n\t"model": {} /* b */\n}',
            "vibe": '# mine\n[[hooks]]\nname = "a"\ntype = "pre_tool"\ncommand = "b"\n',
            "cursor": '{\r\n  "version": 1,\r\n  "hooks": {\r\n  }\r\n}\r\n',
        }
        for host, text in texts.items():
            self.write(hooks_file(host), "").write_bytes(text.encode())
        self.write(self.path / ".codex/config.toml", 'model = "x" # mine')


@pytest.fixture
def home(tmp_path, monkeypatch, capsys, as_person):
    for name in [name for name in os.environ if name.startswith(("XDG_", "CLAUDE", "CODEX"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = Home(tmp_path, capsys)
    monkeypatch.chdir(made.project)
    yield made
    # Workers that nobody finds end.
    shutil.rmtree(tmp_path / ".local/state/toolbus/sockets", ignore_errors=True)


def plain():
    """Return the environment of a terminal without colours and with a pager."""
    return {**os.environ, "PAGER": "true", "NO_COLOR": "1"}


def codex():
    """Return the command of the real program, which is installed for the full suite."""
    from node_packages import AGENTS, program

    return program("codex", AGENTS)


def shell(line, data=""):
    """Run *line* as Claude Code runs one, and give it *data*."""
    command = ["/bin/bash", "-c", line]
    return subprocess.run(
        command, input=data, capture_output=True, text=True, timeout=120, check=False
    )


def commands(host, text):
    """Return by event the shell lines of ours that stand in *text*."""
    if HOSTS[host].form == "toml":
        import tomllib

        hooks = tomllib.loads(text)["hooks"]
        return {hook["type"]: hook["command"] for hook in hooks if "hook.py" in hook["command"]}
    found = {}
    for event, entries in json.loads(text)["hooks"].items():
        for entry in entries:
            for hook in entry.get("hooks", [entry]):
                line = [*hook.get("args", []), hook.get("bash"), hook.get("command")]
                line = next(each for each in line if each and each != "-c")
                if "hook.py" in line:
                    assert event not in found
                    found[event] = line
    return found


def test_comments_and_layout_stay(home):
    text = (
        '{\n\t// theme: "dark" {\n\t"ui": {"a": 1}, /* [ */\n\t"hooks": {\n'
        '\t\t"BeforeTool": [\n\t\t\t{"hooks": [{"type": "command", "command": "echo mine"}]} // 1\n'
        "\t\t]\n\t}\n}\n"
    )
    file = home.write(hooks_file("gemini-cli"), text)

    home.run("install", "gemini-cli", "--yes")

    edited = file.read_text()
    assert re.findall(r"// .*|/\*.*?\*/", edited) == ['// theme: "dark" {', "/* [ */", "// 1"]
    assert edited.index(MINE) < edited.index("hook.py")
    lines = text.splitlines()
    kept = [
        line
        for line in edited.splitlines()
        if line in lines or line.replace("}]},", "}]}") in lines
    ]
    assert [line for line in lines if line in kept] == [
        line for line in lines if "echo mine" not in line
    ]


def test_a_second_installation_changes_nothing(home):
    home.tell_settings()
    home.run("install", *HOSTS, "--yes")
    before = home.contents()

    written = home.run("install", *HOSTS)

    assert home.contents() == before
    assert written.count("installed already") == len(HOSTS)


@pytest.mark.parametrize("has_settings", [True, False])
def test_removal_restores_every_byte(home, has_settings):
    if has_settings:
        home.tell_settings()
    before = home.contents()

    home.run("install", *HOSTS, "--yes")
    assert all("toolbus" in hooks_file(host).read_text() for host in HOSTS)
    home.run("uninstall", *HOSTS, "--yes")

    state = str(home.path / ".local")
    after = {path: kept for path, kept in home.contents().items() if not path.startswith(state)}
    assert after == before
    assert not [
        path for path in home.path.glob(".local/state/toolbus/hooks/**/*") if path.is_file()
    ]


@pytest.mark.parametrize("text", ["", "\n", "{}", "{}\n", "{\n}\n"])
@pytest.mark.parametrize("changes", [False, True])
def test_removal_restores_an_empty_file(home, text, changes):
    file = home.write(hooks_file("claude-code"), text)

    home.run("install", "claude-code", "--yes")
    if changes:
        file.write_text(file.read_text().replace("{\n", "{\n\n", 1))
    home.run("uninstall", "claude-code", "--yes")

    assert file.read_text() == text


def test_later_additions_stay(home):
    home.run("install", "claude-code", "vibe", "codex", "--yes")
    file, toml = hooks_file("claude-code"), hooks_file("vibe")
    settings = json.loads(file.read_text())
    settings["hooks"]["PreToolUse"].append({"hooks": [{"type": "command", "command": MINE}]})
    settings["hooks"]["PostToolUse"][0]["hooks"].append({"type": "command", "command": MINE})
    file.write_text(json.dumps({**settings, "model": "x"}, indent=4))
    toml.write_text(f'a = 1\n{toml.read_text()}[mine]\nb = "c"\n')
    trust = home.path / ".codex/config.toml"
    # Codex puts a new table in front of a comment at the end of the file.
    *lines, mark = trust.read_text().splitlines()
    trust.write_text("\n".join(['model = "x"', *lines, "", "[tui]", "a = 1", mark, "[b]", ""]))

    home.run("uninstall", "claude-code", "vibe", "codex", "--yes")

    mine = {"type": "command", "command": MINE}
    assert json.loads(file.read_text()) == {
        "hooks": {
            "PreToolUse": [{"hooks": [mine]}],
            "PostToolUse": [{"matcher": "*", "hooks": [mine]}],
        },
        "model": "x",
    }
    assert toml.read_text() == 'a = 1\n[mine]\nb = "c"\n'
    assert trust.read_text() == 'model = "x"\n[tui]\na = 1\n[b]\n'


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("claude-code", '{\r\n  // mine\r\n  "model": "x", "env": {},\r\n  "hooks": {\r\n  }\r\n}'),
        ("codex", '{"model": "x", "hooks": {"PreToolUse": [ ], "Stop": [] } /* mine */}'),
        ("cursor", '\ufeff{\n\t"model": "x"\n\t// the end\n}\n\n'),
        ("vibe", '# mine\nmodel = "x"'),
    ],
)
def test_removal_restores_an_edited_file(home, host, text):
    file = home.write(hooks_file(host), "")
    file.write_bytes(text.encode())

    def edited(data):
        return b"\n" * (host == "vibe") + data.replace(b'"x"', b'"a longer one"', 1)

    home.run("install", host, "--yes")
    installed = file.read_bytes()
    file.write_bytes(edited(installed))
    home.run("uninstall", host, "--yes")

    assert b"hook.py" in installed
    assert file.read_bytes() == edited(text.encode())


def test_an_older_installation_is_replaced(home):
    text = '[[component]]\nuse = "redact-secrets"\n'
    first, second = (home.write(home.path / name, text) for name in ("a.toml", "b.toml"))
    home.run("install", "gemini-cli", "--yes", "--config", str(first))
    file = hooks_file("gemini-cli")
    settings = json.loads(file.read_text())
    settings["hooks"]["AfterTool"].append({"hooks": [{"type": "command", "command": MINE}]})
    file.write_text(json.dumps(settings))

    home.run("install", "gemini-cli", "--yes", "--config", str(second))

    lines = commands("gemini-cli", file.read_text())
    (state,) = json.loads(home.run("status", "gemini-cli", "--json"))[:1]
    clients = [path.parent for path in home.path.glob(".local/state/toolbus/hooks/*/hook.py")]
    assert set(lines) == set(HOSTS["gemini-cli"].events)
    assert (state["presence"], state["config"]) == ("installed", str(second))
    assert clients == [Path(state["script"]).parent]
    assert MINE in file.read_text()
    assert f"config={second}" in (clients[0] / "settings").read_text()


def test_large_results_reach_hooks_before_an_upload(home):
    file, text = hooks_file("claude-code"), '{"env": {"A": "1", "MAX_MCP_OUTPUT_TOKENS": "9"}}\n'
    for before in (text, '{"env": {}, "model": "x"}\n', '{"env": {"A": "1"}, "model": "x"}\n'):
        home.write(file, before)

        home.run("install", "claude-code", "--yes")

        variables = json.loads(file.read_text())["env"]
        ours = dict(HOSTS["claude-code"].variables)
        assert variables == ours | json.loads(before)["env"]
        home.run("uninstall", "claude-code", "--yes")
        assert file.read_text() == before


def test_the_changes_are_shown_first(home):
    key = "made-up-" + "0123456789"
    text = json.dumps({"env": {"API_KEY": key}})
    home.write(hooks_file("claude-code"), text)
    home.write(hooks_file("gemini-cli"), json.dumps({"env": {"API_KEY": key}}, indent=2))
    before = home.contents()

    shown = home.run("install", "claude-code", "gemini-cli", "--dry-run")
    reports = json.loads(home.run("install", "claude-code", "gemini-cli", "--dry-run", "--json"))

    assert home.contents() == before
    assert key not in shown + json.dumps(reports)
    assert [report["written"] for report in reports] == [False, False]
    for event in HOSTS["gemini-cli"].events:
        assert re.search(rf"hook\.py gemini-cli {event} .*esac", shown)


def test_without_a_person_nothing_is_written(home):
    before = home.contents()

    said = home.run("install", "pi", code=2)
    also_said = home.run("install", "pi", "--json", code=2)

    assert home.contents() == before
    assert said == also_said
    assert said == "error: nothing was written: no person can be asked here; add --yes\n"


@pytest.mark.parametrize(("typed", "code"), [("n\n", 1), ("\n", 1), ("\x04", 1), ("y\n", 0)])
def test_a_person_can_decline(home, typed, code):
    with Terminal(["hosts", "install", "pi"], cwd=home.project, env=os.environ) as person:
        person.expect("write this? [y/N, v shows every line] ")
        person.type(typed)
        assert person.end()[0] == code

    assert hooks_file("pi").exists() is (code == 0)


def test_a_summary_comes_first(home):
    question = "write this? [y/N, v shows every line] "
    with Terminal(["hosts", "install", "claude-code"], cwd=home.project, env=plain()) as person:
        shown = person.expect(question)
        person.type("n\n")
        person.end()

    flat = " ".join(shown.split())
    assert len(shown.splitlines()) <= 24
    assert str(hooks_file("claude-code")) in shown.replace("\n", "")
    assert f"hooks for 8 events: {', '.join(HOSTS['claude-code'].events)}" in flat
    assert "variable MAX_MCP_OUTPUT_TOKENS=10000000" in flat
    assert "hook.pyclaude-codeEVENT" in "".join(shown.split())
    assert "esac" not in shown


def test_long_changes_come_in_pages(home):
    def flat(text):
        return re.sub(r"\s+|page \d+ of \d+;", "", text)

    difference, words = home.run("install", "cursor", "--dry-run"), ["hosts", "install", "cursor"]
    turn, question = "Enter shows the next page, q ends: ", "write this? [y/N, v shows every line] "

    with Terminal(words, cwd=home.project, env=plain()) as person:
        person.expect(question)
        person.type("v\n")
        person.expect(turn)
        person.type("q\n")
        left = person.end()
    is_written = hooks_file("cursor").exists()
    with Terminal(words, cwd=home.project, env=plain()) as person:
        person.expect(question)
        person.type("v\n")
        code, seen = person.answer({turn: "", question: "y"})

    assert (left[0], is_written, question in left[1]) == (1, False, False)
    assert "nothing was written" in left[1]
    assert (code, hooks_file("cursor").exists()) == (0, True)
    assert flat(difference) in flat(seen)
    # 24 rows, of which one has what was typed at the page before.
    assert seen.endswith("y\n✓ written\n")
    pages = re.split(r"page \d+ of \d+; ", seen.removesuffix("y\n✓ written\n"))
    assert len(pages) > 2
    assert max([len(page.splitlines()) for page in pages]) <= 24


def test_a_judged_agent_cannot_change_hooks(home, capsys):
    allows = 'default = "allow"\nfolder = "."\n'
    policy = home.write(home.path / "policy.toml", allows)
    places = [hooks_file(host, project) for host in HOSTS for project in (None, home.project)]
    places.append(home.path / ".local/state/toolbus/hooks/pi.user/hook.py")
    lines = [f"tee {shlex.quote(str(place))}" for place in places]
    lines += [
        "toolbus hosts install pi --yes",
        "toolbus setup pi --yes",
        f"{sys.executable} -m toolbus hosts uninstall pi",
    ]

    for line in (*lines, "toolbus hosts status", "echo harmless"):
        capsys.readouterr()
        main(["policy", "explain", str(policy), "--command", line, "--json"])
        explained = json.loads(capsys.readouterr().out)
        assert (explained["verdict"] == "deny") is (line != "echo harmless"), line


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["claud-code"], "did you mean 'claude-code'"),
        (["pi", "--config", "none.toml"], "there is no such file"),
        (["pi", "--project"], "leave out --project"),
    ],
)
def test_wrong_arguments_are_named(home, monkeypatch, words, hint):
    monkeypatch.chdir(home.path)
    before = home.contents()

    said = home.run("install", *words, "--yes", code=2)

    assert said.count("\n") == 1
    assert hint in said
    assert home.contents() == before


def test_permissions_stay_and_new_files_are_private(home):
    shared = home.write(hooks_file("gemini-cli"), "{}")
    shared.chmod(0o640)

    home.run("install", "gemini-cli", "vibe", "--yes")

    new = [path for path in home.path.glob(".local/state/toolbus/**/*") if path.is_file()]
    assert shared.stat().st_mode & 0o777 == 0o640
    assert {path.stat().st_mode & 0o777 for path in (*new, hooks_file("vibe"))} == {0o600}
    assert (home.path / ".local/state/toolbus/hooks").stat().st_mode & 0o777 == 0o700


def test_a_user_s_symlink_is_followed(home):
    real = home.write(home.path / "dotfiles/gemini.json", '{"a": 1}')
    link = hooks_file("gemini-cli")
    link.parent.mkdir()
    link.symlink_to(real)

    shown = home.run("install", "gemini-cli", "--yes")

    assert f"(a symlink to {real})" in shown
    assert link.is_symlink()
    assert set(commands("gemini-cli", real.read_text())) == set(HOSTS["gemini-cli"].events)
    home.run("uninstall", "gemini-cli", "--yes")
    assert (link.is_symlink(), real.read_text()) == (True, '{"a": 1}')


@pytest.mark.parametrize("link", [".gemini", ".gemini/settings.json"])
def test_a_symlink_in_a_project_is_refused(home, link):
    real = home.write(home.path / "elsewhere/settings.json", '{"a": 1}')
    place = home.project / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(real if link.endswith("json") else real.parent)

    said = home.run("install", "gemini-cli", "--project", "--yes", code=2)

    assert f"is a symlink to '{place.resolve()}'" in said
    assert real.read_text() == '{"a": 1}'


@pytest.mark.parametrize("what", ["open", "pipe"])
def test_files_of_other_users_are_refused(home, what):
    file = hooks_file("gemini-cli")
    if what == "open":
        home.write(file, "{}").chmod(0o666)
    else:
        file.parent.mkdir()
        os.mkfifo(file)

    said = home.run("install", "pi", "gemini-cli", "--yes", code=2)

    assert ("others may write it" if what == "open" else "it is not a regular file") in said
    assert not hooks_file("pi").exists()


@pytest.mark.parametrize(
    ("host", "data", "hint"),
    [
        ("gemini-cli", b'{\n"a": 1,\n}', "settings.json:3: invalid JSON"),
        ("gemini-cli", b'{"hooks": []}', "'hooks' is not an object"),
        (
            "gemini-cli",
            b'{"hooks": {"AfterTool": {}}}',
            "'AfterTool' of 'hooks' is not an array",
        ),
        ("gemini-cli", b"[]", "expected a JSON object"),
        ("gemini-cli", b"{\n\xff}", "settings.json:2: expected UTF-8"),
        ("vibe", b"hooks = []\n", "edit it by hand"),
        ("vibe", b"a =\n", "hooks.toml:1"),
        ("pi", b"// mine\n", "was not written by toolbus"),
    ],
)
def test_unreadable_settings_are_refused(home, host, data, hint):
    home.write(hooks_file(host), "").write_bytes(data)
    before = home.contents()

    said = home.run("install", "cursor", host, "--yes", code=2)

    assert hint in said
    assert str(hooks_file(host)) in said
    assert home.contents() == before


def test_hooks_without_their_client_block(home):
    home.run("install", *RUN_BY_SHELL, "--yes")
    shutil.rmtree(home.path / ".local/state/toolbus/hooks")

    for host in RUN_BY_SHELL:
        blocks = fail_closed_answers(host)
        lines = commands(host, hooks_file(host).read_text())
        assert set(lines) == set(HOSTS[host].events)
        for event in HOSTS[host].tool_events:
            ended = subprocess.run(
                ["/bin/sh", "-c", lines[event]], capture_output=True, check=False
            )
            assert ended.returncode == blocks[event].exit_code
            assert ended.stdout == blocks[event].stdout.rstrip()
            assert ended.stderr.endswith(blocks[event].stderr.rstrip())


@FULL
def test_hooks_without_their_package_block(home):
    python = home.path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python.parents[1]], check=True)
    packages = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"],
        capture_output=True,
        check=True,
        text=True,
    )
    folder = Path(packages.stdout.strip())
    shutil.copytree(ROOT / "src/toolbus", folder / "toolbus")
    (folder / "others.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    info = folder / "toolbus-9.dist-info"
    home.write(info / "METADATA", "Metadata-Version: 2.1\nName: toolbus\nVersion: 9\n")
    environment = {"HOME": str(home.path), "PATH": os.environ["PATH"]}

    def hosts(*words):
        return run_as_person(
            ["hosts", *words], python=[python], env=environment, cwd=home.path,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def stops(line):
        facts = {"session_id": "s", "cwd": "/", "hook_event_name": "BeforeTool", "timestamp": ""}
        event = json.dumps(facts | {"tool_name": "read_file", "tool_input": {}})
        ended = subprocess.run(
            ["/bin/sh", "-c", line], input=event, capture_output=True, text=True, check=False
        )
        return "deny" in ended.stdout or ended.returncode == 2

    done = hosts("install", "gemini-cli", "--yes")
    assert done.returncode == 0, done.stderr
    line = commands("gemini-cli", hooks_file("gemini-cli").read_text())["BeforeTool"]
    assert str(python) in line
    assert not stops(line)

    newer = home.write(folder / "toolbus-10.dist-info/METADATA", "").parent
    shutil.rmtree(info)
    home.write(newer / "METADATA", "Metadata-Version: 2.1\nName: toolbus\nVersion: 10\n")
    assert "toolbus 9 installed the hooks, and this is 10" in " ".join(
        hosts("status").stdout.split()
    )
    assert hosts("install", "gemini-cli", "--yes").returncode == 0
    assert (hosts("status").returncode, stops(line)) == (0, False)

    shutil.rmtree(folder / "toolbus")
    shutil.rmtree(newer)
    assert stops(line)
    shutil.rmtree(python.parents[1])
    assert stops(line)
    assert "By hand:" in subprocess.run(
        [sys.executable, "-m", "toolbus", "hosts", "--help"], capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip


@FULL
def test_code_of_a_project_does_not_run(home):
    mark = home.path / "ran"
    leave = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    for name in ("toolbus", "json", "hook_client", "sitecustomize", "_socket", "policy"):
        home.write(home.project / f"{name}.py", leave)
    home.write(home.project / "toolbus.toml", '[[component]]\nuse = "./policy.py"\n')
    home.write(home.project / ".pth", "import json\n")

    for words in (
        ["install", "gemini-cli", "--yes"],
        ["status"],
        ["uninstall", "gemini-cli", "--yes"],
    ):
        project = ["--project"] if words != ["status"] else []
        run_as_person(
            ["hosts", *words, *project],
            python=[Path(sys.executable).parent / "python", "-P"],
            env=os.environ,
            check=True,
            capture_output=True,
        )
        for settings in home.path.glob(".local/state/toolbus/hooks/*/settings"):
            path = re.search("^path=(.*)$", settings.read_text(), re.MULTILINE)[1]
            assert str(home.project) not in path.split(":")

    assert not mark.exists()
    assert not (home.project / ".gemini").exists()


@FULL
def test_codex_trusts_the_installed_hooks(home):
    program = home.write(home.path / "codex", f'#!/bin/sh\nexec {shlex.join(codex())} "$@"\n')
    program.chmod(0o755)
    home.tell_settings()
    home.run("install", "codex", "--yes")
    home.run("install", "codex", "--project", "--yes")
    config = home.path / ".codex/config.toml"
    config.write_text(
        f'{config.read_text()}\n[projects."{home.project}"]\ntrust_level = "trusted"\n'
    )

    hooks = hooks_of_program(str(program), home.project)

    ours = {hook["key"]: hook["trustStatus"] for hook in hooks if "hook.py" in hook["command"]}
    others = [hook["trustStatus"] for hook in hooks if hook["command"] == MINE]
    assert len(ours) == 2 * len(HOSTS["codex"].events)
    assert set(ours.values()) == {"trusted"}
    assert others == ["untrusted"]


@pytest.mark.parametrize("text", [None, "", '[[component]]\nuse = "./plain.py"\n'])
def test_missing_protection_is_reported(home, text):
    plain = "from toolbus import AgentComponent\nclass Plain(AgentComponent): ...\n"
    home.write(home.config.with_name("plain.py"), plain)
    home.config.unlink() if text is None else home.config.write_text(text)

    with Terminal(["hosts", "install", "pi"], cwd=home.project, env=os.environ) as person:
        code, shown = person.answer({"write this?": "y"})
    status = home.run("status", code=1)
    again = home.run("install", "pi", "--yes", code=1)

    assert code == 1
    assert "\x1b[31m✗ nothing is judged yet" in shown
    for told in (shown, status, again):
        flat = " ".join(re.sub(r"\x1b\[\d*m", "", told).split())
        assert "nothing is judged yet, so every call and every result passes" in flat
        assert "run: toolbus setup pi" in flat
    assert "✓ installed" not in status


def test_another_host_s_installation_opens_no_hole(home):
    text = home.config.read_text()
    home.run("install", "gemini-cli", "--yes")
    home.config.write_text("")

    home.run("install", "pi", "--yes", code=1)
    closed = json.loads(home.run("status", "pi", "gemini-cli", "--json", code=1))
    home.run("uninstall", "pi", "gemini-cli", "--yes")
    home.run("install", "pi", "gemini-cli", "--yes", code=1)
    opened = json.loads(home.run("status", "pi", "gemini-cli", "--json", code=1))
    home.config.write_text(text)

    def told(states):
        return [state["problems"][0][:22] for state in states if state["presence"] == "installed"]

    assert told(closed) == ["every event is blocked"] * 2
    assert told(opened) == ["nothing is judged yet,"] * 2


def test_codex_s_own_stored_trust_stays(home):
    home.run("install", "codex", "--yes")
    config = home.path / ".codex/config.toml"
    stored = [line for line in config.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join([*stored, ""])
    config.write_text(text)

    home.run("install", "codex", "--yes")
    trusted = config.read_text()
    config.write_text(text.replace("sha256:", "sha256:0"))
    said = home.run("install", "codex", "--yes", code=2)

    assert trusted == text
    assert (
        f"{config}: it stores a different trust for our hook; remove the table [hooks.state."
        in said
    )


def test_status_reports_damage(home):
    home.run("install", "gemini-cli", "--yes")
    file = hooks_file("gemini-cli")
    installed, folder = (
        file.read_text(),
        next(home.path.glob(".local/state/toolbus/hooks/gemini-cli.user")),
    )
    assert "✓ installed" in home.run("status")

    def damage():
        (folder / "hook.py").rename(folder / "away")
        yield "hook.py', which the hooks use, is missing"
        (folder / "away").rename(folder / "hook.py")
        (folder / "settings").chmod(0o644)
        yield "others may read or write"
        (folder / "settings").chmod(0o600)
        file.write_text(installed.replace("exit 0", "exit 1", 1))
        yield "differ from those that this toolbus writes"
        file.write_text("{}")
        yield "no longer contains the installed hooks"

    for expected in damage():
        shown = " ".join(home.run("status", code=1).split())
        assert expected in shown.replace(" ' ", "'")
        assert "toolbus hosts install gemini-cli" in shown
