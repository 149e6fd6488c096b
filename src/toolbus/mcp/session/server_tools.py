"""The tools available to one call: the server's, and the components'."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from toolbus.messages import schemas
from toolbus.messages.records import encode
from toolbus.tools.definitions import Tool
from toolbus.tools.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.events.call_values import ToolSpec
    from toolbus.mcp.session.tool_calls import ProxiedCall
    from toolbus.mcp.session.tool_list import ToolList
    from toolbus.messages.records import JsonObject, ToolResponse
    from toolbus.tools.contexts import ToolContext


class ServerTool(Tool):
    """A tool of the server, bound to one call."""

    is_async = True

    def __init__(self, spec: ToolSpec, call: ProxiedCall) -> None:
        # Set directly, not derived from `run`, because each call makes an instance.
        self.spec, self._call = spec, call
        self.timeout = call.timeout
        self.idempotent = spec.annotations.get("idempotentHint") is True

    async def run(self, arguments: JsonObject) -> ToolResponse:
        """Run the tool on the server."""
        original = self._call.call.arguments
        # Encoded, because 1 == True; and compared with the line, because a handler may have
        # mutated the original.
        if arguments is not original and encode(arguments) == encode(self._call.sent_arguments):
            arguments = original
        return await self._call.ask_server(self.spec.name, arguments)

    def bind(
        self,
        values: Mapping[str, Any],
        context: Callable[[], ToolContext],  # noqa: ARG002 - as `Tool.bind`
    ) -> Callable[[], Any]:
        """Return `run` with *values*; *context* is not used."""
        return partial(self.run, **values)

    def fit(self, arguments: JsonObject) -> tuple[dict[str, Any], str | None]:
        """Return *arguments*, and the problem if they do not fit the server's schema, or None.

        For the check, null counts as a missing argument unless it is required: clients send it for
        optional arguments, as in SEP-2243, and servers take it.
        """
        schema, values = self.spec.input_schema, {"arguments": arguments}
        problem = schemas.problem(schema, arguments)
        if problem is None or None not in arguments.values():
            return values, problem
        required = schema.get("required", ())
        named = {
            name: value
            for name, value in arguments.items()
            if value is not None or name in required
        }
        return values, schemas.problem(schema, named)


class ServerTools(Toolset):
    """The tools available to *call*: the server's, in *tool_list*, and *of_components*.

    After a wait the call gets the current version of a tool, or the last one of a removed tool.
    """

    def __init__(self, tool_list: ToolList, call: ProxiedCall, of_components: Toolset) -> None:
        super().__init__()
        self._tool_list, self._specs = tool_list, tool_list.specs
        self._call, self._components = call, of_components
        self._made: dict[str, Tool] = {}

    def __iter__(self) -> Iterator[Tool]:
        names = [*self._specs, *[tool.spec.name for tool in self._components]]
        return iter([tool for name in dict.fromkeys(names) if (tool := self.get(name)) is not None])

    def get(self, name: str) -> Tool | None:
        """Return the tool *name* of the server or a component, or None."""
        tool, spec = self._made.get(name), self._tool_list.specs.get(name) or self._specs.get(name)
        if spec is None:
            return self._components.get(name)
        if tool is None or tool.spec is not spec:
            # Cached, because a call looks its tool up several times.
            tool = self._made[name] = ServerTool(spec, self._call)
        return tool
