"""Where a browser comes back to after a login: an address on this machine, open for that long.

See RFC 8252, 7.3 and 8.3.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

_PATH = "/callback"
_HEAD, _SECONDS = 2**14, 10.0
_SAFE = (
    "content-type: text/html; charset=utf-8\r\ncache-control: no-store\r\n"
    "referrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'\r\n"
    "connection: close\r\n"
)
_DONE = "toolbus has the answer. You may close this page."
_NO = "This is not the login that toolbus waits for."


class Loopback:
    """A server on 127.0.0.1 that takes the answer to one login, and nothing else."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._state: str | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD)
        self._place = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.close()

    @property
    def address(self) -> str:
        """The redirect URI."""
        return f"http://{self._place}{_PATH}"

    def expect(self, state: str) -> None:
        """Take the answer that brings *state*: any other page may guess the address, not that."""
        self._state = state

    async def answer(self) -> dict[str, str]:
        """Return the parameters of the answer, once it is there."""
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            query = self._query_of(head)
            text = _DONE if query is not None else _NO
            status = "200 OK" if query is not None else "400 Bad Request"
            body = f"<!doctype html><title>toolbus</title><p>{text}</p>"
            size = f"content-length: {len(body)}\r\n\r\n"
            writer.write(f"HTTP/1.1 {status}\r\n{_SAFE}{size}{body}".encode())
            await writer.drain()
            if query is not None and not self._answer.done():
                self._answer.set_result(query)
        writer.close()

    def _query_of(self, head: list[str]) -> dict[str, str] | None:
        """Return the parameters of a request, None if it is not the answer that is expected."""
        method, _, rest = head[0].partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        hosts = [line[5:].strip() for line in head[1:] if line.lower().startswith("host:")]
        if method != "GET" or target.path != _PATH or hosts != [self._place]:
            return None
        pairs = parse_qsl(target.query, keep_blank_values=True)
        query = dict(pairs)
        brought = query.get("state", "").encode()
        expected = self._state is not None and secrets.compare_digest(brought, self._state.encode())
        return query if expected and len(query) == len(pairs) else None
