"""FastMCP's proxy in front of a command, with one session for all requests: its fastest way."""

from __future__ import annotations

import asyncio
import sys

from fastmcp.client import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def _main() -> None:
    async with Client(StdioTransport(sys.argv[1], sys.argv[2:])) as client:
        await create_proxy(client).run_async(transport="stdio", show_banner=False)


asyncio.run(_main())
