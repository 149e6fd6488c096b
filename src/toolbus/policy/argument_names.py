"""Known names of arguments and tools, with their meaning; the data are in `tool_names.toml`.

Policies and the hooks of coding agents use them to read calls.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

Kind: TypeAlias = Literal["path", "host", "recipient", ""]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class ArgumentNames(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of arguments by kind, and harmless values of some arguments of shells."""

    path_names: frozenset[str]
    path_ends: frozenset[str]
    host_ends: frozenset[str]
    recipient_ends: frozenset[str]
    commands: frozenset[str]
    words: tuple[str, ...]
    folders: frozenset[str]
    harmless: frozenset[str]
    modes: frozenset[str]
    shells: frozenset[str]


class ShippedNames(Struct, frozen=True):
    """The names of *arguments*, and facts about the *tools* of coding agents as tables."""

    arguments: ArgumentNames
    tools: dict[str, dict[str, Any]]


@cache
def tool_names() -> ShippedNames:
    """Return the shipped names."""
    text = Path(__file__).with_name("tool_names.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), ShippedNames)


@cache
def file_writers() -> tuple[str, ...]:
    """Return globs of the coding agents' tools that write a file named by an argument."""
    tools = tool_names().tools
    return tuple([name for name, facts in tools.items() if "write" in facts["effects"]])


def kind_of(name: str) -> Kind:
    """Return the kind of value that the argument *name* holds, derived from its name."""
    names = tool_names().arguments
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return ""
    if words[-1] in names.host_ends:
        return "host"
    word = words[-2] if len(words) > 1 and words[-1] in {"id", "ids"} else words[-1]
    if word in names.recipient_ends:
        return "recipient"
    is_path = words[-1] in names.path_ends or "_".join(words) in names.path_names
    return "path" if is_path else ""
