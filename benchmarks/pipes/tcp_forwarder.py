"""Forward bytes between a port and another one: the least that a relay can do."""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urlsplit


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(2**16):
        target.write(data)
        await target.drain()
    target.close()


async def _main(url: str) -> None:
    there = urlsplit(url)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source, target = await asyncio.open_connection(there.hostname, there.port)
        await asyncio.gather(_copy(reader, target), _copy(source, writer))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
