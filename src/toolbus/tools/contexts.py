"""The context of a tool: its call, its caller, and the deps of its program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from toolbus.errors import RegistrationError, ToolNotRunError
from toolbus.events.catalogue import Scope
from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    # Only type checkers need its default, by which a plain `ToolContext` has deps of any type.
    from typing_extensions import TypeVar

    from toolbus.messages.records import JsonObject, ToolResponse
    from toolbus.tools.calls.runner import ToolRunner

    D_co = TypeVar("D_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    D_co = TypeVar("D_co", covariant=True)

Progress: TypeAlias = Callable[[str, str, float | None], None]
"""Takes the call's id, a text for people, and the finished part between 0 and 1, or None."""

NO_DEPS: Any = object()
"""The default of *deps*, since None is a valid value."""


class ToolContext(Generic[D_co]):
    """The call of a tool, its caller and the program's deps, for the parameter annotated with it.

    `ToolContext[MyDeps]` gives type checkers the type of `deps`. A test of a tool needs only
    *deps*: the scope is empty then, progress is dropped, and no other tool can be called.

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
        # A sub-agent without a gate uses its caller's; without a bus, it joins its caller's.
        self.gate = None if runner is None else runner.gate
        self.bus = None if runner is None else runner.bus
        self._runner, self._deps = runner, deps

    @property
    def deps(self) -> D_co:
        """The object that the program gave as `deps=`; it is in no message, event or store.

        Raises `RegistrationError` without deps.
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

        Adapters and guards see its result as they see any. No message is appended, because the
        model did not make the call. Only an async tool can await this.
        """
        if self._runner is None:
            raise ToolNotRunError(name)
        return await self._runner.nested(name, arguments)


def deps_of(context: ToolContext) -> Any:
    """Return the deps of *context*, or `NO_DEPS`, for a sub-agent."""
    return context._deps  # noqa: SLF001 - the property raises without deps
