"""The surface of a server: instructions, tools and prompts, read before any call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import anyio

from toolbus.components.listed_tools import MEMBERS, further_members
from toolbus.errors import FreezeError, ToolServerError
from toolbus.events.catalogue import ToolSpec
from toolbus.mcp.client.connections import all_pages, make_client, text_of
from toolbus.mcp.client.servers import McpOptions, Server, server_of
from toolbus.mcp.client.translation import annotations_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp.types import Tool as ListedTool


class ServerSurface(NamedTuple):
    """The *instructions*, *tools* and *prompts* of the server *label*.

    Names of tools and prompts begin with the given prefix; the descriptions are the server's own,
    "" if missing. Prompts are as listed; tools have their further members as an annotation.
    """

    label: str
    instructions: str
    tools: tuple[ToolSpec, ...]
    prompts: tuple[dict[str, Any], ...]


async def read_surface(
    server: str, args: Sequence[str] = (), **options: Unpack[McpOptions]
) -> ServerSurface:
    """Connect to *server*, as `tools` does with *options*, and return its surface.

    Raises `RegistrationError` for invalid options, and `ToolServerError`.
    """
    reached = server_of(server, args, options)
    prefix, seconds = options.get("prefix", ""), options.get("connect_timeout", 60.0)
    try:
        with anyio.fail_after(seconds):
            return await _read(reached, prefix, options.get("mode", "auto"))
    except ToolServerError:
        raise
    except TimeoutError:
        raise ToolServerError(reached.label, f"no answer within {seconds:g} s") from None
    except FreezeError as error:
        raise ToolServerError(
            reached.label, f"the server lists values that are not JSON: {error}"
        ) from error
    except Exception as error:
        last_error = f" ({reached.last_error})" if reached.last_error else ""
        raise ToolServerError(reached.label, f"{text_of(error)}{last_error}") from error


async def _read(server: Server, prefix: str, mode: str) -> ServerSurface:
    raw: dict[str, dict[str, Any]] = {"tools": {}, "prompts": {}}
    transport = server.transport(lambda _: None, partial(_note_items, raw))
    async with make_client(transport, mode) as client:
        can = client.server_capabilities
        # A server without both capabilities is still asked for tools, as an agent does.
        has_tools = can.tools is not None or can.prompts is None
        tools = await all_pages(client.list_tools, "tools") if has_tools else []
        prompts = []
        if can.prompts is not None:
            prompts = await all_pages(client.list_prompts, "prompts")
        instructions = client.instructions or ""
    specs = [_spec(tool, prefix, raw["tools"]) for tool in tools]
    listed = [{**raw["prompts"][each.name], "name": prefix + each.name} for each in prompts]
    return ServerSurface(server.label, instructions, tuple(specs), tuple(listed))


def _note_items(raw: dict[str, dict[str, Any]], result: Mapping[str, Any]) -> None:
    """Put the items of a list's *result* into *raw*, by kind and name, with all their members."""
    for kind, items in raw.items():
        listed = result.get(kind)
        for item in listed if isinstance(listed, list) else ():
            if isinstance(item, dict):
                items[str(item.get("name"))] = item


def _spec(tool: ListedTool, prefix: str, raw: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=prefix + tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations={**annotations_of(tool), MEMBERS: further_members(raw[tool.name])},
    )
