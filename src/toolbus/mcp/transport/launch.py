"""Start a server as a child process, before the rest of the house is loaded: it takes a while."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from toolbus.presence.agents import JUDGED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOKEN = "TOOLBUS_PROXY_TOKEN"  # noqa: S105 - the name of a variable of the environment
"""The bearer token that the proxy shows to a server at an address."""

LISTEN_TOKEN = "TOOLBUS_LISTEN_TOKEN"  # noqa: S105 - as above
"""The bearer token that clients show to a listening proxy."""

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The variables that a server of a configuration has of ours, as in the SDKs of MCP."""


_WATCH = 'read -r _ || kill -s KILL -- "-$0"'
"""Waits for a line; the end of its input without one says that we are gone."""


class LaunchedServer(NamedTuple):
    """A server that runs, and its pipes: the *source* of what it says, the *sink* to it.

    *watch* ends it, and what it started, if we are killed: no process can do that itself, and what
    Linux offers ends the server alone.
    """

    process: subprocess.Popen[bytes]
    source: int
    sink: int
    watch: subprocess.Popen[bytes]

    def release(self) -> None:
        """Let nobody watch it any more: it has ended. Somebody has to wait for *watch* then."""
        sink = self.watch.stdin
        with suppress(OSError, ValueError):
            if sink is not None:
                sink.write(b"\n")
                sink.close()

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def own_environment() -> dict[str, str]:
    """Return the environment of the only server: ours, as its client set it, without our tokens."""
    return {name: value for name, value in os.environ.items() if name not in (TOKEN, LISTEN_TOKEN)}


def listed_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of one server among several: the `INHERITED` variables, and *env*."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(env)


def launch(command: Sequence[str], env: Mapping[str, str] | None = None) -> LaunchedServer:
    """Start *command* in the environment *env*, `own_environment` if None; raises `OSError`.

    The server is marked as judged.
    """
    its_input, sink = os.pipe()
    source, its_output = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - what the person who started us asked for
            command,
            stdin=its_input,
            stdout=its_output,
            env={**(own_environment() if env is None else env), JUDGED: "1"},
            # A group of its own, so that what the server starts can be ended with it; and no
            # terminal: whoever has the person's can type into it.
            start_new_session=True,
        )
    except BaseException:
        os.close(sink)
        os.close(source)
        raise
    finally:
        os.close(its_input)
        os.close(its_output)
    return LaunchedServer(process, source, sink, _watch(process.pid))


def _watch(group: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own words
        ["/bin/sh", "-c", _WATCH, str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A signal for all of our group is not for it.
        process_group=0,
    )
