"""The runs and calls of an agent of Strands, and what stands in for its tools and models."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from strands.types._events import ToolInterruptEvent, ToolResultEvent

from toolbus.bridges.bridged_call import RUNNING
from toolbus.bridges.strands.tool_results import response_of
from toolbus.messages.records import ToolResponse
from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from toolbus.bridges.bridged_call import RunningCall
    from toolbus.bridges.host import BridgeHost
    from toolbus.bridges.session import BridgeSession

# The executor knows the end and the pause of a tool by these two events alone; only the first has
# a public module, since strands-agents 1.62.


PASSES: ContextVar[bool] = ContextVar("toolbus_strands_passes", default=True)
"""Whether an interrupt of an agent that runs here reaches the program, not a function of a tool."""


class StrandsRun:
    """The runs of the agent *name*: the last *answer* of a model, and the session *key*."""

    is_open = False
    passes = True
    answer = ""
    _above: RunningCall | None = None

    def __init__(self, host: BridgeHost, key: str, name: str) -> None:
        self._host, self._key, self._name = host, key, name
        self.ended: set[str] = set()

    def open(self) -> None:
        """Begin a run, below the call that runs here, if one does."""
        self.is_open, self.answer, self.passes = True, "", PASSES.get()
        running = RUNNING.get()
        is_below = running is not None and running.session.host is self._host
        self._above = running if is_below else None
        self.ended.clear()

    def new_call_id(self, use_id: str) -> str:
        """Return an id for a call that has not ended; hooks may let the same use run again."""
        while use_id in self.ended:
            use_id += "+"
        return use_id

    def session(self) -> BridgeSession:
        """Return the session, from the host each time, which may have closed an idle one."""
        if self._above is None:
            return self._host.session(self._key)
        return self._host.session_below(self._above.session, self._name, self._above.call_id)


class RunningTool:
    """A *tool* that runs for *use*: its events, *held*, and their *end*.

    The events of an agent have been judged in its own run; others are held, because they may hold
    what a handler takes out of the result. *passes*: see `PASSES`.
    """

    end: Any = None

    def __init__(
        self, tool: Any, use: Any, state: Any, options: Any, *, is_agent: bool, passes: bool
    ) -> None:
        self._tool, self._use, self._state, self._options = tool, use, state, options
        self._passes = passes
        self.held: list[Any] = []
        self._live: asyncio.Queue[Any] = asyncio.Queue()
        self._keep = self._live.put_nowait if is_agent else self._hold

    async def run(self, arguments: dict[str, Any]) -> ToolResponse:
        """Run the tool with *arguments*."""
        self.held, self.end = [], None
        use = {**self._use, "input": arguments}
        with set_context(PASSES, self._passes):
            async for event in self._tool.stream(use, self._state, **self._options):
                if isinstance(event, ToolInterruptEvent):
                    raise Paused(event)
                if self.end is not None:
                    self._keep(self.end)
                self.end = event
                if isinstance(event, ToolResultEvent):
                    break
        if self.end is None:
            return ToolResponse.from_text("the tool returned no result", is_error=True)
        if not isinstance(self.end, ToolResultEvent):
            self.end = ToolResultEvent(self.end)
        return response_of(self.end)

    def _hold(self, event: Any) -> None:
        self.held.append(event)

    async def events_until(self, call: asyncio.Task[Any]) -> AsyncIterator[Any]:
        """Yield the events of an agent until *call* ends; cancel that with us."""
        call.add_done_callback(lambda _: self._live.put_nowait(None))
        try:
            while (event := await self._live.get()) is not None:
                yield event
        finally:
            call.cancel()
            await asyncio.wait([call])


class Paused(Exception):
    """The tool interrupted its run by *event*; it runs again when that goes on."""

    def __init__(self, event: ToolInterruptEvent) -> None:
        self.event = event


class Guarded:
    """A tool or model of Strands with a *stream* of ours.

    `isinstance` takes it for *guarded* itself, so that Strands still knows a delegate by its class.
    """

    def __init__(self, guarded: Any, stream: Callable[..., Any]) -> None:
        self._guarded, self.stream = guarded, stream

    def __getattr__(self, name: str) -> Any:
        if name == "_guarded":
            raise AttributeError(name)
        return getattr(self._guarded, name)

    __class__: Any = property(lambda self: type(self._guarded))
