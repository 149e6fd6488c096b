"""The scenarios of `specs/setup.md`."""

import json
import os
import shutil
import subprocess
import sys
import tomllib

import pytest
from tests.servers.terminal import Terminal

from toolbus.cli import main
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor import vendors
from toolbus.hosts.doctor.trials import made_up_secret
from toolbus.hosts.doctor.vendors import switch_warning
from toolbus.hosts.install.host_files import hooks_file

PROMPTS = "without that prompt? [y/N] "
QUESTION = "write this? [y/N, v shows every line] "
POLICY = 'default = "allow"\n'
STRANGERS = '[[rule]]\nname = "r"\nverdict = "ask"\nfrom = "untrusted"\nsink = "message"\n'
IN_FILE = '[[component]]\nuse = "policy"\nsettings = { file = "policy.toml" }\n'
NAMED = '# mine\n[[component]]\nuse = "policy"\nsettings = { default = "allow" }  # mine\n'


class Home:
    """A home folder, a project below it, and programs that say a version."""

    def __init__(self, path, capsys):
        self.path, self.project, self._capsys = path, path / "work", capsys
        (self.project / ".git").mkdir(parents=True)
        self.config = path / ".config/toolbus/toolbus.toml"
        self.policy = self.config.with_name("policy.toml")

    def program(self, name, folder="bin"):
        return self.write(self.path / folder / name, "#!/bin/sh\necho 2.1.330\n", 0o755)

    def write(self, path, text, mode=0o600):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def run(self, *words, code=0):
        """Run `toolbus setup`; return its output, standard error after wrong use."""
        self._capsys.readouterr()
        assert main(["setup", *words]) == code
        captured = self._capsys.readouterr()
        return captured.err if code == 2 else captured.out

    def answer(self, *words, **answers):
        """Run `toolbus setup` at a terminal; return its exit code and what is shown."""
        environment = {**os.environ, "NO_COLOR": "1"}
        typed = {"next page": "", PROMPTS: "", QUESTION: "y"} | answers
        with Terminal(["setup", *words], cwd=self.project, env=environment, rows=60) as person:
            return person.answer(typed)

    def files(self):
        """Return the bytes of all files but what workers and their stores leave."""
        kept = [path for path in self.path.rglob("*") if path.is_file()]
        left = ("hooks.db", "hooks.log", "hidden-values", "sockets")
        return {str(p): p.read_bytes() for p in kept if not any(name in str(p) for name in left)}


@pytest.fixture
def home(tmp_path, monkeypatch, capsys, as_person):
    for name in [name for name in os.environ if name.startswith(("XDG_", "CLAUDE", "CODEX"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    made = Home(tmp_path, capsys)
    monkeypatch.chdir(made.project)
    yield made
    # Workers that nobody finds end.
    shutil.rmtree(tmp_path / ".local/state/toolbus/sockets", ignore_errors=True)


def claude(home, event, **fields):
    """Return the answer to an event of Claude Code, by the command that is installed."""
    group = json.loads(hooks_file("claude-code").read_text())["hooks"][event][0]
    hook = group["hooks"][0]
    told = {"session_id": "s", "cwd": str(home.project), "hook_event_name": event, **fields}
    told |= {"tool_name": "Bash", "tool_use_id": "t1"}
    ended = subprocess.run(
        [hook["command"], *hook["args"]], input=json.dumps(told), capture_output=True, text=True,
        check=True, cwd=home.project,
    )  # fmt: skip
    return ended.stdout


def test_one_yes_protects_an_agent(home):
    secret = made_up_secret()

    code, shown = home.answer("claude-code", **{"[y/N]": ""})
    denied = claude(home, "PreToolUse", tool_input={"command": "git push -f"})
    response = {"stdout": secret, "stderr": "", "interrupted": False, "isImage": False}
    hidden = claude(home, "PostToolUse", tool_input={"command": "ls"}, tool_response=response)

    assert code == 0
    assert json.loads(denied)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "updatedToolOutput" in hidden
    assert secret not in hidden
    assert "were answered correctly" in " ".join(shown.split())
    assert shown.rstrip().endswith("ask it to `git push -f`: the policy denies it")


def test_coding_agents_on_the_machine_are_offered(home, monkeypatch):
    home.program("gemini")
    home.program("vibe")
    home.program("codex", "work/bin")
    monkeypatch.setenv("PATH", f"{home.project}/bin:{os.environ['PATH']}")

    code, shown = home.answer(
        **{"Gemini CLI is found. Install hooks there? [Y/n]": "n", "hooks there? [Y/n]": ""}
    )

    assert code == 0
    assert "Codex" not in shown
    assert (hooks_file("gemini-cli").exists(), hooks_file("vibe").exists()) == (False, True)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["claud-code"], "no host named 'claud-code'; did you mean 'claude-code'?"),
        ([], "no coding agent is found on the PATH; name one of claude-code, codex"),
        (["pi", "--managed"], "--managed needs one of claude-code, codex, gemini-cli"),
    ],
)
def test_wrong_arguments_write_no_file(home, words, hint):
    before = home.files()

    refused = home.run(*words, code=2)

    assert refused.count("\n") == 1
    assert hint in refused
    assert home.files() == before


def test_prompts_are_skipped_on_request(home):
    written = []
    for answers in ({PROMPTS: "y"}, {PROMPTS: ""}):
        code, shown = home.answer("claude-code", **answers)
        assert code == 0, shown
        written.append(home.policy.read_text())
        assert main(["policy", "check", str(home.policy)]) == 0
        for path in (home.policy, home.config):
            path.unlink()
    home.run("claude-code", "--yes")

    assert 'prompt = "skip"\nname = "reading"' in written[0]
    assert written[1] == home.policy.read_text()
    assert 'prompt = "skip"' not in written[1]


@pytest.mark.parametrize(
    ("config", "policy", "names"),
    [
        ("", None, ["redact-secrets", "policy", "flow"]),
        ('[[component]]\nuse = "flow"\n', None, ["flow", "redact-secrets", "policy"]),
        ("", POLICY, ["redact-secrets", "policy"]),
        ("", f"{POLICY}{STRANGERS}", ["redact-secrets", "policy", "flow"]),
        (IN_FILE, f"{POLICY}{STRANGERS}", ["policy", "redact-secrets", "flow"]),
        (IN_FILE, POLICY, ["policy", "redact-secrets"]),
    ],
)
def test_rules_on_origins_come_with_flow(home, config, policy, names):
    home.write(home.config, config)
    if policy is not None:
        home.write(home.policy, policy)

    shown = home.run("gemini-cli", "--yes")

    tables = tomllib.loads(home.config.read_text())["component"]
    assert [table["use"] for table in tables] == names
    assert ("and flow" in shown) == (names[-1] == "flow")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return the folder that stands for the machine's root."""
    place = str(tmp_path / "machine")
    monkeypatch.setattr(vendors, "on_this_system", place.__add__)
    return tmp_path / "machine"


def test_a_file_of_the_machine_keeps_hooks_on(home, machine):
    project = home.write(home.project / ".claude/settings.json", '{"disableAllHooks": true}')
    start = {"session_id": "s", "hook_event_name": "SessionStart", "source": "startup"}

    home.run("claude-code", "--yes", code=1)
    told = dialect("claude-code").decode("SessionStart", start)
    before = switch_warning("claude-code"), main(["doctor", "claude-code"])
    page = home.run("claude-code", "--yes", "--managed")
    again = home.run("claude-code", "--yes", "--managed")
    after = switch_warning("claude-code"), main(["doctor", "claude-code"])

    file = machine / "etc/claude-code/managed-settings.d/toolbus.json"
    assert told.kind == "session_start"
    assert "`toolbus setup claude-code --managed`" in before[0]
    assert (before[1], after) == (1, (None, 0))
    assert f'{file}: {{"disableAllHooks": false}}' in page
    assert json.loads(file.read_text()) == {"disableAllHooks": False}
    assert file.stat().st_mode & 0o777 == 0o644
    assert "nothing to write" in again
    assert json.loads(project.read_text()) == {"disableAllHooks": True}


def test_present_settings_of_the_machine_stay(home, machine):
    file = home.write(machine / "etc/gemini-cli/settings.json", '{"theme": "dark"}')

    wrong = home.run("gemini-cli", "--yes", "--managed", code=2)
    other = home.run("pi", "--yes", "--managed", code=2)

    assert f"{file}: the file exists already" in wrong
    assert '{"hooksConfig": {"enabled": true}}' in wrong
    assert wrong.endswith(", the hooks of Gemini CLI\n")
    assert file.read_text() == '{"theme": "dark"}'
    assert "--managed needs one of claude-code, codex, gemini-cli" in other


def test_a_second_setup_writes_nothing(home):
    home.answer("claude-code")
    before = home.files()

    code, shown = home.answer("claude-code")

    assert home.files() == before
    assert (code, QUESTION in shown, "?" in shown.partition("✓")[0]) == (0, False, False)
    assert "nothing to write" in shown


def test_a_present_policy_is_used(home):
    home.write(home.policy, POLICY)
    home.write(home.config, "")

    told = home.run("gemini-cli", "--yes")

    assert home.policy.read_text() == POLICY
    tables = home.config.read_text()
    assert tables.count("[[component]]") == 2
    assert 'file = "policy.toml"' in tables
    assert "your policy judges it" in told


def test_a_missing_component_is_offered(home):
    home.write(home.config, NAMED)
    question = "[Y/n]"

    declined = home.answer("gemini-cli", **{question: "n"})
    left = home.config.read_text()
    accepted = home.answer("gemini-cli", **{question: ""})

    assert (declined[0], accepted[0], left) == (0, 0, NAMED)
    assert home.config.read_text() == f'{NAMED}\n[[component]]\nuse = "redact-secrets"\n'
    assert not home.policy.exists()


@pytest.mark.parametrize(
    ("text", "mode", "hint"),
    [
        ('[[component]]\nuse = "./gone.py"\n', 0o600, "gone.py"),
        ("component = 3\n", 0o600, "toolbus.toml:1"),
        (NAMED, 0o666, "others may write it"),
    ],
)
def test_a_broken_configuration_stays(home, text, mode, hint):
    home.write(home.config, text, mode)
    before = home.files()

    refused = home.run("pi", "--yes", code=2)

    assert hint in refused
    assert home.files() == before


def test_a_declined_page_writes_nothing(home):
    before = home.files()

    refused = home.answer("pi", **{QUESTION: ""})
    ended = home.answer("claude-code", **{PROMPTS: "\x04"})
    shown = home.run("claude-code", "--dry-run")

    assert refused[0] == 1
    assert "nothing was written" in refused[1]
    assert ended[0] in {1, 2}
    assert "hook.py claude-code PreToolUse" in shown
    assert home.files() == before


def test_without_a_terminal_setup_is_refused(home):
    before = home.files()

    ended = subprocess.run(
        [sys.executable, "-m", "toolbus", "setup", "pi", "--yes"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        start_new_session=True,
    )  # fmt: skip
    refused = home.run("pi", "--json", code=2)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: this needs a person at an interactive terminal: ")
    assert refused == "error: nothing was written: no person can be asked here; add --yes\n"
    assert home.files() == before


def test_a_failed_step_is_named(home):
    home.write(home.path / ".local", "in the way")

    refused = home.run("pi", "--yes", code=2)

    assert "Not a directory" in refused
    assert refused.endswith(f"; written before: {home.policy}, {home.config}\n")
    assert not hooks_file("pi").exists()
