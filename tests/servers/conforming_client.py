"""A client of the SDK for the official conformance suite: `conforming_client.py [FRONT...] URL`.

FRONT is what stands between: nothing, or the words of a proxy, over pipes or with `--listen`. The
suite names the scenario and the revision in the environment.
"""

import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.types import ElicitResult
from pydantic import ValidationError

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}, "valid_tool": {"region": "eu"}}


async def elicited(_context, params) -> ElicitResult:
    """Accept, with the defaults of the form."""
    properties = params.requested_schema.get("properties", {})
    given = {name: one["default"] for name, one in properties.items() if "default" in one}
    return ElicitResult(action="accept", content=given)


async def talk(client: Client) -> None:
    """List all, and call each tool, as the scenario's context says or with what it asks for."""
    tools = (await client.list_tools()).tools
    calls = [(one["name"], one.get("arguments", {})) for one in CONTEXT.get("toolCalls", ())]
    calls = calls or [(one.name, ARGUMENTS.get(one.name, {})) for one in tools]
    for name, arguments in calls:
        try:
            await client.call_tool(name, arguments)
        except MCPError as error:
            print(name, error, file=sys.stderr)
    for method in (client.list_prompts, client.list_resources):
        try:
            await method()
        except (MCPError, ValidationError) as error:
            print(error, file=sys.stderr)


@asynccontextmanager
async def listening(command: list[str]):
    """Run a proxy that listens, and give its address."""
    process = await anyio.open_process(command, stdout=sys.stderr, stderr=subprocess.PIPE)
    try:
        said = b""
        while b"\n" not in said[said.find(b"http://") :] or b"http://" not in said:
            said += await process.stderr.receive()
        yield said[said.find(b"http://") :].split()[0].decode()
    finally:
        process.terminate()
        await process.wait()


async def main() -> None:
    *front, url = sys.argv[1:]
    mode = "legacy" if REVISION <= "2025-11-25" else REVISION
    async with AsyncExitStack() as opened:
        opened.enter_context(anyio.fail_after(25))
        server = url
        if "--listen" in front:
            server = await opened.enter_async_context(listening([*front, "--", url]))
        elif front:
            words = [*front[1:], "--", url]
            server = stdio_client(
                StdioServerParameters(command=front[0], args=words, env={**os.environ})
            )
        client = Client(server, mode=mode, elicitation_callback=elicited)
        await talk(await opened.enter_async_context(client))


anyio.run(main)
