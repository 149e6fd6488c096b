"""A command's end, told by the process above it."""

import sys

import pytest

from toolbus.workspace.processes import find_python, run_process


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -9 $PPID; sleep 3600"], 137),
        (["no-such-program"], 127),
    ],
)
async def test_every_end_is_a_status(tmp_path, command, status):
    result = await run_process(command, folder=tmp_path, seconds=60, limit=1_000)

    assert result.exit_status == status


async def test_a_command_begins_as_a_shell_begins_one(tmp_path):
    shown = (
        "import os, signal; print(os.getsid(0) == os.getpid(), signal.getsignal(signal.SIGPIPE))"
    )
    command = [sys.executable, "-c", f"{shown}; print(sorted(os.listdir('/dev/fd')))"]
    catches = [
        "sh",
        "-c",
        'trap "" TERM; kill -TERM $$; echo "$$ goes on" >/dev/null; yes | head -1',
    ]

    first = await run_process(command, folder=tmp_path, seconds=60, limit=1_000)
    second = await run_process(catches, folder=tmp_path, seconds=60, limit=1_000)

    assert first.output.startswith("True ")
    assert second.output == "y\n"


def test_another_program_with_python_in_it_is_not_started(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    found = find_python()
    monkeypatch.setattr(sys, "base_exec_prefix", "/nowhere")

    assert found.rpartition("/")[2].startswith("python3")
    with pytest.raises(OSError, match="need a Python interpreter"):
        find_python()
