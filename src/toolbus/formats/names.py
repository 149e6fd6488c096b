"""Ids and names in the form that providers accept, with a digest where they are changed."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.events.call_values import ToolSpec

NAME_LENGTH = 64
"""The maximum characters of a tool's name and of most ids, as Anthropic's API has them."""

_INVALID = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_BYTES = 5


def wire_name(name: str, limit: int = NAME_LENGTH) -> str:
    """Return *name* as a valid id or name for the wire, always the same for the same name."""
    valid = _INVALID.sub("_", name)
    if valid == name and 0 < len(name) <= limit:
        return name
    digest = blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{valid[: limit - len(digest) - 1]}_{digest}"


def original_names(tools: Iterable[ToolSpec]) -> dict[str, str]:
    """Return the original names of *tools* by their wire names, where these differ."""
    pairs = ((wire_name(tool.name), tool.name) for tool in tools)
    return {wire: name for wire, name in pairs if wire != name}
