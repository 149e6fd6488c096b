"""`toolbus hook` as a process: what it reads, what it writes, and how it ends."""

import json
import os
import signal
import subprocess
import sys

import pytest

CALL = json.dumps(
    {"session_id": "s", "folder": "/", "call_id": "c", "tool": "bash", "arguments": {}}
).encode()
PROGRAM = "from toolbus.cli import main; sys.exit(main(['hook', 'pi', 'tool_call', *sys.argv[1:]]))"


@pytest.fixture
def run(tmp_path):
    def run(*words, data=CALL, before="", **options):
        # Neither variables nor the working folder of whoever runs the tests.
        environment = {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, "-c", f"import os, sys; {before}\n{PROGRAM}", *words],
            **({"input": data} if "stdin" not in options else {}),
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
            cwd=tmp_path,
            env=environment,
            timeout=60,
            check=False,
        )

    return run


def test_an_event_that_concerns_nobody_loads_little(run):
    leave = "os._exit = lambda code: os.write(9, ' '.join(sys.modules).encode())"
    reader, writer = os.pipe()
    done = run(before=f"os.dup2({writer}, 9); {leave}", pass_fds=(writer, 9))
    os.close(writer)
    loaded = set(os.read(reader, 2**16).decode().split())
    os.close(reader)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"{}", b"")
    assert "toolbus.hosts.run.event_answer" in loaded
    assert not loaded & {"asyncio", "pydantic", "sqlite3", "toolbus.bus", "toolbus.components"}


@pytest.mark.full
def test_an_input_without_end_is_blocked(run):
    reader, writer = os.pipe()
    done = run("--limit", "0.2", stdin=reader)
    os.close(reader)
    os.close(writer)

    assert "was not received in time" in json.loads(done.stdout)["block"]


def test_no_input_at_all_is_blocked(run):
    done = run(before="os.close(0)", stdin=subprocess.DEVNULL)

    assert "block" in json.loads(done.stdout)


def test_an_input_that_is_too_large_is_blocked(run):
    small = "from toolbus.hosts.run import event_input; event_input.MAX_BYTES = 10"
    done = run(before=small)

    assert "more than 10 bytes" in json.loads(done.stdout)["block"]


def test_without_a_home_folder_it_blocks(run):
    gone = "from pathlib import Path; Path.home = lambda: (_ for _ in ()).throw(RuntimeError())"
    done = run(before=gone)

    assert "no home" in json.loads(done.stdout)["block"]


@pytest.mark.parametrize("exits", ["KeyboardInterrupt", "SystemExit(1)"])
def test_a_component_that_exits_changes_no_code_behind_the_answer(run, tmp_path, exits):
    rules = (
        "from toolbus import AgentComponent, events, guard\n"
        "class Rules(AgentComponent):\n"
        "    @guard(events.TOOL_CALL_BEFORE)\n"
        f"    def judge(self, ctx): raise {exits}\n"
    )
    (tmp_path / "rules.py").write_text(rules)
    (tmp_path / "rules.toml").write_text('[[component]]\nuse = "./rules.py:Rules"\n')
    done = run("--config", "rules.toml")

    assert "block" in json.loads(done.stdout)
    assert done.returncode == 0


def test_an_answer_that_nobody_reads_is_no_success(run):
    done = run(before="os.close(1)", stdout=subprocess.DEVNULL)

    assert done.returncode == 2


def test_an_unknown_host_is_no_success(run):
    done = run(before="sys.argv[1:1] = []", data=b"{}")
    strange = subprocess.run(
        [sys.executable, "-m", "toolbus", "hook", "pie", "tool_call"],
        input=b"{}",
        capture_output=True,
        check=False,
    )

    assert "block" in json.loads(done.stdout)
    assert (strange.returncode, strange.stdout) == (2, b"")
    assert b"did you mean 'pi'" in strange.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_in_the_code_that_stops(run, number):
    ending = f"event_answer.answer = lambda *_, **__: os.kill(os.getpid(), {int(number)})"
    done = run(before=f"from toolbus.hosts.run import event_answer; {ending}")

    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")
