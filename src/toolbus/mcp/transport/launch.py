"""Launch of a server as a child process; few imports, so that it starts while toolbus loads."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from toolbus.presence.agents import JUDGED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOKEN = "TOOLBUS_PROXY_TOKEN"  # noqa: S105 - the name of an environment variable
"""The variable with the bearer token that the proxy sends to a remote server."""

LISTEN_TOKEN = "TOOLBUS_LISTEN_TOKEN"  # noqa: S105 - as above
"""The variable with the bearer token that a listening proxy requires from clients."""

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The variables that a configured server inherits, as in the SDKs of MCP."""


_WATCH = 'read -r _ || kill -s KILL -- "-$0"'
"""A shell script that kills the server's process group if its input ends before a line comes."""


class LaunchedServer(NamedTuple):
    """A running server with its pipes: *source* is its output, *sink* its input.

    The process *watch* kills the server's process group if the proxy is killed; Linux itself could
    only kill the server (`PR_SET_PDEATHSIG`), not its children.
    """

    process: subprocess.Popen[bytes]
    source: int
    sink: int
    watch: subprocess.Popen[bytes]

    def release(self) -> None:
        """Stop *watch* after the server has ended; the caller waits for its exit."""
        sink = self.watch.stdin
        with suppress(OSError, ValueError):
            if sink is not None:
                sink.write(b"\n")
                sink.close()

    def signal(self, number: int) -> None:
        """Send a signal to the server's process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def own_environment() -> dict[str, str]:
    """Return the environment of a single server: the proxy's own, without the proxy's tokens."""
    return {name: value for name, value in os.environ.items() if name not in (TOKEN, LISTEN_TOKEN)}


def listed_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server in a group: the `INHERITED` variables, and *env*."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(env)


def launch(command: Sequence[str], env: Mapping[str, str] | None = None) -> LaunchedServer:
    """Start *command* in the environment *env*, `own_environment` if None; raises `OSError`.

    A mark in the environment says that handlers judge the server's calls.
    """
    server_stdin, sink = os.pipe()
    source, server_stdout = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            command,
            stdin=server_stdin,
            stdout=server_stdout,
            env={**(own_environment() if env is None else env), JUDGED: "1"},
            # A process group, so that the server's children can be ended with it; and no
            # terminal, because a process with the user's terminal can type into it.
            start_new_session=True,
        )
    except BaseException:
        os.close(sink)
        os.close(source)
        raise
    finally:
        os.close(server_stdin)
        os.close(server_stdout)
    return LaunchedServer(process, source, sink, _watch(process.pid))


def _watch(group: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - a constant script
        ["/bin/sh", "-c", _WATCH, str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A signal to the proxy's group must not reach the watcher.
        process_group=0,
    )
