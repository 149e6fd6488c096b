"""The walks whose calls, hops and files `tests/unit/test_house.py` holds, each warm."""

import asyncio
import json
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from toolbus import (
    Agent,
    AgentComponent,
    EventBus,
    Scope,
    ToolAdapter,
    ToolMessage,
    ToolResponse,
    ToolRunner,
    Toolset,
    tool,
)
from toolbus.components.participants import ComponentHost
from toolbus.events import MESSAGE_APPEND_BEFORE
from toolbus.hosts.run.event_input import read_event
from toolbus.hosts.run.requests import HookSettings
from toolbus.hosts.run.service import HookService
from toolbus.mcp.proxy.proxy import Proxy
from toolbus.mcp.session.judged_session import JudgedSession
from toolbus.mcp.session.request_table import Channels
from toolbus.models import ScriptedModel
from toolbus.redaction.redact_secrets import RedactSecrets
from walks import walking

SCOPE = Scope(agent_id="a", session_id="s")
CLEAN = "step {} took 42 seconds, and passed"
SECRET = "export GITHUB_TOKEN=ghp_c{}qP0xWfZ1uYk8Rv5sTbN7mJd2LhGa4QeXoB"


class OneAdapter(AgentComponent):
    """A component whose one adapter adapts nothing."""

    def __init__(self):
        self.register_tool_adapter(ToolAdapter())


async def noop() -> str:
    """Do nothing."""
    return "done"


async def settled():
    """Let everything run that can."""
    for _ in range(30):
        await asyncio.sleep(0)


async def warm(work):
    """Return the walk through the third round of *work*; by then everything is loaded and kept."""
    for _ in range(2):
        await work()
        await settled()
    with walking() as walk:
        await work()
        await settled()
    return walk


async def plain_call():
    runner = ToolRunner(EventBus(), Toolset([tool(noop)]), SCOPE)
    return await warm(lambda: runner.call("noop", {}))


async def agents_call():
    async with Agent(ScriptedModel([]), tools=[noop], components=[OneAdapter()]) as agent:
        return await warm(lambda: agent.call_tool("noop"))


async def judged_frame():
    """Walk with a call of a client to the server and with its answer back."""
    to_server = []

    def line(**frame):
        return json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n"

    async def answer(result):
        frame = json.loads(to_server.pop())
        await session.from_server(line(id=frame["id"], result=result))

    async def call():
        session.from_client(line(id=1, method="tools/call", params={"name": "echo"}))
        await settled()
        if b"tools/list" in to_server[-1]:
            await answer({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
            await settled()
        await answer({"content": [{"type": "text", "text": "done"}]})

    async with Proxy([OneAdapter()]) as proxy:
        session = JudgedSession(proxy, Channels(lambda _: None, to_server.append))
        walk = await warm(call)
        await session.close()
    return walk


async def redacted_line(text):
    """Walk with the append of a tool's answer of one line past `RedactSecrets`.

    The shortest of eight: an id of chance now and then looks like a key, and is looked at twice.
    """
    walks = [await one_redacted_line(text) for _ in range(8)]
    return min(walks, key=lambda walk: walk.calls)


async def one_redacted_line(text):
    host = ComponentHost(scope=SCOPE)
    RedactSecrets().setup(host)
    numbers = count()

    async def append():
        # Another text each round: what was seen before is not looked through again.
        response = ToolResponse.from_text(text.format(next(numbers)))
        message = ToolMessage(tool_call_id="c", tool_name="noop", tool_response=response)
        await host.bus.apply(MESSAGE_APPEND_BEFORE, message, SCOPE)

    return await warm(append)


async def hook_event():
    """Walk with a call of a coding agent past a policy: the chain is made, used and closed.

    Only this loop's thread is counted: the store has one of its own.
    """
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.joinpath("policy.toml").write_text('default = "allow"\n')
        config = folder / "toolbus.toml"
        settings = '[[component]]\nuse = "policy"\nsettings = { file = "policy.toml" }\n'
        config.write_text(settings)
        numbers = count()

        async def event():
            call = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
            ids = {"session_id": "s", "tool_use_id": f"c{next(numbers)}", "cwd": str(folder)}
            read = read_event("claude-code", "PreToolUse", json.dumps({**call, **ids}).encode())
            files = HookSettings(config=str(config), store=folder / "hooks/hooks.db")
            async with HookService(files) as service:
                await service.answer(read)

        return await warm(event)


WALKS = {
    "plain tool call": plain_call,
    "tool call of an agent with one adapter": agents_call,
    "judged frame": judged_frame,
    "hook event": hook_event,
    "line with a secret": lambda: redacted_line(SECRET),
    "clean line": lambda: redacted_line(CLEAN),
}


@cache
def walked(name):
    """Return the walk of this *name*."""
    return asyncio.run(WALKS[name]())
