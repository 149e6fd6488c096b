"""The set of tools of an agent or a runner."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

from toolbus.errors import RegistrationError
from toolbus.tools.definitions import Tool
from toolbus.tools.definitions import tool as made_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolbus.events.catalogue import ToolSpec

logger = logging.getLogger("toolbus")


class Toolset:
    """The tools of an agent or a runner, by name; may change while in use.

    A toolset among *tools* is included: its later tools count as well.

    Raises `RegistrationError` for a name in use, and for an object that is not a tool.

    >>> [tool.spec.name for tool in Toolset([greet])]
    ['greet']
    """

    source: str = ""
    """The origin of the tools, such as the name of a server; "": the program itself."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any] | Toolset] = ()) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, tuple[Tool, Callable[[], bool]]] = {}
        self._included: tuple[Toolset, ...] = ()
        self._clashing: set[str] = set()
        for tool in (tools,) if isinstance(tools, Toolset) else tools:
            if isinstance(tool, Toolset):
                self.include(tool)
            else:
                self.add(tool)

    def __iter__(self) -> Iterator[Tool]:
        tools = [tool for tool, offered in self._tools.values() if offered()]
        included = [*chain.from_iterable(self._included)]
        counts = Counter([*self._tools, *[tool.spec.name for tool in included]])
        if clashing := {name for name in counts if counts[name] > 1}:
            self._warn_of_clashes(clashing)
        return iter([*tools, *[tool for tool in included if counts[tool.spec.name] == 1]])

    def _warn_of_clashes(self, names: set[str]) -> None:
        """Log, once for each of *names*, the included sets with such a tool: none is used."""
        for name in names - self._tools.keys() - self._clashing:
            self._clashing.add(name)
            sources = ", ".join([repr(each.source) for each in self._included if each.get(name)])
            text = "tool %r is left out: %s all have it; give one of the sets a prefix"
            logger.warning(text, name, sources)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def add(
        self, tool: Tool | Callable[..., Any], *, offered: Callable[[], bool] = lambda: True
    ) -> Tool:
        """Add *tool*, a tool or function, available while *offered* returns True; return it."""
        if not isinstance(tool, Tool):
            tool = made_tool(tool)
        with self._lock:
            self._check_free(tool.spec.name)
            self._tools = {**self._tools, tool.spec.name: (tool, offered)}
        return tool

    def include(self, tools: Toolset) -> None:
        """Include all tools of *tools*, now and later, except names of two included sets."""
        names = [tool.spec.name for tool in tools]
        with self._lock:
            for name in names:
                self._check_free(name, "; give one of the sets a prefix")
            self._included = (*self._included, tools)

    def remove(self, name: str) -> None:
        """Remove the tool *name*, if it was added; running calls go on with it."""
        with self._lock:
            self._tools = {key: value for key, value in self._tools.items() if key != name}

    def get(self, name: str) -> Tool | None:
        """Return the tool *name*, or None."""
        entry = self._tools.get(name)
        if entry is not None:
            tool, offered = entry
            return tool if offered() else None
        included = [each for tools in self._included if (each := tools.get(name)) is not None]
        return included[0] if len(included) == 1 else None

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs of all tools, as a model sees them."""
        return tuple([tool.spec for tool in self])

    def source_of(self, name: str) -> str | None:
        """Return the `source` of the toolset with the tool *name*, None without such a tool."""
        if name in self._tools:
            return self.source
        sources = [tools.source_of(name) for tools in self._included if tools.get(name)]
        return sources[0] if len(sources) == 1 else None

    def _check_free(self, name: str, way_out: str = "") -> None:
        """Raise `RegistrationError` if *name* is in use, also by a tool not offered now."""
        if name in self._tools or self.get(name) is not None:
            raise RegistrationError(f"tool {name!r}", f"the name is already in use{way_out}")
