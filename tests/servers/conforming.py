"""An MCP server of the SDK with what the official conformance suite asks a server for.

`conforming.py` speaks over stdio, `conforming.py http` on a loopback address, which it prints.
"""

import base64
import socket
import sys

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Message, UserMessage
from mcp.types import (
    AudioContent,
    CallToolResult,
    Completion,
    ElicitRequestedSchema,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
server = MCPServer("conforming", version="1.0.0", log_level="CRITICAL")


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def embedded(uri: str, words: str) -> EmbeddedResource:
    inner = TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    return EmbeddedResource(type="resource", resource=inner)


def picture() -> ImageContent:
    return Image(data=PICTURE, format="png").to_image_content()


@server.tool()
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@server.tool()
def test_image_content() -> CallToolResult:
    """Return an image."""
    return CallToolResult(content=[picture()])


@server.tool()
def test_audio_content() -> CallToolResult:
    """Return a sound."""
    return CallToolResult(content=[AudioContent(type="audio", data=SOUND, mime_type="audio/wav")])


@server.tool()
def test_embedded_resource() -> CallToolResult:
    """Return a resource."""
    words = "This is an embedded resource content."
    return CallToolResult(content=[embedded("test://embedded-resource", words)])


@server.tool()
def test_multiple_content_types() -> CallToolResult:
    """Return a text, an image and a resource."""
    mixed = embedded("test://mixed-content-resource", '{"test":"data","value":123}')
    return CallToolResult(content=[text("Multiple content types test:"), picture(), mixed])


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(words)
        await anyio.sleep(0.05)
    return "logged"


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Tell of progress."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(0.05)
    return "done"


@server.tool()
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=text(prompt))
    # Without that id it would go to the standing stream, and be lost if the client has none yet.
    result = await ctx.session.create_message(
        [message], max_tokens=100, related_request_id=ctx.request_id
    )
    return f"LLM response: {result.content.text}"


class Person(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the person in front of the client."""
    result = await ctx.elicit(message, schema=Person)
    return f"User response: {result.model_dump_json()}"


async def form(ctx: Context, properties: dict, words: str) -> str:
    schema: ElicitRequestedSchema = {"type": "object", "properties": properties, "required": []}
    result = await ctx.session.elicit_form(words, schema, ctx.request_id)
    return f"Elicitation completed: action={result.action}, content={result.content}"


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with defaults."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"],
                   "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }  # fmt: skip
    return await form(ctx, properties, "Please review")


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask for choices."""
    names = [{"const": f"value{n}", "title": f"{n}. Option"} for n in (1, 2, 3)]
    options = ["option1", "option2", "option3"]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": names},
        "legacyEnum": {"type": "string", "enum": options, "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": names}},
    }
    return await form(ctx, properties, "Please choose")


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    """Close the stream, and go on."""
    await ctx.close_sse_stream()
    await anyio.sleep(0.1)
    return "Reconnection test completed"


ROUND = {
    "elicitation": ("user_name", "elicitation/create", {
        "message": "What is your name?", "requestedSchema": {
            "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}),
    "sampling": ("capital_question", "sampling/createMessage", {
        "messages": [{"role": "user",
                      "content": {"type": "text", "text": "What is the capital of France?"}}],
        "maxTokens": 100}),
    "list_roots": ("client_roots", "roots/list", {}),
}  # fmt: skip


def asking(kind: str) -> None:
    """Offer a tool that asks for input of *kind* in its result."""
    key, method, params = ROUND[kind]

    def ask(ctx: Context) -> CallToolResult | InputRequiredResult:
        if key in (ctx.input_responses or {}):
            return CallToolResult(content=[text(f"Thanks for {key}")])
        wanted = {key: {"method": method, "params": params}}
        return InputRequiredResult.model_validate({"inputRequests": wanted, "requestState": key})

    server.add_tool(ask, name=f"test_input_required_result_{kind}", description=f"Ask: {kind}")


for each in ROUND:
    asking(each)


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """Return a text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """Return bytes."""
    return PICTURE


@server.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """Return what may be watched."""
    return "Watched resource content"


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:  # noqa: A002 - the suite's name
    """Return what was asked for."""
    return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


@server.prompt()
def test_simple_prompt() -> str:
    """Say something."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Say what is given."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt(name="test_prompt_with_embedded_resource")
def prompt_with_resource(resourceUri: str) -> list[Message]:  # noqa: N803 - the suite's name
    """Embed a resource."""
    inner = embedded(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(content=inner), UserMessage(content=text("Please process it."))]


@server.prompt()
def test_prompt_with_image() -> list[Message]:
    """Show an image."""
    return [UserMessage(content=picture()), UserMessage(content=text("Please analyze it."))]


@server.completion()
async def complete(ref, argument, context) -> Completion:
    words = ["paris", "park", "party"]
    return Completion(values=[one for one in words if one.startswith(argument.value)], total=3)


def main() -> None:
    if len(sys.argv) == 1:
        server.run("stdio")
        return
    import uvicorn

    at = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{at.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[at])


main()
