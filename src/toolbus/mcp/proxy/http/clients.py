"""What a relay knows of one client: its session, what it waits for, and what it may ask again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import UNSET

from toolbus.mcp.proxy.jsonrpc import SERVER_GONE, error_frame
from toolbus.mcp.proxy.revisions import SESSION, cancelled_id

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from toolbus.mcp.proxy.http.visits import Visit
    from toolbus.mcp.proxy.http_client import HttpReply
    from toolbus.mcp.proxy.jsonrpc import Frame
    from toolbus.mcp.proxy.session import ProxySession
    from toolbus.mcp.proxy.sse import Event

_MOST_ANSWERS, _MOST_BYTES = 100, 2**24
"""Answers that a client may ask for again, because it did not get them."""


class Errand(Protocol):
    """A request of a client, *frame*, under way; *own* are the ids of what wants an answer."""

    visit: Visit
    frame: Frame | None
    own: list[Any]

    def cancel(self) -> None:
        """Expect no answer any more."""
        ...

    def bequeath(self, heir: Any, event: Event) -> None:
        """Have *heir* send the answer that came with *event*."""
        ...


class Client:
    """The other end of a session; *keep* is called with the id that the server gives it.

    Without such an id, each request is a session of its own.
    """

    def __init__(self, session: ProxySession, keep: Callable[[Client, str], None]) -> None:
        self.session, self._keep = session, keep
        self.id: str | None = None
        self.errands: set[Errand] = set()
        self.orphans: dict[Any, Errand] = {}
        self.forgotten = False
        self._timer: asyncio.TimerHandle | None = None
        self._answers: OrderedDict[Any, bytes] = OrderedDict()
        self._size = 0

    @property
    def kept(self) -> bool:
        """Whether it has a session that goes on."""
        return self.id is not None

    def expect(self, timer: asyncio.TimerHandle | None) -> None:
        """Have *timer* end it, and no earlier one."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def enter(self, errand: Errand) -> None:
        """Take note of a request; if it cancels another one, nobody waits for that any more."""
        self.errands.add(errand)
        self.expect(None)
        own = cancelled_id(errand.frame)
        for one in self.errands:
            if own is not UNSET and own in one.own:
                one.cancel()

    async def left(self, errand: Errand, *, resumable: bool) -> None:
        """Forget a request; what is open of it may be asked for again if it is *resumable*."""
        self.errands.discard(errand)
        if not self.kept:
            await self.session.close()
            return
        for own in filter(self.session.is_open, errand.own):
            if resumable:
                self.orphans[own] = errand
            else:
                reason = "the client has closed the connection on which it would get its answer"
                await self.session.from_server(error_frame(own, SERVER_GONE, reason))

    def met(self, errand: Errand, reply: HttpReply) -> None:
        """Learn from the head of the server's answer whether there is a session."""
        given, asked = reply.headers.get(SESSION), errand.visit.headers.get(SESSION)
        begins = errand.frame is not None and errand.frame.method == "initialize"
        fails = reply.status >= 400  # noqa: PLR2004 - HTTP's
        if begins and given is not None and not fails:
            self._keep(self, given)
        elif asked is not None and not self.kept and not fails:
            self._keep(self, asked)

    def remember(self, frame: Frame | None, line: bytes) -> None:
        """Keep an answer as the client was sent it."""
        if frame is None or len(line) > _MOST_BYTES:
            return
        self._size += len(line) - len(self._answers.pop(frame.id, b""))
        self._answers[frame.id] = line
        while len(self._answers) > _MOST_ANSWERS or self._size > _MOST_BYTES:
            self._size -= len(self._answers.popitem(last=False)[1])

    def recall(self, own: Any) -> bytes | None:
        """Return the answer to the request *own*, if it is still known."""
        return self._answers.get(own)
