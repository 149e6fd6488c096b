"""The proxy where standard input and output are no pipes, and handlers that cannot be its own."""

import os
import select
import subprocess
import sys

import pytest

from toolbus import AgentComponent, EventBus, events
from toolbus.mcp.proxy.factory import load_components
from toolbus.settings.usage_error import UsageError

PROXY = [sys.executable, "-m", "toolbus", "proxy"]
HANDLERS = """
from toolbus import AgentComponent, EventBus, tool
bus, other = EventBus(), EventBus()
class Whole(AgentComponent): ...
class Lacking(AgentComponent):
    requires = (Whole,)
class Tooled(AgentComponent):
    @tool
    def work(self) -> None:
        "Work."
class Failing(AgentComponent):
    async def install(self, agent):
        raise OSError("no room")
"""


def test_files_are_read_and_written_to_their_end(tmp_path):
    lines = b'{"jsonrpc":"2.0","method":"x"}\n' * 50_000
    (tmp_path / "in").write_bytes(lines + b"no line end")

    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        command = [*PROXY, "--", "cat"]
        done = subprocess.run(
            command, stdin=source, stdout=target, timeout=60, check=False, stderr=subprocess.PIPE
        )

    # What `cat` says are notifications again, so they pass to the client as they are.
    assert (done.returncode, (tmp_path / "out").read_bytes()) == (0, lines)
    assert b"ended within a frame of 11 bytes" in done.stderr


def test_a_client_that_reads_no_more_ends_the_proxy(tmp_path):
    command = [*PROXY, "--grace", "0.2", "--", "yes", '{"method":"x"}']
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as proxy:
        assert proxy.stdout.readline() == b'{"method":"x"}\n'
        proxy.stdout.close()
        assert proxy.wait(60) in {141, 143}


def test_a_server_that_never_reads_cannot_hold_a_client_that_leaves():
    command = [*PROXY, "--grace", "0.2", "--", "sleep", "1000"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as proxy:
        os.set_blocking(proxy.stdin.fileno(), False)
        line = b'{"jsonrpc":"2.0","method":"%b"}\n' % (b"x" * 50_000)
        full = 0
        while full < 8:
            # Until the pipes on both sides of the proxy have been full for a while.
            try:
                os.write(proxy.stdin.fileno(), line)
                full = 0
            except BlockingIOError:
                full += 1
                select.select([], [proxy.stdin], [], 0.05)
        proxy.stdin.close()
        proxy.stdout.close()

        assert proxy.wait(60) == 143


def test_an_input_that_has_ended_before_it_began_ends_the_proxy():
    done = subprocess.run(
        [*PROXY, "--", "cat"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_one_bus_and_components_are_the_handlers(tmp_path):
    (tmp_path / "handlers.py").write_text(HANDLERS)
    file = tmp_path / "handlers.py"

    bus, components, _ = load_components([f"{file}:bus", f"{file}:Whole"])

    assert isinstance(bus, EventBus)
    assert not bus.handlers(events.TOOL_CALL_BEFORE)
    assert [one.name for one in components if isinstance(one, AgentComponent)] == ["Whole"]
    with pytest.raises(UsageError, match="is a second bus; give only one bus"):
        load_components([f"{file}:bus", f"{file}:other"])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--with", "handlers.py:Lacking"], 2),
        (["--with", "handlers.py:Tooled", "--with", "handlers.py:Tooled"], 2),
        (["--with", "handlers.py:nobody"], 2),
        (["--config", "none.toml"], 2),
        (["--store", "none/calls.db"], 2),
        (["--with", "handlers.py:Failing"], 1),
    ],
)
def test_what_is_wrong_is_told_before_the_server_has_effects(tmp_path, options, code):
    (tmp_path / "handlers.py").write_text(HANDLERS)

    done = subprocess.run(
        [*PROXY, *options, "--", "touch", "effect"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert not (tmp_path / "effect").exists()


def test_what_is_right_starts_the_server(tmp_path):
    (tmp_path / "handlers.py").write_text(HANDLERS)

    for options in ([], ["--with", "handlers.py:Whole"], ["--store", "calls.db"]):
        done = subprocess.run(
            [*PROXY, *options, "--", "touch", "effect"],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        (tmp_path / "effect").unlink()


def test_components_that_lack_another_are_wrong_use(tmp_path):
    (tmp_path / "handlers.py").write_text(HANDLERS)

    done = subprocess.run(
        [*PROXY, "--with", "handlers.py:Lacking", "--", "cat"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "it requires Whole" in done.stderr
