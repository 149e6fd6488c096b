"""HTTP response bodies with several JSON-RPC frames, one a line.

MCP does not define them, but some servers stream so, as `application/json` or JSON Lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.mcp.protocol.jsonrpc import FrameTooLongError, LineSplitter, read_batch, read_frame
from toolbus.mcp.transport.sse import Event, single_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolbus.http.client import HttpReply
    from toolbus.mcp.protocol.jsonrpc import Frame

_OK = 200


async def read_body(
    reply: HttpReply, frame: Frame | None, limit: int
) -> bytes | AsyncIterator[Event]:
    """Return the body of *reply* to *frame*, or a stream of its lines as events.

    The body is a stream if its first line is a frame other than the response to *frame*, or if all
    lines are frames. Raises `FrameTooLongError` for a body or line of more than *limit* bytes.
    """
    whole, chunks, has_line = bytearray(), reply.pieces(), reply.status != _OK
    async for chunk in chunks:
        whole += chunk
        if not has_line and (has_line := b"\n" in chunk):
            first = read_frame(bytes(whole.partition(b"\n")[0]))
            if first is not None and not (first.is_response and frame and first.id == frame.id):
                return _lines(bytes(whole), chunks, limit)
        if len(whole) > limit:
            raise FrameTooLongError(limit)
    body = bytes(whole)
    return _lines(body, chunks, limit) if _is_frames(body) else body


def _is_frames(body: bytes) -> bool:
    """Return whether *body* has several lines, each a frame."""
    lines = body.strip().split(b"\n")
    if len(lines) == 1 or read_frame(lines[0]) is None or read_batch(body) is not None:
        return False
    return all(read_frame(line) is not None for line in lines if line.strip())


async def _lines(start: bytes, chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[Event]:
    """Yield the lines of *start*, then of *chunks*, as events; a blank line has no data."""
    splitter = LineSplitter(limit)
    for line in splitter.feed(start):
        yield _event(line)
    async for chunk in chunks:
        for line in splitter.feed(chunk):
            yield _event(line)
    yield _event(splitter.remainder)


def _event(line: bytes) -> Event:
    return Event(single_line(line) or None)
