"""The runs and calls of an agent of Strands, and what stands in for its tools and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strands.types._events import ToolInterruptEvent, ToolResultEvent

from toolbus.bridges.strands.tool_results import response_of
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bridges.host import BridgeHost

# The executor knows the end and the pause of a tool by these two events alone; only the first has
# a public module.


class StrandsRun:
    """The runs of the agent *name*: the last *answer* of a model, and the *session*."""

    is_open = False
    answer = ""
    is_tool_of: StrandsRun | None = None

    def __init__(self, host: BridgeHost, key: str, name: str) -> None:
        self._host, self._key, self._name = host, key, name
        self.session = host.session(key)

    @property
    def passes(self) -> bool:
        """Whether an interrupt of this run reaches the program, not a function of a tool."""
        is_below = bool(self.session.scope.parent_session_id)
        return not is_below or (self.is_tool_of is not None and self.is_tool_of.passes)

    def open(self) -> None:
        """Begin a run, below the call that runs here, if one does."""
        self.is_open, self.answer = True, ""
        self.session = self._host.session_here(self._key, self._name)


class RunningTool:
    """A *tool* that runs for *use*: its events, *held*, and their *end*.

    The events are held because they may show text that a handler takes out of the result.
    """

    end: Any = None

    def __init__(self, tool: Any, use: Any, state: Any, options: Any) -> None:
        self._tool, self._use, self._state, self._options = tool, use, state, options
        self.held: list[Any] = []

    async def run(self, arguments: dict[str, Any]) -> ToolResponse:
        """Run the tool with *arguments*."""
        self.held, self.end = [], None
        use = {**self._use, "input": arguments}
        async for event in self._tool.stream(use, self._state, **self._options):
            if isinstance(event, ToolInterruptEvent):
                raise Paused(event)
            self.held.append(event)
            if isinstance(event, ToolResultEvent):
                break
        if not self.held:
            return ToolResponse.from_text("the tool returned no result", is_error=True)
        end = self.held.pop()
        self.end = end if isinstance(end, ToolResultEvent) else ToolResultEvent(end)
        return response_of(self.end)


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
