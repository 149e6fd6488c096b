"""The context of a tool: its call, its caller, and the deps of its program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from toolbus.errors import RegistrationError, ToolNotRunError
from toolbus.events.catalogue import Scope
from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    # Only checkers need its default, by which a plain `ToolContext` has deps of any type.
    from typing_extensions import TypeVar

    from toolbus.messages.records import JsonObject, ToolResponse
    from toolbus.tools.calls.runner import ToolRunner

    D_co = TypeVar("D_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    D_co = TypeVar("D_co", covariant=True)

Progress: TypeAlias = Callable[[str, str, float | None], None]
"""Takes the call's id, a text for people, and the finished part between 0 and 1, if known."""

NO_DEPS: Any = object()
"""Stands for deps that were not given, since None can be given."""


class ToolContext(Generic[D_co]):
    """What a tool may know of its call; the runner fills the parameter annotated with it.

    `ToolContext[MyDeps]` tells checkers the type of `deps`. One that is made in a test of a tool
    needs but *deps*: its scope is empty, its progress goes nowhere, and it can call no other tool.

    >>> def whose(context: ToolContext[str]) -> str:
    ...     return f"the caller is {context.deps}"
    >>> whose(ToolContext(deps="Jane"))
    'the caller is Jane'
    """

    __slots__ = ("_deps", "_runner", "bus", "call_id", "continued", "gate", "scope")

    def __init__(
        self,
        scope: Scope | None = None,
        call_id: str = "",
        runner: ToolRunner | None = None,
        *,
        deps: D_co = NO_DEPS,
        continued: bool = False,
    ) -> None:
        self.scope, self.call_id = scope or Scope(), call_id
        # Whether the call began before, perhaps in another process, and goes on.
        self.continued = continued
        # A sub-agent without a gate asks by its caller's; without a bus, it joins its caller's.
        self.gate = None if runner is None else runner.gate
        self.bus = None if runner is None else runner.bus
        self._runner, self._deps = runner, deps

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
        """Report the progress of the tool; *part* is the finished part, between 0 and 1."""
        if self._runner is not None:
            self._runner.report(self.call_id, text, part)

    async def call(self, name: str, arguments: JsonObject = EMPTY) -> ToolResponse:
        """Call another tool through the same handlers and guards; return its response.

        Adapters and guards see its result as they see any; no message is appended for it, since
        no model asked. Only an async tool can wait for it.
        """
        if self._runner is None:
            raise ToolNotRunError(name)
        return await self._runner.nested(name, arguments)


def deps_of(context: ToolContext) -> Any:
    """Return the deps of *context*, or `NO_DEPS`, for a sub-agent."""
    return context._deps  # noqa: SLF001 - the property refuses where there are none
