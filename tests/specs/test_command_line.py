"""The scenarios of `specs/command_line.md`."""

import asyncio
import importlib
import json
import os
import pkgutil
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import toolbus
from terminals import on_terminal
from toolbus import UserMessage
from toolbus.cli.command_line import main
from toolbus.store import AppendRequest
from toolbus.store.sqlite import SqliteStore

COMMANDS = (
    "anchor",
    *("approvals", "check", "completion", "copy", "demo", "diff", "doctor", "explain", "export"),
    *("forget", "guide", "handlers", "hook"),
    *("hosts", "login", "logout", "pin", "policy", "proxy", "replay", "run", "runs"),
    *("schema", "sessions", "setup", "show", "submit", "trust", "ui", "worker"),
)
COMPONENT = """
from toolbus import AgentComponent, events, on
class Quiet(AgentComponent):
    @on(events.TOOL_CALL_BEFORE)
    def look(self, ctx): ...
"""


@contextmanager
def unprivileged():
    """Be somebody whom permissions stop, also where the tests run as root."""
    if os.geteuid():
        yield
        return
    # What is loaded late by what is tested may lie where only root may read.
    ours = [module.name for module in pkgutil.walk_packages(toolbus.__path__, "toolbus.")]
    # A bridge needs its framework, and no command imports one.
    loaded = [name for name in ours if name != "toolbus.__main__" and name.count(".") < 3]
    loaded += [name for name in ours if name.count(".") > 2 and ".bridges." not in name]
    for name in ("grp", *loaded):
        importlib.import_module(name)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public_folder(monkeypatch):
    """Make a folder the current one that everybody may enter, and write to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        monkeypatch.chdir(folder)
        yield
        monkeypatch.undo()


async def make_store(path):
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(message=UserMessage(id="u", content="hi")))


def one_line(done):
    """Return the line of a command that was used wrongly."""
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr.removesuffix("\n")


@pytest.fixture
def quiet(tmp_path):
    """Return the folder of the command, with a component in a file."""
    (tmp_path / "here/quiet.py").write_text(COMPONENT)
    return tmp_path / "here"


async def test_help_shows_commands_and_examples(command):
    done = command("--help")

    assert (done.returncode, done.stderr) == (0, "")
    for one in COMMANDS:
        assert re.search(rf"^  {one} +\w", done.stdout, re.MULTILINE)
        assert f"\n  toolbus {one}" in done.stdout
    assert "exit codes:" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
async def test_each_command_has_examples(command, name):
    done = command(name, "--help")

    assert (done.returncode, done.stderr) == (0, "")
    # What these write is JSON anyway, and a page is for people.
    assert name in {"completion", "export", "hook", "proxy", "schema", "ui", "worker"} or re.search(
        r"^  --json +\w", done.stdout, re.MULTILINE
    )
    assert done.stdout.count(f"\n  toolbus {name} ") >= 3
    assert max(map(len, done.stdout.splitlines())) <= 80


async def test_the_version_is_printed(tmp_path, command, environment):
    package = tmp_path / "installed/toolbus-9.8.7.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toolbus\nVersion: 9.8.7\n")

    path = f"{package.parent}{os.pathsep}{environment['PYTHONPATH']}"
    done = command("--version", PYTHONPATH=path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "toolbus 9.8.7\n", "")


async def test_a_longer_version_lists_the_extras(command):
    short, long = command("-V").stdout, command("--version", "--verbose").stdout

    assert long.startswith(short)
    assert "\n  cli: installed\n" in long
    assert "\n  dev:" not in long


async def test_an_unknown_command_names_the_nearest(command):
    near, far = one_line(command("handler")), one_line(command("fly"))

    assert (
        near == "error: unknown command 'handler'; did you mean 'handlers'?; see `toolbus --help`"
    )
    known = ", ".join(COMMANDS)
    assert far == f"error: unknown command 'fly'; commands: {known}; see `toolbus --help`"


async def test_a_former_name_names_the_new_one(command):
    line = one_line(command("wiring", "agent.py"))

    told = "unknown command 'wiring'; it is called `toolbus handlers` now"
    assert line == f"error: {told}; see `toolbus --help`"


async def test_an_unknown_option_names_the_nearest(command):
    for words, wrong, right in (
        (["demo", "--sed=7"], "--sed=7", "--seed"),
        (["handlers", "x", "--jsn"], "--jsn", "--json"),
        (["sessions", "x", "--jsno"], "--jsno", "--json"),
        (["show", "x", "y", "--folow"], "--folow", "--follow"),
        (["explain", "x", "y", "--sesion"], "--sesion", "--session"),
        (["forget", "x", "y", "--jso"], "--jso", "--json"),
        (["--versio"], "--versio", "--version"),
    ):
        program = " ".join(["toolbus", *words[:1]]) if words[0] in COMMANDS else "toolbus"
        told = f"error: unknown option {wrong!r}; did you mean {right!r}?"
        assert one_line(command(*words)) == f"{told}; see `{program} --help`"


async def test_a_bad_value_is_named(command):
    for seed in ("x", "-1", "1.5", ""):
        line = one_line(command("demo", f"--seed={seed}"))
        assert f"argument --seed: expected a whole number, got {seed!r};" in line
    assert "unknown argument 'again'; see" in one_line(command("demo", "again"))


async def test_a_missing_command_is_a_usage_error(command):
    assert one_line(command()) == "error: the command is missing; see `toolbus --help`"
    line = one_line(command("forget"))
    assert line.startswith("error: missing: STORE;")


@pytest.mark.full
async def test_a_missing_store_is_a_usage_error(command, tmp_path):
    folder, other, newer = [tmp_path / name for name in ("folder", "other.db", "newer.db")]
    folder.mkdir()
    for path, statement in (
        (other, "CREATE TABLE mine (x)"),
        (newer, "PRAGMA application_id = 0x74627573; PRAGMA user_version = 99; CREATE TABLE t (x)"),
    ):
        with closing(sqlite3.connect(path)) as made:
            made.executescript(statement)

    for path in (tmp_path / "missing.db", folder, other, newer):
        lines = {
            one_line(command(*words))
            for words in (
                ("check", path),
                ("sessions", path),
                ("show", path, "s"),
                ("explain", path, "m"),
                ("diff", path, "s", "s"),
                ("export", path),
                ("forget", path, "s"),
            )
        }

        assert len(lines) == 1
        assert str(path) in lines.pop()


READERS = {
    "a.db": [["sessions", "a.db"], ["check", "a.db"], ["replay", "a.db", "--with", "ours.py"]],
    "a.jsonl": [["replay", "a.jsonl", "--with", "ours.py"]],
    "mine.py": [["handlers", "mine.py"], ["replay", "ours.db", "--with", "mine.py"]],
    "a.toml": [["handlers", "--config", "a.toml"]],
    "a.json": [["replay", "ours.db", "--with", "ours.py", "--check", "a.json"]],
}


def test_an_unreadable_file_is_named(public_folder, capfd):
    asyncio.run(make_store("a.db"))
    asyncio.run(make_store("ours.db"))
    for name in ("a.jsonl", "mine.py", "a.toml", "a.json", "ours.py"):
        Path(name).write_text(COMPONENT)
    for name in READERS:
        Path(name).chmod(0)
    for name in ("ours.db", "ours.py"):
        Path(name).chmod(0o444)

    for name, commands in READERS.items():
        for words in commands:
            with unprivileged():
                code = main(words)
            (line,) = capfd.readouterr().err.splitlines()
            assert code in {1, 2}
            assert name in line
            assert re.search("(cannot be|not) read.*permission", line.lower())
            assert "Errno" not in line


def test_an_unwritable_file_is_named(public_folder, capfd):
    asyncio.run(make_store("a.db"))
    Path("a.db").chmod(0o444)
    Path("folder").mkdir(mode=0o555)
    Path("ours.py").write_text(COMPONENT)
    wrong = {
        ("forget", "a.db", "s"): "store 'a.db': the file is read-only; make it writable",
        ("export", "a.db", "-o", "folder/x"): "folder/x: cannot create a file in the folder",
        ("replay", "a.db", "--with", "ours.py", "--check", "folder/x", "--update"): "folder/x: ca",
    }

    for words, reason in wrong.items():
        with unprivileged():
            code = main(words)
        (line,) = capfd.readouterr().err.splitlines()
        assert (code, line[: len(reason) + 7]) == (2, f"error: {reason}")
        assert not re.search("Errno|read_only|[.]toolbus-", line)
    assert list(Path("folder").iterdir()) == []


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Return a home folder, which is the current one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def denied(house):
    rules = """[[component]]
use = "policy"
settings = { default = "deny" }
"""
    (house / "rules.toml").write_text(rules)
    facts = {"session_id": "s", "cwd": str(house), "tool_name": "Bash", "tool_use_id": "t1"}
    event = json.dumps({**facts, "tool_input": {"command": "git push"}})
    hook = [sys.executable, "-m", "toolbus", "hook", "claude-code", "PreToolUse"]
    subprocess.run([*hook, "--config", "rules.toml"], input=event, text=True, check=True)


@pytest.mark.usefixtures("denied")
def test_the_hooks_store_is_found(capsys):
    def shown(*words):
        assert main(list(words)) == 0
        return capsys.readouterr().out

    assert "claude-code:s" in shown("sessions")
    assert "claude-code:s" in shown("check")
    for hooks in ([], ["hooks"]):
        assert "git push" in shown("show", *hooks, "claude-code:s")
        assert "denied" in shown("explain", *hooks, "--call", "claude-code:s/t1")
        assert "git push" in shown("export", *hooks, "claude-code:s")
    lines = map(json.loads, shown("show", "claude-code:s", "--json").splitlines())
    message = next(line["message"]["id"] for line in lines if "message" in line)
    assert message in shown("explain", message)
    assert "1 session" in shown("replay", "--with", "rules.toml")
    assert "1 copied" in shown("copy", "hooks", "copy.db")
    assert "0 copied, 1 were there already" in shown("copy", "copy.db", "hooks")
    assert not Path("hooks").exists()
    assert "0 originals" in shown("forget", "hooks", "claude-code:s")
    asyncio.run(make_store("hooks"))
    assert "claude-code:s" not in shown("sessions", "hooks")


@pytest.mark.usefixtures("denied")
def test_a_single_word_may_be_a_session(capsys):
    assert main(["show", "agent.db"]) == 2
    assert "the session of 'agent.db' is missing" in capsys.readouterr().err
    assert main(["explain", "agent.db"]) == 2
    assert "give one message id" in capsys.readouterr().err
    assert main(["explain", "nothing"]) == 2
    assert "no message 'nothing'" in capsys.readouterr().err


def test_without_any_hook_the_store_is_missing(house, capsys):
    assert main(["sessions"]) == 2
    refused = capsys.readouterr().err

    assert "no hook has run yet" in refused
    assert str(house / ".local/state/toolbus/hooks.db") in refused


async def test_piped_text_has_no_colour(command, quiet):
    demo, handlers = command("demo"), command("handlers", "quiet.py")

    assert [demo.returncode, handlers.returncode] == [0, 0]
    assert "\x1b" not in demo.stdout + handlers.stdout


async def test_a_terminal_gets_colours(command, environment, quiet):
    plain = command("handlers", "quiet.py").stdout

    code, coloured = on_terminal(environment, quiet, "handlers", "quiet.py")

    assert code == 0
    assert "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


@pytest.mark.parametrize("forbidden", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
async def test_colours_can_be_disabled(command, environment, quiet, forbidden):
    plain = command("handlers", "quiet.py").stdout

    written = on_terminal(environment | forbidden, quiet, "handlers", "quiet.py")

    assert written == (0, plain)


async def test_output_without_rich_is_plain(tmp_path, environment, quiet):
    (tmp_path / "without").mkdir()
    (tmp_path / "without/rich.py").write_text("raise ImportError('no rich here')")
    environment["PYTHONPATH"] = f"{tmp_path}/without{os.pathsep}{environment['PYTHONPATH']}"

    code, text = on_terminal(environment, quiet, "demo")

    assert code == 0
    assert text.endswith("every component intervened\n")
    assert "\x1b" not in text


async def test_text_cannot_control_terminals(environment, quiet):
    named = COMPONENT.replace("BEFORE)", "BEFORE, name='\\x1b]0;owned\\x07')")
    (quiet / "named.py").write_text(named)

    code, text = on_terminal(environment | {"NO_COLOR": "1"}, quiet, "handlers", "named.py")

    assert code == 0
    assert "]0;owned" in text
    assert not {"\x1b", "\x07"} & set(text)


@pytest.mark.parametrize("name", ["demo", "handlers"])
async def test_an_interrupted_command_exits_with_130(tmp_path, environment, name):
    ready, programs = tmp_path / "ready", tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(f"#!/bin/sh\ntouch {ready}\nexec sleep 30\n")
    (programs / "git").chmod(0o755)
    slow = tmp_path / "slow.py"
    slow.write_text(f"import pathlib, time\npathlib.Path({str(ready)!r}).touch()\ntime.sleep(30)\n")
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"

    with subprocess.Popen(
        [sys.executable, "-m", "toolbus", name, *([str(slow)] if name == "handlers" else [])],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        while not ready.exists():
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)

    assert child.returncode == 130
    assert errors == "\ntoolbus: interrupted\n"


async def test_a_reader_may_leave_early(tmp_path, environment):
    for arguments in (["demo"], ["--help"]):
        with subprocess.Popen(
            [sys.executable, "-m", "toolbus", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            if arguments[0] == "demo":
                child.stdout.readline()
            child.stdout.close()
            errors = child.stderr.read()
        assert (child.returncode, errors) == (0, "")
    (repository,) = (tmp_path / "tmp").glob("toolbus-demo-*/repo")
    last = subprocess.check_output(["git", "-C", repository, "log", "-1"], text=True)
    assert "Send batches of" in last


async def test_output_in_ascii_loses_no_line(command):
    ascii_only = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    rich, poor = command("demo", "--seed", 7), command("demo", "--seed", 7, **ascii_only)

    assert poor.returncode == 0
    assert poor.stdout.isascii()
    assert len(poor.stdout.splitlines()) == len(rich.stdout.splitlines())
    assert poor.stdout.count("?") == rich.stdout.count("?")
    assert "every component intervened" in poor.stdout


def test_the_shell_completes_commands_and_options(capsys):
    def offered(*words):
        assert main(["completion", "--candidates", "--", *words]) == 0
        return capsys.readouterr().out.split()

    assert offered("sh") == ["show"]
    assert {"--last", "--json"} <= set(offered("show", "--"))
    assert offered("policy", "e") == ["explain"]
    assert "--mcp" in offered("policy", "check", "--")
    assert offered("replay", "--format", "open") == ["openai"]
    assert offered("nothing", "") == offered("show", "agent.db", "3f") == []
    assert offered("show", "") == offered("proxy", "--", "./server", "--w") == []


def test_bash_completes_with_the_script():
    program = """
enable -n mapfile  # Bash 3.2, the bash of macOS, has no such command.
source <(toolbus completion bash)
COMP_WORDS=(toolbus policy ex); COMP_CWORD=2; _toolbus; printf '%s\\n' "${COMPREPLY[@]}"
"""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program], env=os.environ | {"PATH": path}, capture_output=True, check=True
    )

    assert done.stdout == b"explain\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_script_calls_the_program_on_path(shell, capsys):
    assert main(["completion", shell]) == 0
    assert "command toolbus completion --candidates --" in capsys.readouterr().out
