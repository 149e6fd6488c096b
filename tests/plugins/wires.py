"""Lines to and from a process that speaks MCP: a server, or a proxy before one."""

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress

PROXY = [sys.executable, "-m", "toolbus", "proxy", "--grace", "1"]
SECONDS = 60
"""More than anything takes on a machine that has other things to do as well."""

QUIET = """\
from toolbus import AgentComponent, ToolAdapter, events, guard, on

class Quiet(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(ToolAdapter())

    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx): ...

    @on(events.TOOLS_PROVIDE)
    def specs(self, ctx): ...

    @on(events.MESSAGE_APPEND_BEFORE)
    def words(self, ctx): ...
"""
"""Handlers that judge everything and change nothing."""


class Wire:
    """The pipes of *process*; *lines* holds all that it has written."""

    def __init__(self, process):
        self.process, self.lines = process, []

    def send(self, **members):
        self.write(json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode())

    def write(self, line):
        self.process.stdin.write(line.rstrip(b"\n") + b"\n")

    async def line(self):
        """Return the next line, empty at the end."""
        line = await asyncio.wait_for(self.process.stdout.readline(), SECONDS)
        if line:
            self.lines.append(line)
        return line

    async def frame(self):
        line = await self.line()
        assert line, "it has ended"
        return json.loads(line)

    async def answer(self, own):
        """Return the answer to the request *own*; what else comes is in *lines*."""
        while True:
            frame = await self.frame()
            if frame.get("id") == own and "method" not in frame:
                return frame

    async def ask(self, own, method, params=None):
        """Return the answer to a request."""
        self.send(id=own, method=method, **({} if params is None else {"params": params}))
        return await self.answer(own)

    async def end(self, grace=SECONDS):
        """Close our end, read what is left, and return the exit code.

        What has not ended after *grace* seconds is told to, as clients do.
        """
        self.process.stdin.close()
        timer = asyncio.get_running_loop().call_later(grace, self.stop, signal.SIGTERM)
        while await self.line():
            pass
        code = await asyncio.wait_for(self.process.wait(), SECONDS)
        timer.cancel()
        return code

    def stop(self, number=signal.SIGKILL):
        """Send a signal to the process and all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@asynccontextmanager
async def wired(command, **options):
    """Start *command*, and give a wire to it; whatever of it has not ended then is killed."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**27,
        process_group=0,
        **options,
    )
    wire = Wire(process)
    try:
        yield wire
    finally:
        process.stdin.close()
        wire.stop()
        await asyncio.wait_for(process.communicate(), SECONDS)
