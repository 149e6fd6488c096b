"""The scenarios of `specs/doctor.md`."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from toolbus.cli import main
from toolbus.hosts.install.host_files import hooks_file
from toolbus.hosts.run.event_answer import answer
from toolbus.hosts.run.requests import HookSettings, default_store

FULL = pytest.mark.full  # They start many programs.
REDACT = '[[component]]\nuse = "redact-secrets"\n'
TOKEN = re.compile("glpat-[A-Za-z0-9]{20}")
ALL_FORMS = ("claude-code", "codex", "copilot", "vibe", "pi")


class Patient:
    """A home folder with a configuration and a project, and what doctor says there."""

    def __init__(self, path, capsys):
        self.path, self.project, self._capsys = path, path / "work", capsys
        (self.project / ".git").mkdir(parents=True)

    def write(self, name, text):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    def configure(self, text=REDACT):
        return self.write(".config/toolbus/toolbus.toml", text)

    def install(self, *words, code=0):
        assert main(["hosts", "install", *words, "--yes"]) == code
        self._capsys.readouterr()

    def examine(self, *words, code=0, sends=False):
        """Return what doctor says, on one line, and as data."""
        options = [] if sends else ["--no-events"]
        self._capsys.readouterr()
        assert main(["doctor", *words, *options]) == code, self._capsys.readouterr().out
        text = self._capsys.readouterr().out
        assert main(["doctor", *words, *options, "--json"]) == code
        return " ".join(text.split()), json.loads(self._capsys.readouterr().out)


@pytest.fixture
def patient(tmp_path, monkeypatch, capsys, as_person):
    for name in [name for name in os.environ if name.startswith(("XDG_", "CLAUDE", "CODEX"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    # None of the hosts that this machine may have.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    made = Patient(tmp_path, capsys)
    monkeypatch.chdir(made.project)
    yield made
    # Workers that nobody finds end.
    shutil.rmtree(tmp_path / ".local/state/toolbus/sockets", ignore_errors=True)


def findings(data, severity, host=0):
    return [
        each["text"] for each in data["hosts"][host]["findings"] if each["severity"] == severity
    ]


def others(data, host=0):
    return [each for each in findings(data, "warning", host) if each.startswith("another hook")]


@FULL
def test_an_intact_installation_is_healthy(patient):
    patient.configure()
    patient.install(*ALL_FORMS)

    text, data = patient.examine(sends=True)

    assert re.search("running workers of toolbus .*: 1", text)
    assert text.count("its result and an unreadable event were answered correctly") == len(
        ALL_FORMS
    )
    assert [host["host"] for host in data["hosts"]] == sorted(ALL_FORMS, key=ALL_FORMS.index)
    assert not TOKEN.search(text + json.dumps(data))
    store = patient.path / ".local/state/toolbus/hooks.db"
    listed = subprocess.run(
        [sys.executable, "-m", "toolbus", "sessions", store, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.stdout.strip() == ""


@FULL
def test_a_failing_configuration_is_broken(patient):
    patient.configure('[[component]]\nuse = "./gone.py"\n')
    patient.install("gemini-cli", code=1)

    text, data = patient.examine(code=1, sends=True)

    assert "✗ broken: every event is blocked" in text
    assert "gone.py" in text
    assert any("could not be judged" in each for each in findings(data, "broken"))


@FULL
def test_a_leaked_secret_is_open(patient):
    patient.configure(f'{REDACT}settings = {{ allow = ["glpat-*"] }}\n')
    patient.install("gemini-cli")

    text, data = patient.examine(code=1, sends=True)

    assert findings(data, "open") == [
        "a made-up secret in a result was not redacted, though redact-secrets is installed"
    ]
    assert not TOKEN.search(text + json.dumps(data))


def test_a_folder_s_settings_disable_hooks(patient):
    patient.configure()
    patient.install("claude-code")
    other = patient.path / "other"
    other.mkdir()
    start = {"session_id": "s1", "cwd": str(other), "hook_event_name": "SessionStart"}
    settings = HookSettings(store=default_store())
    told = answer("claude-code", "SessionStart", json.dumps(start).encode(), settings)
    before, _ = patient.examine("claude-code")
    file = patient.write("other/.claude/settings.json", {"disableAllHooks": True})

    _, data = patient.examine("claude-code", code=1)

    assert b"--managed" in told.stdout
    assert "switched off" not in before
    (finding,) = findings(data, "open")
    assert str(file) in finding


@pytest.mark.parametrize(
    ("host", "file", "settings", "name"),
    [
        ("claude-code", "work/.claude/settings.json", {"disableAllHooks": True}, "disableAllHooks"),
        ("claude-code", ".claude/settings.json", {"disableAllHooks": True}, "disableAllHooks"),
        ("codex", "work/.codex/config.toml", "[features]\nhooks = false\n", "features.hooks"),
        ("copilot", ".copilot/settings.json", {"disableAllHooks": True}, "disableAllHooks"),
        (
            "gemini-cli",
            "work/.gemini/settings.json",
            {"hooksConfig": {"enabled": False}},
            "hooksConfig.enabled",
        ),
        (
            "gemini-cli",
            "work/.gemini/settings.json",
            {"hooksConfig": {"disabled": ["toolbus"]}},
            "hooksConfig.disabled",
        ),
        ("pi", "work/.pi/settings.json", {"extensions": ["!**/toolbus.ts"]}, "extensions"),
    ],
)
def test_hooks_are_disabled_in_settings(patient, host, file, settings, name):
    patient.configure()
    path = patient.write(file, settings)
    patient.install(host)

    _, data = patient.examine(host, code=1)

    (finding,) = findings(data, "open")
    assert name in finding
    assert str(path) in finding
    text = path.read_text()
    switched = {
        '"disableAllHooks": true': '"a": 1',
        "hooks = false": "hooks = true",
        '"enabled": false': '"enabled": true',
        '["toolbus"]': "[]",
        "!**/toolbus.ts": "x",
    }
    for off, on in switched.items():
        text = text.replace(off, on)
    path.write_text(text)
    assert findings(patient.examine(host)[1], "open") == []


@pytest.mark.parametrize("change", ["hook", "trust", "enabled"])
def test_codex_does_not_trust_the_hooks(patient, change):
    patient.configure()
    patient.install("codex")
    trusted, _ = patient.examine("codex")
    file, config = hooks_file("codex"), patient.path / ".codex/config.toml"
    if change == "hook":
        hooks = json.loads(file.read_text())
        hooks["hooks"]["PreToolUse"].insert(0, {"hooks": [{"type": "command", "command": "x"}]})
        file.write_text(json.dumps(hooks))
    elif change == "trust":
        config.write_text("")
    else:
        config.write_text(
            config.read_text().replace("trusted_hash", "enabled = false\ntrusted_hash")
        )

    _, data = patient.examine("codex", code=1)

    assert "Codex trusts our hooks, according to its configuration" in trusted
    finding = findings(data, "open")[-1]
    assert finding.startswith("Codex does not trust our hooks for pre_tool_use")
    assert "toolbus hosts install codex" in finding


@pytest.mark.parametrize("host", ["copilot", "vibe", "gemini-cli"])
def test_a_host_does_not_trust_the_project(patient, host):
    patient.configure()
    patient.write(".gemini/settings.json", {"security": {"folderTrust": {"enabled": True}}})
    patient.install(host, "--project")

    _, before = patient.examine(host, code=1)
    project = str(patient.project)
    patient.write(".copilot/config.json", f'// ours\n{{"trustedFolders": ["{project}"]}}')
    patient.write(".vibe/trusted_folders.toml", f'trusted = ["{project}"]\n')
    patient.write(".gemini/trustedFolders.json", {project: "TRUST_FOLDER"})
    _, after = patient.examine(host)

    assert findings(before, "open") == [
        f"{host} does not trust {project}, so it runs no hooks of it; start {host} there"
    ]
    assert findings(after, "open") == []


@pytest.mark.parametrize("gone", ["hook.py", "settings", "python"])
def test_the_interpreter_of_hooks_is_missing(patient, gone):
    patient.configure()
    patient.install("gemini-cli")
    folder = patient.path / ".local/state/toolbus/hooks/gemini-cli.user"
    if gone == "python":
        settings = (folder / "settings").read_text()
        (folder / "settings").write_text(re.sub("^python=.*", "python=/gone/python", settings))
    else:
        (folder / gone).unlink()

    text, data = patient.examine("gemini-cli", code=1, sends=True)

    assert data["hosts"][0]["states"][0]["presence"] == "broken"
    problem = data["hosts"][0]["states"][0]["problems"][0]
    missing = "/gone/python" if gone == "python" else gone
    assert f"{missing}', which the hooks use, is missing; run: toolbus hosts" in problem
    assert "sent through" not in text


def test_two_installations_judge_twice(patient, monkeypatch):
    patient.configure()
    patient.install("gemini-cli")
    patient.install("gemini-cli", "--project")

    inside, _ = patient.examine("gemini-cli")
    monkeypatch.chdir(patient.path)
    above, _ = patient.examine("gemini-cli")

    assert "every event is judged twice" in inside
    assert "every event is judged twice" not in above


def test_a_hostile_environment_is_named(patient):
    patient.configure()
    patient.install("claude-code")
    values = {"LD_PRELOAD": "/x/evil.so", "PYTHONPATH": "/x/evil", "PATH": "/x", "MINE": "v4lue"}
    patient.write("work/.claude/settings.json", {"env": values})

    text, data = patient.examine("claude-code", code=1)

    (finding,) = findings(data, "open")
    assert "sets 'LD_PRELOAD', which loads other code" in finding
    idle = [each for each in findings(data, "fact") if "our hooks ignore it" in each]
    assert [name in each for name, each in zip(["PYTHONPATH", "PATH"], idle, strict=True)] == [
        True
    ] * 2
    assert not any(value in text for value in values.values())


def test_a_file_of_variables_is_read(patient):
    patient.configure()
    patient.install("gemini-cli")
    patient.write("work/.env", "A=1\n export DYLD_INSERT_LIBRARIES = /x/evil\n#LD_PRELOAD=x\n")

    _, data = patient.examine("gemini-cli", code=1)

    (finding,) = findings(data, "open")
    assert "sets 'DYLD_INSERT_LIBRARIES'" in finding
    assert "evil" not in finding


def test_another_program_s_hook_is_named(patient):
    patient.configure()
    patient.install("claude-code", "vibe", "pi")
    group = {"hooks": [{"type": "command", "command": "rewrite \x1b[2J\n" + "x" * 500}]}
    patient.write(
        "work/.claude/settings.json", {"hooks": {"PostToolUse": [group], "Stop": [group]}}
    )
    patient.write("work/.vibe/hooks.toml", '[[hooks]]\ntype = "pre_tool"\ncommand = "mine"\n')
    patient.write(".pi/agent/extensions/other.ts", "")

    text, data = patient.examine("claude-code", "vibe", "pi")

    claude, vibe, pi = [others(data, host) for host in range(3)]
    assert len(claude) == len(vibe) == len(pi) == 1
    assert "another hook for PostToolUse" in claude[0]
    assert "the model reads either" in claude[0]
    assert "the last one decides" in vibe[0]
    assert "other.ts" in pi[0]
    assert text.isprintable()
    assert "x" * 100 not in text


def test_an_imitation_of_our_hook_is_named(patient):
    patient.configure()
    patient.install("claude-code")
    command = (
        f"evil # {patient.path}/.local/state/toolbus/hooks/claude-code.user/hook.py claude-code x"
    )
    group = {"matcher": "*", "hooks": [{"type": "command", "command": command}]}
    patient.write("work/.claude/settings.json", {"hooks": {"PostToolUse": [group]}})

    _, data = patient.examine("claude-code")

    (warning,) = others(data)
    assert "another hook for PostToolUse" in warning
    assert "'evil # " in warning


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("pipe", "it is not a regular file"),
        ("symlink", "is a symlink to"),
        ("broken", "invalid JSON"),
        ("large", "it is longer than"),
    ],
)
def test_settings_are_unreadable(patient, kind, reason):
    patient.configure()
    patient.install("gemini-cli")
    file = patient.write("work/.gemini/settings.json", "{" + " " * 2_000_000 * (kind == "large"))
    if kind in {"pipe", "symlink"}:
        file.unlink()
        if kind == "pipe":
            os.mkfifo(file)
        else:
            file.symlink_to(patient.write("elsewhere.json", "{}"))

    _, data = patient.examine("gemini-cli")

    warnings = findings(data, "warning")
    assert any(reason in each and str(file) in each for each in warnings)


def test_a_program_of_the_project_is_not_run(patient, monkeypatch):
    mark = patient.path / "ran"
    program = patient.write("work/bin/gemini", f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    text, _ = patient.examine("gemini-cli")

    assert f"{program} belongs to the project, so it is not run" in text
    assert not mark.exists()


@FULL
def test_a_hostile_project_runs_nothing(patient, monkeypatch):
    mark = patient.path / "ran"
    leave = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    for name in ("toolbus", "json", "hook_client", "sitecustomize", "_socket", "policy"):
        patient.write(f"work/{name}.py", leave)
    for name in ("gemini", "codex", "python", "sh"):
        patient.write(f"work/{name}", f"#!/bin/sh\ntouch {mark}\n").chmod(0o755)
    patient.configure()
    patient.write("work/toolbus.toml", '[[component]]\nuse = "./policy.py"\n')
    patient.install("gemini-cli")

    done = subprocess.run(
        [sys.executable, "-P", "-m", "toolbus", "doctor", "gemini-cli"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "is not trusted, so it is not active" in " ".join(done.stdout.split())
    assert "were answered correctly" in " ".join(done.stdout.split())
    assert not mark.exists()


def test_deliveries_differ_by_host(patient):
    patient.write(".config/toolbus/p.toml", 'default = "ask"\nfolder = "."\n')
    use = '[[component]]\nuse = "policy"\nsettings = { file = "p.toml" }\n'
    patient.configure(f"{REDACT}{use}")
    patient.install("claude-code", "cursor", "gemini-cli")

    text, data = patient.examine("claude-code", "cursor", "gemini-cli")

    claude, cursor, gemini = [
        {each["component"]: each for each in host["deliveries"]} for host in data["hosts"]
    ]
    assert claude["redact-secrets"]["delivered"] == ["deny", "ask", "replace_result"]
    assert claude["redact-secrets"]["undelivered"] == ["replace_failure"]
    assert claude["policy"]["delivered"][:2] == ["deny", "ask"]
    assert cursor["redact-secrets"]["mcp_only"] == ["replace_result"]
    assert gemini["redact-secrets"]["delivered"] == ["deny", "replace_result", "replace_failure"]
    assert gemini["policy"]["undelivered"] == ["ask"]
    assert "put the proxy in front of MCP servers" in text
    assert "the question waits in `toolbus approvals`" in text


def test_unseen_texts_are_named_for_flow(patient):
    patient.configure(REDACT + '[[component]]\nuse = "flow"\n')
    patient.install("claude-code", "vibe")

    text, data = patient.examine("claude-code", "vibe", "fastmcp", "strands")

    unseen = [
        {each["component"]: each["unseen"] for each in reach}
        for reach in (
            *[host["deliveries"] for host in data["hosts"]],
            *[framework["components"] for framework in data["frameworks"]],
        )
    ]
    assert [each["redact-secrets"] for each in unseen] == [""] * 4
    starts = [each["flow"].partition(";")[0] for each in unseen]
    assert "memory files" in starts[0]
    assert "prompts" not in starts[0]
    assert "prompts" in starts[1]
    assert "provider's own tools" in starts[2]
    assert "answers of the clients" in starts[3]
    assert text.count("they are unknown, which counts as untrusted") == 4
    assert "model:call:before" not in text


def test_an_unusable_key_is_reported(patient):
    patient.configure()
    warnings = {}
    for kind, data, mode in (
        ("shared", b"k" * 32, 0o644),
        ("short", b"k", 0o600),
        ("none", b"", 0),
    ):
        file = patient.path / ".local/state/toolbus/hidden-values.key"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(mode)
        if kind == "none":
            file.unlink()
        _, told = patient.examine()
        warnings[kind] = [each["text"] for each in told["configuration"]["findings"]]

    ((shared,), (short,)) = warnings["shared"], warnings["short"]
    assert "a new placeholder" in shared
    assert f"chmod 600 {file}" in shared
    assert "expected 32 bytes; remove it" in short
    assert (warnings["none"], file.exists()) == ([], False)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (None, "no configuration is active here"),
        ("", "names no component that judges"),
        ('[[component]]\nuse = "./plain.py"\n', "names no component that judges"),
    ],
)
def test_without_a_configuration_protection_is_missing(patient, config, why):
    if config is not None:
        patient.configure(config)
    plain = "from toolbus import AgentComponent\nclass Plain(AgentComponent): ...\n"
    patient.write(".config/toolbus/plain.py", plain)
    patient.install("gemini-cli", code=1)

    text, data = patient.examine("gemini-cli", code=1)

    (finding,) = findings(data, "open")
    assert finding.startswith("nothing is judged yet, so every call and every result passes")
    assert why in finding
    assert "run: toolbus setup gemini-cli" in finding
    assert "✗ open: nothing is judged" in text


@pytest.mark.parametrize("left", [None, "", "# mine\n"])
def test_a_lost_configuration_is_broken(patient, left):
    file = patient.configure()
    patient.install("gemini-cli")
    file.unlink() if left is None else file.write_text(left)

    _, data = patient.examine("gemini-cli", code=1)

    (finding,) = findings(data, "broken")
    assert finding.startswith(f"every event is blocked: {file} was active when")
    assert "toolbus setup" in finding
    assert findings(data, "open") == []


def test_hooks_older_than_the_configuration(patient):
    patient.install("gemini-cli", code=1)
    file = patient.configure()

    _, before = patient.examine("gemini-cli")
    patient.install("gemini-cli")
    _, after = patient.examine("gemini-cli")

    assert any(
        f"installed before {file}" in each and "toolbus hosts install gemini-cli" in each
        for each in findings(before, "warning")
    )
    assert not any("installed before" in each for each in findings(after, "warning"))


def test_a_named_framework_shows_its_limits(patient):
    patient.write(
        ".config/toolbus/watch.py",
        "from toolbus import AgentComponent, events, on\n"
        "class Watch(AgentComponent):\n"
        "    @on(events.MODEL_CALL_BEFORE)\n"
        "    def see(self, ctx): ...\n",
    )
    patient.configure(REDACT + '[[component]]\nuse = "./watch.py:Watch"\n')

    text, data = patient.examine("strands")

    (framework,) = data["frameworks"]
    by_name = {each["component"]: each for each in framework["components"]}
    assert framework["version"] is None
    assert ".[strands]" in text
    assert "replace_result" in by_name["redact-secrets"]["delivered"]
    assert by_name["./watch.py:Watch"]["undelivered"] == ["model_calls"]
    assert "not: model calls; handlers of requests to the model do not run" in text
    assert "tools that the provider runs are not seen" in text
    assert data["hosts"] == []


def test_an_unknown_name_lists_the_frameworks(patient, capsys):
    assert main(["doctor", "langchian"]) == 2

    assert "did you mean 'langchain'?" in capsys.readouterr().err
