"""What a tool may know of its call, and what its program hands it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from toolbus.errors import RegistrationError, ToolNotRunError
from toolbus.events.catalogue import Scope
from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    # Only checkers need its default, by which a plain `ToolContext` has deps of any type.
    from typing_extensions import TypeVar

    from toolbus.bus.bus import EventBus
    from toolbus.messages.records import JsonObject, ToolResponse
    from toolbus.tools.calls.gate import CallGate

    D_co = TypeVar("D_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    D_co = TypeVar("D_co", covariant=True)

Progress: TypeAlias = Callable[[str, str, float | None], None]
"""Takes the call's id, a text for people, and the finished part between 0 and 1, if known."""

NO_DEPS: Any = object()
"""Stands for deps that nobody gave; None is something to give."""


async def _refuse(name: str, _: Mapping[str, Any]) -> ToolResponse:
    raise ToolNotRunError(name)


def _ignore(_call_id: str, _text: str, _part: float | None) -> None:
    return


class ToolContext(Generic[D_co]):
    """What a tool may know of its call; the runner fills the parameter annotated with it.

    `ToolContext[MyDeps]` tells checkers the type of `deps`. One that is made in a test of a tool
    needs but *deps*: its scope is empty, its progress goes nowhere, and it can call no other tool.

    >>> def whose(context: ToolContext[str]) -> str:
    ...     return f"the caller is {context.deps}"
    >>> whose(ToolContext(deps="Jane"))
    'the caller is Jane'
    """

    __slots__ = ("_call", "_deps", "_progress", "bus", "call_id", "continued", "gate", "scope")

    def __init__(
        self,
        scope: Scope | None = None,
        call_id: str = "",
        call: Callable[[str, Mapping[str, Any]], Awaitable[ToolResponse]] = _refuse,
        progress: Progress = _ignore,
        gate: CallGate | None = None,
        *,
        deps: D_co = NO_DEPS,
        bus: EventBus | None = None,
        continued: bool = False,
    ) -> None:
        # The gate of the caller, for a sub-agent without one; None: nobody can be asked.
        self.gate = gate
        # On which the call's events are dispatched; None if no runner made the context.
        self.bus = bus
        # Whether the call began before, perhaps in another process, and goes on.
        self.continued = continued
        self.scope = Scope() if scope is None else scope
        self.call_id, self._call, self._progress, self._deps = call_id, call, progress, deps

    @property
    def deps(self) -> D_co:
        """The very object that the program gave as `deps=`; it is in no message, event or store.

        Raises `RegistrationError` if none was given.
        """
        if self._deps is NO_DEPS:
            reason = "no deps were given; use `deps=` of `Agent`, `agent.run` or `ToolRunner`"
            raise RegistrationError("tool context", reason)
        return self._deps

    def progress(self, text: str, part: float | None = None) -> None:
        """Tell whoever watches how far the tool is; *part* is between 0 and 1."""
        self._progress(self.call_id, text, part)

    async def call(self, name: str, arguments: JsonObject = EMPTY) -> ToolResponse:
        """Call another tool through the same handlers and guards; return its response.

        Adapters and guards see its result as they see any; no message is appended for it, since
        no model asked. Only an async tool can wait for it.
        """
        return await self._call(name, arguments)


def deps_of(context: ToolContext) -> Any:
    """Return the deps of *context*, or `NO_DEPS`, for who hands them on."""
    return context._deps  # noqa: SLF001 - the property refuses where there are none
