"""One client session: it takes each frame of either side, and sends on what may go on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from toolbus.eager import Begun
from toolbus.hosts.mcp.asking import can_elicit
from toolbus.hosts.mcp.exchanges import Asked, Batch
from toolbus.hosts.mcp.frames import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    SERVER_GONE,
    Frame,
    error_frame,
    guess_id,
    make_single,
    read_batch,
    read_frame,
    read_json,
)
from toolbus.hosts.mcp.keeping import Keeper
from toolbus.hosts.mcp.offering import Offering
from toolbus.hosts.mcp.ongoing import Calls
from toolbus.hosts.mcp.passing import Passing
from toolbus.hosts.mcp.questions import Questions
from toolbus.hosts.mcp.screening import Screen
from toolbus.hosts.mcp.texts import ERROR
from toolbus.ids import new_id
from toolbus.lifecycle.approvals import Approvals

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from toolbus.events import Scope
    from toolbus.hosts.mcp.proxy import Proxy

    Send = Callable[[bytes], object]

logger = logging.getLogger("toolbus")


class Session:
    """One client's session with a server; *to_client* and *to_server* send a line."""

    def __init__(self, proxy: Proxy, to_client: Send, to_server: Send) -> None:
        self._to_client, self._to_server = to_client, to_server
        self.scope: Scope = replace(proxy.scope, session_id=new_id())
        self.judging = proxy.judging
        keeper = self._keeper = Keeper(proxy.bus, self.scope.session_id, proxy.store)
        screen, questions = Screen(proxy.bus, self.scope), Questions(to_client, to_server)
        self._questions, self._asked = questions, questions.asked
        offering = Offering(proxy.bus, self.scope, proxy.tools, questions.ask_list)
        self._offering = offering
        self._passing = Passing(screen, offering, keeper, to_client, to_server)
        self._calls = Calls(
            proxy, self.scope, questions, offering=offering, screen=screen, keeper=keeper
        )
        self._tasks: set[asyncio.Task[Any]] = set()

    def from_client(self, line: bytes, send: Send | None = None) -> None:
        """Take a line of the client; *send* takes what answers it, if not all goes one way."""
        send = send or self._to_client
        # What is judged is what the server reads, whichever of two members it believes.
        single = make_single(line) if self.judging else line
        if single is not None and (frame := read_frame(single)) is not None:
            self._take_request(frame, single, send)
        elif single is not None and (batch := read_batch(single)) is not None:
            self._take_batch(batch, single, send)
        elif self.judging and line.strip():
            logger.warning("the client sent %d bytes that are no JSON-RPC", len(line))
            send(error_frame(None, PARSE_ERROR, "expected one JSON-RPC frame a line"))
        else:
            self._to_server(line)

    async def from_server(self, line: bytes) -> None:
        """Take a line of the server; returns when what comes after it may follow."""
        if (rest := self.hear(line)) is not None:
            await rest

    def hear(self, line: bytes) -> Coroutine[Any, Any, None] | None:
        """Do as `from_server` does; return what to await before the next line, or None."""
        frame = read_frame(line)
        if frame is None:
            return self._take_no_frame(line)
        if frame.is_answer:
            return self._take_answer(frame, line)
        if not self.judging:
            self._to_client(line)
        elif frame.method is UNSET or frame.result is not UNSET or frame.error is not UNSET:
            self._take_broken(line)
        else:
            return self._passing.words(frame, line)
        return None

    def is_open(self, own: Any) -> bool:
        """Tell whether the server owes an answer to the request *own*."""
        return self._asked.is_open(own)

    @property
    def offering(self) -> Offering:
        """What the client was told of the server's tools."""
        return self._offering

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return what the server's tool *name* takes, if the server was asked."""
        spec = self._offering.specs.get(name)
        return None if spec is None else spec.input_schema

    def server_gone(self, reason: str) -> None:
        """Answer what the server will never answer."""
        self._questions.server_gone(reason)

    def client_gone(self) -> None:
        """Let nobody wait for the client any more."""
        self._questions.client_gone()

    async def settle(self, seconds: float) -> None:
        """Wait at most *seconds* for what is being judged."""
        if tasks := (*self._calls.tasks, *self._tasks):
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        """Cancel what is under way, and write what is to be kept."""
        tasks = (*self._calls.tasks, *self._tasks)
        self._calls.stop()
        for task in tuple(self._tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._keeper.close()

    # --- what the client sends -----------------------------------------------------------------

    def _take_request(self, frame: Frame, line: bytes, send: Send) -> None:
        match frame.method:
            case "tools/call" if self.judging:
                self._calls.take(frame, line, send)
                return
            case "initialize" if self.judging and can_elicit(_params(frame)):
                self._calls.approvals = Approvals(self._questions.elicit)
            case "notifications/cancelled":
                self._take_cancellation(frame, line)
                return
        if frame.is_answer and self._questions.take_elicited(frame, line):
            return
        if frame.is_request:
            assert isinstance(frame.method, str)  # noqa: S101 - a request has one
            if self._questions.gone is not None:
                send(error_frame(frame.id, SERVER_GONE, self._questions.gone))
                return
            self._asked.add(Asked(frame.id, frame.method, send, None, frame.params))
        self._to_server(line)

    def _take_batch(self, batch: list[bytes], line: bytes, send: Send) -> None:
        """Take a batch apart if its frames are judged: each may be answered at another time."""
        frames = [read_frame(one) for one in batch]
        requests = [one for one in frames if one is not None and one.is_request]
        if not self.judging:
            for asking in requests:
                self._asked.add(Asked(asking.id, str(asking.method), send))
            self._to_server(line)
            return
        gathered = Batch(len(requests) + frames.count(None), send)
        for one, part in zip(frames, batch, strict=True):
            if one is None:
                gathered.add(error_frame(None, INVALID_REQUEST, "expected a JSON-RPC frame"))
            else:
                self._take_request(one, part.strip() + b"\n", gathered.add)

    def _take_cancellation(self, frame: Frame, line: bytes) -> None:
        """Pass it on; a call that has not come to the server ends here."""
        params = _params(frame)
        own = params.get("requestId") if isinstance(params, dict) else None
        if not isinstance(own, str | int):
            own = None
        call, forwarded = self._calls.pop(own), self._asked.abandon(own)
        if call is None or forwarded is not None:
            self._to_server(line)
        if call is not None:
            call.stop()

    # --- what the server sends -----------------------------------------------------------------

    async def _take_no_frame(self, line: bytes) -> None:
        if not line.strip():
            self._to_client(line)
            return
        if (batch := read_batch(line)) is None:
            self._take_broken(line)
            return
        frames = [read_frame(one) for one in batch]
        if self.judging or None in frames:
            for part in batch:
                await self.from_server(part.strip() + b"\n")
            return
        taken = [self._asked.take(one.id) for one in frames if one is not None and one.is_answer]
        sends = [asked.send for asked in taken if asked is not None]
        (sends[0] if sends else self._to_client)(line)

    def _take_broken(self, line: bytes) -> None:
        """Drop what nobody can read; if it is the answer to a request, say so."""
        logger.warning("the server wrote %d bytes that are no JSON-RPC; dropped", len(line))
        if (asked := self._asked.take(guess_id(line))) is not None:
            reason = "the server's answer is no JSON-RPC"
            self._questions.give(asked, error_frame(asked.id, SERVER_GONE, reason))

    def _take_answer(self, frame: Frame, line: bytes) -> Coroutine[Any, Any, None] | None:
        asked = self._asked.take(frame.id)
        if asked is not None and asked.future is not None:
            self._questions.give(asked, line, frame)
        elif not self.judging and (asked is not None or frame.id is None):
            (self._to_client if asked is None else asked.send)(line)
        elif asked is not None:
            self._begin(self._pass_answer(asked, frame, line))
        elif frame.id is None:
            return self._pass_answer(Asked(None, ERROR, self._to_client), frame, line)
        else:
            logger.warning(
                "the server answered %r, which nobody asked or it answered before; dropped",
                frame.id,
            )
        return None

    async def _pass_answer(self, asked: Asked, frame: Frame, line: bytes) -> None:
        try:
            await self._passing.answer(asked, frame, line)
        except Exception:
            # Whoever waits for an answer is to be told, whatever it was.
            logger.exception("an answer of the server could not be handled")
            reason = "the proxy has failed, and its log says how"
            self._questions.give(asked, error_frame(asked.id, INTERNAL_ERROR, reason))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = Begun(work).task
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a frame could not be handled", exc_info=error)


def _params(frame: Frame) -> Any:
    try:
        return None if frame.params is UNSET else read_json(frame.params)
    except ValueError:
        return None
