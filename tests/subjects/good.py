"""Adapters, guards and other handlers that keep every law; all that we ship is among them."""

import re
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from toolbus import AgentComponent, Ask, Deny, ToolAdapter, guard, on, tool
from toolbus.cli.demo import components as demo
from toolbus.components.participants import before_tool
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    TransformEvent,
)
from toolbus.testing.checks import check_adapter, check_guard, check_handler
from toolbus.workspace.file_tools import FileTools
from toolbus.workspace.shell_tool import ShellTool


@tool
def read_file(path: str, lines: int = 100) -> dict[str, str]:
    """Read a file."""
    return {"text": f"{path} {lines}"}


class Shorten(ToolAdapter):
    tools = ("read_*",)

    def adapt_response(self, response, call):
        return response.map_text(lambda text: text[:20] + " …" if len(text) > 20 else text)


class Later(ToolAdapter):
    async def adapt_signature(self, spec):
        return replace(spec, description=f"{spec.description} (slow)")

    async def adapt_response(self, response, call):
        return None


class Rename(ToolAdapter):
    """The model is told of `file`, the tool gets `path`."""

    tools = "read_file"

    def adapt_signature(self, spec):
        known = dict(spec.input_schema.get("properties", {}))
        if "path" not in known:
            return None
        properties = {"file": known.pop("path"), **known}
        return replace(
            spec, input_schema={**spec.input_schema, "properties": properties, "required": ["file"]}
        )

    def adapt_parameters(self, call):
        if "file" not in call.arguments:
            return None
        return call.without_arguments("file").merge_arguments({"path": call.arguments["file"]})


class Blank(ToolAdapter):
    """Lines without anything in them."""

    def adapt_response(self, response, call):
        return response.map_text(lambda text: re.sub(r"\n{3,}", "\n\n", text))


class AsText(ToolAdapter):
    """Structured results become text, and nothing is promised of them."""

    def adapt_signature(self, spec):
        return replace(spec, output_schema=None)

    def adapt_response(self, response, call):
        return response.with_text(response.text)


class Explained(ToolAdapter):
    on_error = "open"

    def adapt_response(self, response, call):
        return replace(response, metadata={**response.metadata, "tool": call.name})


def bare_function(response):
    return response.map_text(str.strip)


def inside_only(ctx):
    path = ctx.value.arguments.get("path")
    return Deny("only inside the project") if str(path).startswith("/") else None


async def no_secrets(ctx):
    return Deny("that is a secret") if "BEGIN PRIVATE KEY" in ctx.value.text else None


def long_prompts(ctx):
    return Ask("so much text?") if len(ctx.value.prompt) > 1_000 else None


PRICED = TransformEvent("priced", int)


def dear(ctx):
    return Deny("too dear") if ctx.value > 100 else None


def normalise(ctx):
    path = ctx.value.arguments.get("path")
    if isinstance(path, str):
        return ctx.value.merge_arguments({"path": re.sub("/+", "/", path)})
    return None


def only_reading(ctx):
    return tuple([one for one in ctx.value if one.annotations.get("readOnlyHint")])


async def observe(ctx):
    assert ctx.value.status


class Whole(AgentComponent):
    """All at once, with a resource that it has only while it is installed."""

    def __init__(self):
        self.register_tool_adapter(Blank())
        self.limit = None

    async def install(self, agent):
        self.limit = 10_000

    async def close(self):
        self.limit = None

    @guard(TOOL_CALL_BEFORE, when=lambda ctx: ctx.value.arguments)
    def short(self, ctx):
        return Deny("too long") if len(str(ctx.value.arguments)) > self.limit else None

    @on(MESSAGE_PERSIST_BEFORE)
    async def stored(self, ctx):
        ctx.output = replace(ctx.value, metadata={"kept": True})


class Good(NamedTuple):
    """What keeps the laws, and how it is checked."""

    name: str
    check: object
    subject: object
    options: dict


def _good(check, subject, *event, **options):
    name = getattr(subject, "__name__", type(subject).__name__)
    return Good(
        f"{name}-{check.__name__}",
        lambda one, **given: check(*event, one, **given),
        subject,
        options,
    )


ADAPTERS = [
    _good(check_adapter, Shorten(), idempotent=False),
    _good(check_adapter, Later()),
    _good(check_adapter, Rename(), tools=[read_file]),
    _good(check_adapter, Blank(), idempotent=True),
    _good(check_adapter, AsText(), idempotent=True),
    _good(check_adapter, Explained(), idempotent=True),
    _good(check_adapter, bare_function, idempotent=True),
    _good(check_adapter, Whole()),
]
HANDLERS = [
    _good(check_guard, inside_only, tools=[read_file]),
    _good(check_guard, no_secrets, MESSAGE_APPEND_BEFORE),
    _good(check_guard, long_prompts, RUN_BEFORE),
    _good(check_guard, dear, PRICED),
    _good(check_guard, Whole()),
    _good(check_handler, normalise, TOOL_CALL_BEFORE, tools=[read_file], idempotent=True),
    _good(check_handler, only_reading, TOOLS_PROVIDE, idempotent=True),
    _good(check_handler, observe, TOOL_CALL_AFTER),
    _good(check_handler, Whole(), idempotent=True),
]
HERE = Path(__file__).parent
FOLDER = FileTools(root=HERE)
FILES = [FOLDER.read_file, FOLDER.search_files, ShellTool(root=HERE).shell]
SHIPPED = [
    _good(
        check_handler,
        before_tool(lambda name, arguments: {"path": "."}),
        TOOL_CALL_BEFORE,
        tools=FILES[:1],
        idempotent=True,
    ),
    _good(check_adapter, demo.Redact(), tools=FILES),
    _good(check_handler, demo.GitManners(), tools=FILES, idempotent=True),
    _good(check_guard, demo.NoDestruction(), tools=FILES),
    _good(check_guard, demo.AskBeforePush(), tools=FILES),
]
GOOD = [*ADAPTERS, *HANDLERS, *SHIPPED]
