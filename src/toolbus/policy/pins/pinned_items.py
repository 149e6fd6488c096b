"""Pinned items: of each server its instructions, tools and prompts, each with a digest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.messages.immutable import thaw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.events.call_values import ToolSpec

DIGEST_VERSION = 1
"""Of the canonical form that digests are of; a lock file of another version is pinned anew."""

_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""Annotations of MCP 2025-11-25, schema, ToolAnnotations; clients drop those that nobody knows."""

_OF_PROMPT = ("title", "description")
_OF_ARGUMENT = ("name", "title", "description", "required")

SEPARATOR = "_"
"""Between the name of a server and that of its tool, where several servers have names."""


class PinnedItem(NamedTuple):
    """What a tool, a prompt or a server says: JSON *fields*, and their digest."""

    fields: Mapping[str, Any]
    digest: str


class PinnedServer(NamedTuple):
    """What a server says: *instructions*, and by their names *tools* and *prompts*."""

    tools: Mapping[str, PinnedItem] = {}
    prompts: Mapping[str, PinnedItem] = {}
    instructions: PinnedItem | None = None


class ToolPins(NamedTuple):
    """What was accepted: of the program's own tools, *program*, and of *servers* by their names.

    Tools and prompts have the names that a model is told, with the prefix of their server.
    """

    program: PinnedServer = PinnedServer()
    servers: Mapping[str, PinnedServer] = {}


def make_item(kind: str, name: str, fields: Mapping[str, Any]) -> PinnedItem:
    """Return *fields* with their digest, SHA-256 of canonical JSON; *kind* and *name* belong to it.

    Canonical is: keys sorted, no spaces, ASCII, numbers as Python writes them.
    """
    whole = [DIGEST_VERSION, kind, name, fields]
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    return PinnedItem(fields, f"sha256:{sha256(text.encode()).hexdigest()}")


def pin_tool(spec: ToolSpec, *, is_own: bool = False) -> PinnedItem:
    """Return what the tool of *spec* says; one that is not our *own* has the annotations of MCP.

    Where a server does not describe a tool, hosts put its title or name: that is no description.
    """
    annotations = thaw(spec.annotations)
    description = spec.description
    if not is_own:
        annotations = {key: annotations[key] for key in _HINTS if annotations.get(key) is not None}
        names = (spec.name, spec.name.partition(SEPARATOR)[2], annotations.get("title"))
        description = "" if description in names else description
    fields = {
        "annotations": annotations,
        "description": description,
        "input_schema": thaw(spec.input_schema),
        "output_schema": thaw(spec.output_schema),
    }
    return make_item("tool", spec.name, fields)


def pin_prompt(name: str, prompt: Mapping[str, Any]) -> PinnedItem:
    """Return what *prompt*, as `prompts/list` has it, says; MCP 2025-11-25, server/prompts."""
    listed = prompt.get("arguments")
    arguments = [
        _known(each, _OF_ARGUMENT) if isinstance(each, Mapping) else thaw(each)
        for each in listed or ()
    ]
    return make_item("prompt", name, {**_known(prompt, _OF_PROMPT), "arguments": arguments})


def pin_instructions(text: str | None) -> PinnedItem | None:
    """Return the instructions *text* of a server, None if it has none."""
    return make_item("instructions", "", {"text": text}) if text else None


def pin_program(specs: Iterable[ToolSpec]) -> PinnedServer:
    """Return what the program's own tools say."""
    return PinnedServer({spec.name: pin_tool(spec, is_own=True) for spec in specs})


def _known(item: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: thaw(item[key]) for key in keys if item.get(key) is not None}
