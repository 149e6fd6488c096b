"""One HTTP request of a client, and the answer that it gets: ASGI, as the proxy needs it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolbus.mcp.http.failures import HttpError
from toolbus.mcp.protocol.jsonrpc import error_frame, read_batch, read_frame

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from toolbus.mcp.protocol.jsonrpc import Frame

    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]
    Fields = Iterable[tuple[str, str]]

JSON, STREAM = "application/json", "text/event-stream"
STREAM_FIELDS = (
    ("content-type", STREAM),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)


class HttpRequest:
    """A request: *method*, *fields* as they came, *headers* by lower-case name, and *body*."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode("latin-1")
        self.fields = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        ]
        self.headers = dict(self.fields)
        self.body = b""
        self.has_begun = self.ended = False
        self._body_goes_on = True
        self._receive, self._send = receive, send

    @property
    def is_preflight(self) -> bool:
        """Whether a browser asks what a page of another origin may do."""
        named = {"origin", "access-control-request-method"}
        return self.method == "OPTIONS" and named <= self.headers.keys()

    def accepts(self, kind: str) -> bool:
        """Tell whether the client takes *kind*, a media type."""
        return bool({kind, f"{kind.partition('/')[0]}/*", "*/*"} & {*self._accepted()})

    def prefers_stream(self) -> bool:
        """Tell whether the client takes a stream of events, and names it before JSON."""
        kinds = [kind for kind in self._accepted() if kind in {JSON, STREAM}]
        return kinds[:1] == [STREAM]

    def _accepted(self) -> list[str]:
        accept = self.headers.get("accept", "*/*").lower()
        return [kind.partition(";")[0].strip() for kind in accept.split(",")]

    def check_post(self) -> None:
        """Raise `HttpError` if the client cannot mean a request of MCP."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise HttpError(415, f"a body is {JSON}")
        if not (self.accepts(JSON) or self.accepts(STREAM)):
            raise HttpError(406, f"what answers is {JSON} or {STREAM}")

    async def read(self, limit: int, seconds: float) -> None:
        """Read the body; raises `HttpError` for one that is too long or too slow."""
        if int(self.headers.get("content-length", 0)) > limit:
            raise HttpError(413, f"a body may have {limit} bytes")
        # One buffer that grows: what many parts held, the system would not get back.
        whole = bytearray()
        try:
            async with asyncio.timeout(seconds):
                while self._body_goes_on:
                    whole += await self._body_part()
                    if len(whole) > limit:
                        raise HttpError(413, f"a body may have {limit} bytes")
        except TimeoutError:
            raise HttpError(408, f"the body took more than {seconds:g} s") from None
        self.body = bytes(whole)

    async def _body_part(self) -> bytes:
        """Return the next part of the body."""
        message = await self._receive()
        if message["type"] != "http.request":
            raise ConnectionResetError
        self._body_goes_on = message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body

    async def wait_until_gone(self) -> None:
        """Wait until the client has gone; its body has been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def answer(self, status: int, fields: Fields = (), body: bytes = b"") -> None:
        """Send the whole answer."""
        sized = [] if status == 204 else [("content-length", str(len(body)))]  # noqa: PLR2004
        await self.begin(status, [*fields, *sized])
        await self.write(body, more=False)

    async def refuse(self, error: HttpError, linger: float = 0.0) -> None:
        """Send *error*, as JSON-RPC says it.

        The rest of the body is read for *linger* seconds: a connection that is closed with
        something unread is reset, and the client may never see the answer.
        """
        body = error_frame(error.request_id, error.code, error.reason).strip()
        length = ("content-length", str(len(body)))
        await self.begin(error.status, [("content-type", JSON), length, *error.fields])
        await self.write(body)
        with suppress(TimeoutError, ConnectionResetError):
            async with asyncio.timeout(linger):
                while linger and self._body_goes_on:
                    await self._body_part()
        await self.write(b"", more=False)

    async def begin(self, status: int, fields: Fields) -> None:
        """Send the head of the answer."""
        self.has_begun = True
        pairs = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send a part of the body, the last one if there is no *more*."""
        if data or not more:
            self.ended = not more
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


def requests_in(frame: Frame | None, body: bytes) -> list[Frame]:
    """Return the JSON-RPC requests in *body*, which is *frame* or a batch."""
    frames = [read_frame(part) for part in read_batch(body) or ()] if frame is None else [frame]
    return [part for part in frames if part is not None and part.is_request]
