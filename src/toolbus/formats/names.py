"""Ids and names as providers take them; others are told apart by a digest."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.events.call_values import ToolSpec

NAME_LENGTH = 64
"""Letters of a tool's name, and of most ids (https://docs.anthropic.com/en/api/messages)."""

_UNSOUND = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_BYTES = 5


def wire_name(name: str, limit: int = NAME_LENGTH) -> str:
    """Return the id or name as it may stand on the wire: always the same for the same."""
    sound = _UNSOUND.sub("_", name)
    if sound == name and 0 < len(name) <= limit:
        return name
    digest = blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{sound[: limit - len(digest) - 1]}_{digest}"


def names_on_the_wire(tools: Iterable[ToolSpec]) -> dict[str, str]:
    """Return the names of *tools* by those that they have on the wire, if those are others."""
    pairs = ((wire_name(tool.name), tool.name) for tool in tools)
    return {wire: name for wire, name in pairs if wire != name}
