"""Checks of the bridge to FastMCP that no scenario has: forms, resources, other servers.

It runs in the environment of FastMCP, `python fastmcp_checks.py [CHECK…]`, and prints the name of
each check that holds.
"""

import asyncio
import json
import sys
from base64 import b64decode

import mcp_types
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import MCPError, ToolError
from fastmcp.server import create_proxy
from fastmcp.server.middleware import MiddlewareContext
from world_handlers import SECRET

from toolbus import AgentComponent, Ask, Deny, guard, on, tool
from toolbus.bridges.fastmcp import FastMCPBridge
from toolbus.events import (
    MCP_REQUEST_BEFORE,
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    McpRequest,
)


class House(AgentComponent):
    """Handlers: one hides the secret, one asks, one judges resources, one notes the ends."""

    def __init__(self):
        super().__init__()
        self.ends = []

    @on(MESSAGE_APPEND_BEFORE, roles="tool", on_error="closed")
    def hide(self, ctx):
        return ctx.value.map_text(lambda text: text.replace(SECRET, "[secret]"))

    @guard(TOOL_CALL_BEFORE, tools="ask_*")
    def ask(self, ctx):
        return Ask("May it run?")

    @guard(MCP_REQUEST_BEFORE)
    def judge(self, ctx):
        return Deny("it is private") if "private" in str(ctx.value.params) else None

    @on(TOOL_CALL_AFTER)
    def note(self, ctx):
        self.ends.append([ctx.value.requested.name, ctx.value.status, ctx.scope.session_id])

    @tool
    def successor(self, number: int) -> int:
        """Return the next number."""
        return number + 1


class NotFive(AgentComponent):
    """A guard that denies the number 5."""

    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny("not five") if ctx.value.arguments.get("number") == 5 else None


class Served:
    """A server with tools, a bridge, and a client; *answer* is what its user answers to forms."""

    def __init__(self, *, answer=None, mode="legacy", approver=None, more=(), **options):
        self.house, self.ran, self.shown = House(), [], []
        self.hanging = asyncio.Event()
        self.server, self.mounted = FastMCP("served", **options), FastMCP("mounted")
        self.bridge = FastMCPBridge([self.house, *more], approver=approver)
        self.server.add_middleware(self.bridge)
        self.server.mount(self.mounted, namespace="below")
        self._answer = answer
        add_tools(self)
        add_async_tools(self)
        add_resources(self.server)
        handler = None if answer is None else self._show
        self.client = Client(self.server, mode=mode, elicitation_handler=handler)

    async def _show(self, message, response_type, params, context):
        self.shown.append(message)
        (field,) = params.requested_schema["properties"]
        value = "Joe" if field == "name" else self._answer
        return ElicitResult(action="accept", content={field: value})

    async def call(self, name, **arguments):
        """Return the client's view of a call: whether it failed, its text, its structure."""
        result = await self.client.call_tool(name, arguments, raise_on_error=False)
        texts = [getattr(block, "text", block.type) for block in result.content]
        return [result.is_error, "\n".join(texts), result.structured_content]

    async def __aenter__(self):
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.client.__aexit__(*error)
        await self.bridge.aclose()


def add_tools(served):
    """Add the tools, some to the mounted server."""

    @served.server.tool
    def ask_echo(text: str) -> str:
        served.ran.append(text)
        return text

    @served.server.tool
    def form(text: str, ctx: Context):
        if ctx.input_responses is not None:
            return f"hello {ctx.input_responses['name'].content['name']}"
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = mcp_types.ElicitRequestFormParams(message=text, requested_schema=schema)
        asked = mcp_types.ElicitRequest(method="elicitation/create", params=params)
        return mcp_types.InputRequiredResult(input_requests={"name": asked}, request_state="own")

    @served.server.tool
    def fail() -> str:
        raise ValueError(f"cannot read {SECRET}")

    @served.mounted.tool(name="fail")
    def fail_below() -> str:
        raise ToolError(f"cannot read {SECRET} below")

    @served.server.tool
    def names() -> list[str]:
        return ["a", SECRET]

    @served.server.tool
    def large() -> dict[str, int]:
        return {"a": 2**80}

    @served.server.tool
    def whole() -> mcp_types.CallToolResult:
        text = mcp_types.TextContent(type="text", text=f"whole {SECRET}")
        return mcp_types.CallToolResult(content=[text], structured_content={"a": SECRET})

    @served.server.tool
    def double(number: int) -> int:
        served.ran.append(number)
        return 2 * number


def add_async_tools(served):
    """Add a tool that hangs, and one that calls another."""

    @served.server.tool
    async def hang() -> str:
        served.hanging.set()
        await asyncio.sleep(30)
        return "too late"

    @served.server.tool
    async def nested(ctx: Context) -> str:
        try:
            await ctx.fastmcp.call_tool("fail", {})
        except ToolError as error:
            return str(error)
        return "no exception"


def add_resources(server):
    """Add resources, in text and in bytes, and a prompt."""
    server.resource("data://text")(lambda: f"text {SECRET}")
    server.resource("data://bytes")(lambda: bytes(SECRET, "utf-8"))
    server.resource("data://private")(lambda: "never read")

    @server.prompt
    def greet(name: str) -> str:
        return f"hello {name}, {SECRET}"


# --- checks ---------------------------------------------------------------------------------------


async def check_client_approves():
    async with Served(answer=True) as served:
        assert await served.call("ask_echo", text="a") == [False, "a", {"result": "a"}]
        assert (served.ran, len(served.shown)) == (["a"], 1)


async def check_client_refuses():
    async with Served(answer=False) as served:
        failed, text, _ = await served.call("ask_echo", text="a")
        assert (failed, text, served.ran) == (True, "approval was refused", [])


async def check_client_without_forms_is_refused():
    # Since MCP 2026-07-28 no client shows a form of a running call.
    for client in ({}, {"answer": True, "mode": "auto"}):
        async with Served(**client) as served:
            failed, text, _ = await served.call("ask_echo", text="a")
            assert (failed, served.ran, served.shown) == (True, [], [])
            assert "approval" in text


async def check_approver_of_the_server_comes_first():
    async with Served(answer=True, approver=lambda ask, call, scope: False) as served:
        assert (await served.call("ask_echo", text="a"))[0]
        assert (served.ran, served.shown) == ([], [])


async def check_form_shows_the_whole_call():
    async with Served(answer=True) as served:
        await served.call("ask_echo", text="rm \u202e -rf")
        assert "ask_echo" in served.shown[0]
        assert "\u202e" not in served.shown[0]
        assert "-rf" in served.shown[0]


async def check_failures_keep_the_words_of_the_server():
    async with Served() as served:
        assert (await served.call("fail"))[1] == "Error calling tool 'fail': cannot read [secret]"
        assert (await served.call("below_fail"))[1] == "cannot read [secret] below"
        assert (await served.call("nested"))[1].endswith("cannot read [secret]")


async def check_function_gets_the_exception_of_a_tool():
    async with Served() as served:

        @served.server.tool
        async def runs_another(ctx: Context) -> str:
            other = await ctx.fastmcp.get_tool("fail")
            try:
                await other.run({})
            except ValueError as error:
                return str(error)
            return "no exception"

        assert (await served.call("runs_another"))[1] == "cannot read [secret]"


async def check_masked_failure_stays_masked():
    async with Served(mask_error_details=True) as served:
        assert await served.call("fail") == [True, "Error calling tool 'fail'", None]


async def check_structure_is_changed_with_the_text():
    async with Served() as served:
        names = ["a", "[secret]"]
        assert await served.call("names") == [
            False,
            json.dumps(names, separators=(",", ":")),
            {"result": names},
        ]


async def check_result_of_the_protocol_is_redacted():
    async with Served() as served:
        assert await served.call("whole") == [False, "whole [secret]", {"a": "[secret]"}]


async def check_arguments_are_as_lax_as_the_server():
    async with Served() as served:
        assert await served.call("double", number="2") == [False, "4", {"result": 4}]
        assert "invalid arguments" in (await served.call("double", number="x"))[1]
    async with Served(more=[NotFive()]) as served:
        assert await served.call("double", number="5") == [True, "not five", None]
        assert served.ran == []
    async with Served(strict_input_validation=True) as served:
        assert (await served.call("double", number="2"))[0]
        assert served.ran == []


async def check_tools_of_components_are_offered():
    async with Served() as served:
        assert "successor" in [each.name for each in await served.client.list_tools()]
        assert (await served.call("successor", number=1))[:2] == [False, "2"]


async def check_resources_and_prompts_are_judged():
    async with Served() as served:
        (text,) = await served.client.read_resource("data://text")
        (blob,) = await served.client.read_resource("data://bytes")
        prompt = await served.client.get_prompt("greet", {"name": "Ann"})
        assert text.text == "text [secret]"
        assert b64decode(blob.blob) == b"[secret]"
        assert prompt.messages[0].content.text == "hello Ann, [secret]"
        reason = ""
        try:
            await served.client.read_resource("data://private")
        except MCPError as error:
            reason = str(error)
        assert reason == "it is private"


async def check_form_of_a_tool_is_judged():
    async with Served(answer=True, mode="auto") as served:
        assert (await served.call("form", text="name?"))[:2] == [False, "hello Joe"]
        assert served.shown == ["name?"]
        failed, text, _ = await served.call("form", text=SECRET)
        assert (failed, "a handler changed the form" in text) == (True, True)
        assert served.shown == ["name?"]


async def check_changed_request_is_refused():
    class Rename(AgentComponent):
        @on(MCP_REQUEST_BEFORE)
        def rename(self, ctx):
            return McpRequest(method=ctx.value.method, params={"name": "other"})

    async with Served(more=[Rename()]) as served:
        reason = ""
        try:
            await served.client.get_prompt("greet", {"name": "Ann"})
        except MCPError as error:
            reason = str(error)
        assert "changed the request" in reason


async def check_result_of_a_background_task_is_refused():
    async def state(context):
        return {"taskId": "t1", "result": {"content": []}}

    async with Served() as served:
        reason = ""
        try:
            await served.bridge.on_request(
                MiddlewareContext(message="t1", method="tasks/get"), state
            )
        except MCPError as error:
            reason = str(error)
        assert "background" in reason


async def check_proxied_server_is_judged():
    backend = FastMCP("backend")

    @backend.tool
    def fail() -> str:
        raise ValueError(f"cannot read {SECRET}")

    proxy, house = create_proxy(backend), House()
    async with FastMCPBridge([house]) as bridge:
        proxy.add_middleware(bridge)
        async with Client(proxy) as client:
            failed = await client.call_tool("fail", {}, raise_on_error=False)
            await client.call_tool("no_such", {}, raise_on_error=False)
        assert failed.content[0].text.endswith("cannot read [secret]")
        assert [end[:2] for end in house.ends] == [["fail", "error"], ["no_such", "unknown_tool"]]


async def check_call_of_the_program_is_judged():
    async with Served() as served:
        result = await served.server.call_tool("names")
        assert result.structured_content == {"result": ["a", "[secret]"]}
        assert [end[:2] for end in served.house.ends] == [["names", "ok"]]


async def check_cancelled_call_ends_once():
    async with Served() as served:
        waiting = asyncio.create_task(served.call("hang"))
        await served.hanging.wait()
        waiting.cancel()
        await asyncio.wait({waiting})
        await asyncio.sleep(0.2)
        assert [end[:2] for end in served.house.ends] == [["hang", "cancelled"]]


async def check_odd_calls_have_a_result():
    async with Served() as served:
        for name, given in (
            ("", {}),
            ("__abc_fail", {}),
            ("x" * 5000, {}),
            ("names", {"a": 2**80}),
            ("large", {}),
        ):
            failed, text, _ = await served.call(name, **given)
            assert failed
            assert text


if __name__ == "__main__":
    for name, check in [*globals().items()]:
        if name.startswith("check_") and (not sys.argv[1:] or name in sys.argv):
            asyncio.run(check())
            print(name)
