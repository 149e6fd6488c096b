"""Adapters: they change a tool's spec, a call's arguments or a response, for chosen tools."""

from __future__ import annotations

from collections.abc import Awaitable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall, ToolResponse

T = TypeVar("T")
Adapted: TypeAlias = T | Awaitable[T | None] | None


class ToolAdapter:
    """A change to some tools; a subclass writes what it needs of the three `adapt_` methods.

    Each may be sync or async; None, or the same object, means unchanged. *tools* is a glob
    pattern of names, or several; a higher *priority* comes first in a component. When an adapter
    fails, "closed" withholds what it was to change, "open" leaves that as it was. *name* stands
    in the ledger and before the model; if the class does not say, it is that of the class.
    """

    name: str = "ToolAdapter"
    tools: tuple[str, ...] | str = ("*",)
    priority: int = 100
    on_error: Literal["open", "closed"] = "closed"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def should_adapt(self, tool_name: str) -> bool:
        """Tell whether the tool *tool_name* is one of those to adapt."""
        for pattern in (self.tools,) if isinstance(self.tools, str) else self.tools:
            if pattern == "*" or fnmatchcase(tool_name, pattern):
                return True
        return False

    def adapt_signature(self, spec: ToolSpec) -> Adapted[ToolSpec]:
        """Return what the model is told of the tool; its name stays."""

    def adapt_parameters(self, call: ToolCall) -> Adapted[ToolCall]:
        """Return the call with arguments for the signature that this adapter was given."""

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> Adapted[ToolResponse]:
        """Return the response that the model reads; *call* is the call that it answers."""
