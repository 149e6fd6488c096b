"""The scenarios of `specs/hook_worker.md`, with the real client, workers and children."""

import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import sys
import threading
from contextlib import chdir
from hashlib import sha256
from pathlib import Path

import pytest

import toolbus
from installed_hooks import SECRET, InstalledHooks
from toolbus.hosts.run.hook_client import read_settings, socket_name

REDACTION = '[[component]]\nuse = "redact-secrets"\n'
POLICY = """
[[component]]
use = "policy"
[component.settings]
default = "allow"
"""
RULE = """
[[component.settings.rule]]
name = "no-removal"
verdict = "deny"
command = "rm"
reason = "nothing is removed here"
"""
COMPONENT = '[[component]]\nuse = "./rules.py:Rules"\n'
IMPORTS = "import os, signal, time\nfrom toolbus import AgentComponent, Deny, events, guard\n"
RULES = """
class Rules(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        {}
"""


@pytest.fixture
def install(tmp_path):
    installed = []

    def make(config=REDACTION, rules="", **changes):
        (tmp_path / "rules.py").write_text(IMPORTS + RULES.format(rules or "pass"))
        installed.append(InstalledHooks(tmp_path, config, **changes))
        return installed[-1]

    yield make
    for each in installed:
        each.close()


def without_numbers(answer):
    """Return *answer* without what tells one secret, and one session, from another."""
    return re.sub(r"\[github-pat-[^]]*\]", "[secret]", json.dumps(answer))


def test_a_worker_answers_as_a_child_does(install):
    hooks = install()
    local = hooks.result()
    worker = hooks.await_worker()
    warm = hooks.result()
    assert hooks.workers == [worker]
    assert without_numbers(warm) == without_numbers(local)
    assert warm["decision"] == "deny"
    assert warm["reason"].startswith("token ")
    assert SECRET not in json.dumps(warm)


def random_event(chooser, number):
    """Return an event's name and fields, as a host, a model or somebody hostile may send them."""
    pick = chooser.choice
    text = pick(["", "fine", f"a {SECRET} b", SECRET * 2, "\ud800", "x\n" * 30_000, None, [SECRET]])
    command = pick(["ls", "rm x", "cd /tmp && rm y", f"echo {SECRET}", 'echo "', "\0", 5])
    fields = {
        "session_id": f"{number % 3}",
        "cwd": pick(["/tmp", "/none", "", "relative", 5]) if chooser.random() < 0.3 else None,
        "tool_name": pick(["run_shell_command"] * 4 + ["mcp_a_b", None]),
        "tool_input": pick([{"command": command}] * 4 + [None, [], {SECRET: 1}]),
        "tool_response": pick([{"llmContent": text}] * 4 + [None, {"error": {"message": text}}]),
        "prompt": text,
    }
    return pick(["BeforeTool", "AfterTool", "BeforeAgent"]), fields


@pytest.mark.full
def test_random_events_are_answered_alike(install):
    hooks, chooser = install(POLICY + RULE + REDACTION), random.Random(17)
    events = [random_event(chooser, number) for number in range(100)]

    def answers(prefix):
        for event, fields in events:
            session, folder = prefix + fields["session_id"], fields["cwd"]
            folder = str(hooks.work) if folder is None else folder
            with hooks.start(event) as client:
                said = {**fields, "session_id": session, "cwd": folder}
                stdout, stderr = client.communicate(hooks.payload(event, **said))
            answer = hooks.answer_of(client.returncode, stdout, stderr)
            yield event, folder, re.sub(r"question \w+", "QUESTION", without_numbers(answer))

    hooks.sockets.write_text("")
    local = list(answers("local"))
    hooks.sockets.unlink()
    hooks.result()
    hooks.await_worker()
    assert list(answers("warm")) == local
    assert len({answer for _, _, answer in local}) > 5
    files = [each for each in hooks.folder.rglob("*") if each.is_file()]
    assert not any(SECRET.encode() in file.read_bytes() for file in files)


@pytest.mark.full
def test_twenty_concurrent_events_are_stored_once(install):
    hooks = install()
    for turn in range(2):
        texts = [f"prompt {turn} {number}" for number in range(20)]
        clients = [hooks.start("BeforeAgent") for _ in texts]
        for client, text in zip(clients, texts, strict=True):
            client.stdin.write(hooks.payload("BeforeAgent", prompt=text))
            client.stdin.close()
        for client in clients:
            with client:
                assert (client.stdout.read(), client.stderr.read()) == (b"", b"")
                assert client.wait() == 0
        hooks.await_worker()
    everything = [f"prompt {turn} {number}" for turn in range(2) for number in range(20)]
    assert sorted(hooks.prompts_kept()) == sorted(everything)
    assert len(hooks.workers) == 1


@pytest.mark.full
def test_a_killed_worker_lets_nothing_pass(install):
    hooks = install()
    hooks.result()
    expected = []
    for number in range(1, 101):
        worker = hooks.await_worker(number)
        timer = threading.Timer(number / 2000, os.kill, (worker, signal.SIGKILL))
        timer.start()
        if number % 2:
            answer = hooks.result()
            assert answer["decision"] == "deny"
            assert SECRET not in json.dumps(answer)
        elif hooks.prompt(f"prompt {number}") == {}:
            expected.append(f"prompt {number}")
        timer.join()
        while hooks.log.count(" ready") <= number:
            hooks.result()  # Somebody has to want the next worker when the lock is free.
    assert hooks.prompts_kept() == expected


@pytest.mark.full
def test_a_killed_worker_changes_no_placeholder(install):
    asks = 'name = "own"\nverdict = "ask"\ncommand = "deploy"\nreason = "it is for ever"\n'
    hooks = install(REDACTION + POLICY + "[[component.settings.rule]]\n" + asks)
    names, told = [], []
    for number in (1, 2):
        for wait in (False, True):
            told.append(hooks.call(f"deploy {SECRET}"))
            results = [hooks.result(f"token {each} end") for each in (SECRET, SECRET[:-1] + "z")]
            names += re.findall(r"\[[a-z-]+-[a-z][a-z2-7]{15}\]", json.dumps(results))
            if not wait:
                worker = hooks.await_worker(number)
        os.kill(worker, signal.SIGKILL)

    (question,) = hooks.questions()
    hooks.approve(question)
    passed, again = [hooks.call(f"deploy {SECRET}") for _ in range(2)]

    assert names == [*names[:2]] * 4
    assert len({*names}) == 2
    assert all(question.id in each["reason"] for each in told)
    assert (passed, again["decision"]) == ({}, "deny")
    assert [each.state for each in hooks.questions()] == ["taken", "pending"]


TELLING = """
import os, signal
from toolbus import AgentComponent, Deny, events, guard, on

class Rules(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny("no")

    @on(events.TOOL_CALL_AFTER)
    def note(self, ctx):
        with open({told!r}, "a") as file:
            print(ctx.value.status, ctx.value.again, file=file)
        if os.path.exists({kill!r}):
            os.remove({kill!r})
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("event", ["call", "result"])
def test_a_repeated_outcome_is_marked(install, tmp_path, event):
    hooks, told, kill = install(COMPONENT), tmp_path / "told", tmp_path / "kill"
    (tmp_path / "rules.py").write_text(TELLING.format(told=str(told), kill=str(kill)))
    tell = getattr(hooks, event)
    tell()
    hooks.await_worker()
    kill.touch()
    tell()
    tell()

    status = {"call": "denied", "result": "ok"}[event]
    marks = ["False", "False", "True", "False"]
    assert told.read_text().splitlines() == [f"{status} {mark}" for mark in marks]


@pytest.mark.full
def test_a_killed_child_blocks(install):
    hooks = install(COMPONENT, "os.kill(os.getpid(), signal.SIGKILL)")
    hooks.sockets.write_text("")
    assert hooks.is_block(hooks.call(), "BeforeTool")
    # And with a worker, which dies of it, too.
    hooks.sockets.unlink()
    assert hooks.is_block(hooks.call(), "BeforeTool")
    hooks.await_worker()
    assert hooks.is_block(hooks.call(), "BeforeTool")


@pytest.mark.full
def test_a_crash_writes_no_memory(install):
    limits = "__import__('resource').getrlimit(__import__('resource').RLIMIT_CORE)"
    hooks = install(COMPONENT, f"return Deny(str({limits}))")
    local = hooks.call()
    hooks.await_worker()
    assert [local["reason"], hooks.call()["reason"]] == ["(0, 0)", "(0, 0)"]


@pytest.mark.full
def test_a_stopped_worker_stops_no_event(install):
    hooks = install()
    expected = without_numbers(hooks.result())
    os.kill(hooks.await_worker(), signal.SIGSTOP)
    assert without_numbers(hooks.result()) == expected


@pytest.mark.full
def test_a_hanging_component_blocks_in_time(install):
    hooks = install(COMPONENT, "time.sleep(600)", limit=2.0)
    answers = [hooks.call()]
    hooks.await_worker()
    answers.append(hooks.call())
    assert [answer["decision"] for answer in answers] == ["deny", "deny"]


def test_a_full_disk_blocks(install):
    hooks = install()

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    answer = hooks.result(preexec_fn=fill)
    assert answer["decision"] == "deny"
    assert SECRET not in json.dumps(answer)


def test_a_missing_part_blocks(install, tmp_path):
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    package = tmp_path / "package"
    package.mkdir()
    (package / "toolbus").symlink_to(Path(toolbus.__file__).parent)
    hooks = install(python=str(python), search_path=(str(package),))
    line = hooks.line("AfterTool")
    removals = [
        (package / "toolbus").unlink,
        (hooks.script.parent / "settings").unlink,
        (hooks.script.parent / "hook_client.py").unlink,
        hooks.script.unlink,
        lambda: shutil.rmtree(hooks.script.parent),
        python.unlink,
    ]
    for remove in removals:
        remove()
        assert hooks.is_block(hooks.result(line=line), "AfterTool"), remove


def test_settings_writable_by_others_block(install):
    hooks = install()
    settings = hooks.script.parent / "settings"
    line = hooks.line("AfterTool")
    settings.chmod(0o666)
    assert hooks.is_block(hooks.result(line=line), "AfterTool")
    settings.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(settings, 12345, 12345)
        assert hooks.is_block(hooks.result(line=line), "AfterTool")
    assert not hooks.store.parent.exists()


@pytest.mark.full
def test_a_changed_configuration_applies_at_once(install):
    hooks = install(POLICY)
    assert hooks.call() == {}
    hooks.await_worker()
    assert hooks.call() == {}
    hooks.config.write_text(POLICY + RULE)
    assert hooks.call()["decision"] == "deny"
    hooks.await_worker(2)
    assert hooks.call()["decision"] == "deny"
    assert len(hooks.workers) == 1


@pytest.mark.full
def test_a_changed_component_applies_at_once(install, tmp_path):
    hooks = install(COMPONENT)
    hooks.call()
    hooks.await_worker()
    assert hooks.call() == {}
    (tmp_path / "rules.py").write_text(IMPORTS + RULES.format("return Deny('no')"))
    assert hooks.call()["decision"] == "deny"


@pytest.mark.full
def test_a_new_version_ends_the_worker(install, tmp_path):
    package = tmp_path / "package"
    shutil.copytree(Path(toolbus.__file__).parent, package / "toolbus")
    places = [each for each in sys.path if each.endswith("-packages")]
    # Before the one that is installed here: what the client adds comes last.
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={package}:{':'.join(places)}\n"
        f'shift\nexec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    hooks = install(COMPONENT, "return Deny(__import__('toolbus').__file__)", python=str(python))
    script = [sys.executable, "-I", "-S", str(hooks.script)]
    line = hooks.line("BeforeTool").replace(f"{python} -I -S {hooks.script}", " ".join(script))
    assert str(package) in hooks.call(line=line)["reason"]
    worker = hooks.await_worker()
    package.rename(tmp_path / "old")
    shutil.copytree(tmp_path / "old", package)
    (package / "toolbus" / "__init__.py").write_text(
        (package / "toolbus" / "__init__.py").read_text() + "\n"
    )
    assert str(package) in hooks.call(line=line)["reason"]
    assert worker not in hooks.workers


@pytest.mark.parametrize(
    "left",
    [
        None,
        *(pytest.param(each, marks=pytest.mark.full) for each in (b"", b"# mine\n")),
        b"disabled",
    ],
)
def test_a_lost_configuration_blocks_every_event(install, tmp_path, left):
    own = tmp_path / "home/.config/toolbus/toolbus.toml"
    own.parent.mkdir(parents=True)
    text = REDACTION + POLICY
    own.write_text(text)
    trusted = tmp_path / "work/toolbus.toml"
    hooks = install(personal=True, required=str(own))
    trusted.write_text('[[component]]\nuse = "truncate-output"\n')
    digest = sha256(trusted.read_bytes()).hexdigest()
    trust = own.with_name("trusted.json")
    trust.write_text(json.dumps({"version": 1, "files": {str(trusted): {str(trusted): digest}}}))
    trust.chmod(0o600)
    assert hooks.call() == {}
    hooks.await_worker()

    def lose():
        if left is None:
            own.unlink()
        else:
            own.write_bytes(left.replace(b"disabled", f"{REDACTION}enabled = false\n".encode()))

    lose()
    denied = [hooks.call() for _ in range(2)]
    hooks.await_worker(2)
    denied += [hooks.call(), hooks.result()]
    own.write_text(text)
    allowed = hooks.call()

    assert [each["decision"] for each in denied] == ["deny"] * 4
    assert all(str(own) in each["reason"] for each in denied)
    assert all("toolbus setup" in each["reason"] for each in denied)
    assert SECRET not in json.dumps(denied)
    assert allowed == {}


HOSTILE = "import os\nopen({!r}, 'w').close()\nraise SystemExit('hostile')\n"
NAMES = ("json", "msgspec", "toolbus", "socket", "os", "asyncio", "sitecustomize", "hook_client")


def plant(folder, mark):
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*NAMES, "_socket", "usercustomize", "encodings"):
        (folder / f"{name}.py").write_text(HOSTILE.format(str(mark)))


def test_a_hostile_environment_changes_nothing(install, tmp_path):
    hooks = install()
    expected = without_numbers(hooks.result())
    hooks.await_worker()
    hostile, mark = tmp_path / "hostile", tmp_path / "mark"
    plant(hostile, mark)
    (hostile / "toolbus").mkdir()
    (hostile / "toolbus" / "toolbus.toml").write_text("not a configuration")
    names = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "HOME", "TMPDIR", "PYTHONPLATLIBDIR")
    names += ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME")
    environment = {**dict.fromkeys(names, str(hostile)), "PATH": str(hostile)}
    environment |= {"PYTHONSTARTUP": str(hostile / "os.py"), "PYTHONINSPECT": "1"}
    environment |= {"PYTHONWARNINGS": "error", "PYTHONBREAKPOINT": "os.system"}
    assert without_numbers(hooks.result(env=environment)) == expected
    hooks.close()
    hooks.sockets.rename(tmp_path / "gone")
    assert without_numbers(hooks.result(env=environment)) == expected
    assert hooks.is_block(
        hooks.result(env=environment, line=hooks.line("AfterTool").replace("hook.py", "no.py")),
        "AfterTool",
    )
    assert not mark.exists()


def test_a_hostile_working_folder_changes_nothing(install, tmp_path):
    hooks = install()
    plant(hooks.work, tmp_path / "mark")
    (hooks.work / "toolbus").mkdir()
    (hooks.work / "toolbus" / "__init__.py").write_text(HOSTILE.format(str(tmp_path / "mark")))
    (hooks.work / "pyvenv.cfg").write_text("home = /nowhere\n")
    local = hooks.result()
    hooks.await_worker()
    assert without_numbers(hooks.result()) == without_numbers(local)
    assert local["reason"].startswith("token ")
    assert not (tmp_path / "mark").exists()


@pytest.mark.full
@pytest.mark.parametrize("how", ["link", "shared"])
def test_a_foreign_folder_of_sockets_is_ignored(install, tmp_path, how):
    hooks = install()
    if how == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        hooks.sockets.symlink_to(tmp_path / "elsewhere")
    else:
        hooks.sockets.mkdir()
        hooks.sockets.chmod(0o770)
    digest = read_settings(str(hooks.script.parent / "settings"))[b"digest"][0]
    name = socket_name(digest, os.fsencode(hooks.work)).decode()
    with socket.socket(socket.AF_UNIX) as listener:
        with chdir(hooks.sockets):  # The whole path may be too long for a socket.
            listener.bind(name)
        listener.listen()
        listener.settimeout(0)
        assert hooks.result()["reason"].startswith("token ")
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert hooks.log == ""
