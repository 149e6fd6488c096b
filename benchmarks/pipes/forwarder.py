"""Forward bytes between standard input and output and a command: the least a proxy can do."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(2**16):
        target.write(data)
        await target.drain()
    target.close()


async def _main() -> int:
    loop = asyncio.get_running_loop()
    source = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(source), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, sys.stdout
    )
    target = asyncio.StreamWriter(transport, protocol, None, loop)
    process = await asyncio.create_subprocess_exec(*sys.argv[1:], stdin=PIPE, stdout=PIPE)
    requests = asyncio.create_task(_copy(source, process.stdin))
    await _copy(process.stdout, target)
    requests.cancel()
    return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
