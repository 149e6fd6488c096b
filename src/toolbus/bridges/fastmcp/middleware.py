"""The middleware of a FastMCP server: its calls pass components, and so do other requests."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec.structs import replace

from toolbus.bridges.bridged_call import RUNNING
from toolbus.bridges.host import BridgeHost
from toolbus.errors import ToolbusError
from toolbus.events.catalogue import MCP_REQUEST_BEFORE, McpRequest, ToolSpec
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ToolCall, ToolResponse
from toolbus.settings.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from fastmcp import FastMCP
    from fastmcp.prompts.base import PromptResult
    from fastmcp.resources.base import ResourceResult
    from fastmcp.server.middleware import CallNext, MiddlewareContext
    from fastmcp.tools.base import Tool, ToolResult
    from mcp_types import (
        CallToolRequestParams,
        GetPromptRequestParams,
        ListToolsRequest,
        ReadResourceRequestParams,
    )

    from toolbus.bridges.fastmcp.server_call import CallContext
    from toolbus.bridges.frameworks import Ability, Delivery
    from toolbus.bridges.session import BridgeSession
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent

try:
    from fastmcp.exceptions import FastMCPError, ToolError
    from fastmcp.server.dependencies import extract_version_spec
    from fastmcp.server.middleware import Middleware
    from fastmcp.server.providers.addressing import parse_hashed_backend_name
    from fastmcp.tools.base import InputRequiredToolResult
    from fastmcp.utilities.versions import VersionSpec

    from toolbus.bridges.fastmcp import results
    from toolbus.bridges.fastmcp.failures import FailureShield
    from toolbus.bridges.fastmcp.server_call import (
        ClientPauseError,
        PausedCall,
        ServerCall,
        cancelled_once,
        server_context,
        session_key,
    )
except ImportError as error:
    msg = needs_extra("the bridge to FastMCP needs its library", "fastmcp")
    raise ImportError(msg, name="fastmcp") from error

T = TypeVar("T")

_MAX_REMEMBERED = 10_000
"""The most forms without an answer, and background tasks; an older form is shown again."""


class FastMCPBridge(Middleware):
    """A middleware with *components* for a FastMCP server.

        server.add_middleware(FastMCPBridge([RedactSecrets(), Policy.read("policy.toml")]))

    Add it after all other middleware: they then see nothing hidden by handlers, and guards judge
    the call as it runs. Without an approver questions are put to the client's user, if the client
    shows forms.

    Args:
        components: components and adapters, as of an `Agent`.
        ids: returns the id of a new call, as the protocol has none.
        options: the further arguments of `BridgeHost`, such as *store* and *approver*.
    """

    def __init__(
        self,
        components: Iterable[AgentComponent | ToolAdapter] = (),
        *,
        ids: Callable[[], str] = new_id,
        **options: Any,
    ) -> None:
        self._host = BridgeHost("fastmcp", components, **options)
        # The owner of a server with an approver does not let the client's user approve.
        self._asks_client = options.get("approver") is None
        self._ids, self._shield = ids, FailureShield()
        self._paused: OrderedDict[str, PausedCall] = OrderedDict()
        self._tasks: OrderedDict[str, tuple[BridgeSession, ToolCall]] = OrderedDict()
        self._specs: dict[str, tuple[Tool, ToolSpec]] = {}

    @property
    def delivers(self) -> Mapping[Ability, Delivery]:
        """The delivery of each ability."""
        return self._host.delivers

    async def aclose(self) -> None:
        """Write the last records and close the components."""
        await self._host.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *args: object) -> None:
        await self.aclose()

    # --- the framework's hooks -------------------------------------------------------------------

    async def on_call_tool(
        self, context: CallContext, call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Take a call through the components."""
        server, request = server_context(context).fastmcp, context.message
        self._shield.install(server)
        paused = self._paused.pop(request.request_state or "", None)
        session = self._session(context) if paused is None else paused.session
        tool, spec = await self._find(server, request)
        bridged = ServerCall(context, call_next, tool, paused)
        ask = bridged.ask if self._may_ask_client and bridged.shows_forms else None
        call_id = self._ids() if paused is None else paused.call_id
        try:
            call = ToolCall(id=call_id, name=request.name, arguments=request.arguments or {})
            work = session.call(call, spec, bridged.run, ask=ask, check=bridged.check)
            end = await cancelled_once(work)
        except ClientPauseError as pause:
            paused = PausedCall(session, call_id, bridged.members)
            _remember(self._paused, pause.state, paused)
            return InputRequiredToolResult(pause.question)
        except (ToolbusError, ValueError) as error:
            raise ToolError(f"the call was not made: {error}") from error
        result = bridged.result_of(end, spec)
        if (task_id := getattr(result, "task_id", None)) is not None:
            _remember(self._tasks, task_id, (session, call))
        return result

    async def on_list_tools(
        self,
        context: MiddlewareContext[ListToolsRequest],
        call_next: CallNext[ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        """Return the tools as handlers show them, and the tools of components."""
        tools = await call_next(context)
        # Of several versions of a tool handlers see the first.
        before = {tool.name: results.spec_of(tool) for tool in reversed(tools)}
        added = [spec for spec in self._host.tools.specs if spec.name not in before]
        adapted = await self._session(context).adapt_tools([*before.values()], added)
        after = {spec.name: spec for spec in adapted}
        listed = [
            results.adapted_tool(tool, before[tool.name], after[tool.name])
            for tool in tools
            if tool.name in after
        ]
        return listed + [
            results.listed_tool(after[each.name]) for each in added if each.name in after
        ]

    async def on_read_resource(
        self,
        context: MiddlewareContext[ReadResourceRequestParams],
        call_next: CallNext[ReadResourceRequestParams, ResourceResult],
    ) -> ResourceResult:
        """Judge the reading of a resource, and show handlers its contents."""
        asked = McpRequest(method="resources/read", params={"uri": str(context.message.uri)})

        async def read(params: dict[str, Any]) -> ResourceResult:
            message = context.message.model_copy(update=params)
            return await super(FastMCPBridge, self).on_read_resource(
                context.copy(message=message), call_next
            )

        read_resource: ResourceResult = await self._judge(context, asked, read, results.RESOURCE)
        return read_resource

    async def on_get_prompt(
        self,
        context: MiddlewareContext[GetPromptRequestParams],
        call_next: CallNext[GetPromptRequestParams, PromptResult],
    ) -> PromptResult:
        """Judge the use of a prompt of the server, and show handlers its messages."""
        message = context.message
        params = {"name": message.name, "arguments": message.arguments or {}}
        asked = McpRequest(method="prompts/get", params=params)

        async def render(params: dict[str, Any]) -> PromptResult:
            return await call_next(context.copy(message=message.model_copy(update=params)))

        rendered: PromptResult = await self._judge(context, asked, render, results.PROMPT)
        return rendered

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Judge a request without a hook for its kind, and the results of background tasks."""
        if context.method == "tasks/get":
            return await self._task(await call_next(context))
        if context.method not in {"completion/complete", "resources/subscribe"}:
            return await call_next(context)
        asked = McpRequest(method=context.method, params=context.message)

        async def forward(params: dict[str, Any]) -> Any:
            return await call_next(context.copy(message=params))

        return await self._judge(context, asked, forward, results.OTHER)

    # --- the parts of these ----------------------------------------------------------------------

    @property
    def _may_ask_client(self) -> bool:
        """Whether the client's user may approve the call, which is not made by a tool."""
        running = RUNNING.get()
        return self._asks_client and (running is None or running.session.host is not self._host)

    def _session(self, context: MiddlewareContext[Any]) -> BridgeSession:
        return self._host.session(session_key(server_context(context)))

    async def _find(
        self, server: FastMCP, request: CallToolRequestParams
    ) -> tuple[Tool | None, ToolSpec | None]:
        """Return the tool of *request*, and its spec; two None for an unknown tool."""
        name, version = request.name, extract_version_spec(request.meta)
        try:
            tool = await server.get_tool(name, VersionSpec(eq=version) if version else None)
        except FastMCPError:
            # The server will refuse the call by the same error.
            return None, ToolSpec(name=name)
        if tool is None and (hashed := parse_hashed_backend_name(name)) is not None:
            # The server's own pages call tools so: FastMCP 4.2, `FastMCP.call_tool`.
            tool = await server.get_tool_by_hash(*hashed)
        if tool is None:
            return None, None
        known = self._specs.get(name)
        if known is None or known[0] is not tool:
            known = self._specs[name] = (tool, replace(results.spec_of(tool), name=name))
        return known

    async def _task(self, body: Any) -> Any:
        """Return *body*, the state of a background task, with its result as handlers leave it."""
        task = results.json_of(body)
        if not task.keys() & {"result", "error", "inputRequests"}:
            return body
        session, call = self._tasks.get(task.get("taskId"), (None, None))
        if session is None or call is None:
            reason = "its call is unknown here, so its result cannot be checked; call it again"
            raise results.OTHER.error(f"task {task.get('taskId')!r}: {reason}")
        before = results.task_response(task)
        after = await session.judge_result(call.id, call.name, before)
        return body if after is before else results.task_result(after, task)

    async def _judge(
        self,
        context: MiddlewareContext[Any],
        asked: McpRequest,
        run: Callable[[dict[str, Any]], Awaitable[Any]],
        kind: results.Kind,
    ) -> Any:
        """Take the request *asked* through guards, *run* it, and show handlers its result."""
        await self._host.ready()
        session = self._session(context)
        judged = await self._host.bus.apply(MCP_REQUEST_BEFORE, asked, scope=session.scope)
        if judged.denied is not None:
            raise kind.error(judged.denied.reason)
        if judged.asked is not None:
            raise kind.error(f"approval required: {judged.asked.prompt}")
        if judged.value.method != asked.method:
            raise kind.error(f"a handler changed the method to {judged.value.method!r}")
        params = thaw(judged.value.params)
        try:
            result = await run(params)
        except FastMCPError as error:
            result, before = None, ToolResponse.from_text(str(error), is_error=True)
        else:
            before = kind.response_of(result, params)
        after = await session.judge_result(new_id(), asked.method, before)
        if after.is_error:
            raise kind.error(after.text)
        return result if after is before else kind.result_of(after, result)


def _remember(known: OrderedDict[str, T], key: str, value: T) -> None:
    known[key] = value
    if len(known) > _MAX_REMEMBERED:
        known.popitem(last=False)
