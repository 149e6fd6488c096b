"""An MCP server of the SDK for odd cases: `odd.py LOG [PORT]`, over stdio or on a loopback port.

What it lived through it appends to LOG, a line each, so that a test can count.
"""

import os
import socket
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

LOG = Path(sys.argv[1])
server = MCPServer("odd", log_level="CRITICAL")


def note(text: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{text}\n")


class Sum(BaseModel):
    total: int


@server.tool(title="Add up", annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
def mixed() -> CallToolResult:
    """Return one block of each kind."""
    text = TextResourceContents(uri="file:///a.txt", mime_type="text/plain", text="inside")
    blob = BlobResourceContents(uri="file:///b.bin", blob="aGk=")
    return CallToolResult(
        content=[
            TextContent(type="text", text="words"),
            Image(data=b"picture", format="png").to_image_content(),
            AudioContent(type="audio", data="aGk=", mime_type="audio/wav"),
            EmbeddedResource(type="resource", resource=text),
            EmbeddedResource(type="resource", resource=blob),
            ResourceLink(type="resource_link", uri="file:///c", name="c", description="a third"),
        ]
    )


@server.tool()
def big(size: int) -> str:
    """Return a text of *size* characters."""
    return "x" * size


@server.tool()
def show(context: str, self: str) -> str:
    """Take arguments whose names mean something elsewhere."""
    return f"{context} {self}"


@server.tool()
def fail() -> str:
    """Fail as a tool does."""
    raise ToolError("no such thing")


@server.tool()
def refuse() -> str:
    """Fail as the protocol does."""
    raise MCPError(-32050, "not today")


@server.tool()
async def steps(ctx: Context) -> str:
    """Tell of progress."""
    await ctx.report_progress(1, 4, "begun")
    await ctx.report_progress(2, 4)
    await ctx.report_progress(3)
    return "done"


@server.tool()
async def hang() -> str:
    """Wait until it is cancelled."""
    note("hang")
    try:
        await anyio.sleep_forever()
    finally:
        note("cancelled")
    return ""


@server.tool()
async def die() -> str:
    """End the whole server in mid-call."""
    note("die")
    os._exit(3)


@server.tool()
def pid() -> int:
    """Tell which process this is."""
    return os.getpid()


@server.tool()
async def mark(number: int) -> int:
    """Note the number, and take a moment."""
    note(f"mark-{number}")
    await anyio.sleep(0.01)
    return number


class Name(BaseModel):
    name: str


@server.tool()
async def greet(ctx: Context) -> str:
    """Ask the client's user for a name."""
    found = await ctx.elicit("who is there?", Name)
    return f"hello {found.data.name}" if found.action == "accept" else "hello nobody"


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Add a tool called *name*, and say so."""
    server.add_tool(lambda: name, name=name, description="a grown one")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


def main() -> None:
    note("begun")
    if LOG.with_suffix(".stop").exists():
        sys.exit("it shall not start")
    print("a line on standard error", file=sys.stderr, flush=True)
    if len(sys.argv) == 2:
        server.run("stdio")
        note("ended")
        return
    import uvicorn

    at = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    print(at.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[at])


main()
