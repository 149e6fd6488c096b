"""The meaning of a tool's arguments: command lines, files and addresses.

A policy's `[tools."NAME"]` comes first. Without it the argument's name decides, at any depth:
`command` and `cmd` are command lines; `path`, `file_path`, `source` and similar names are files;
`url`, `host` and similar names are addresses. A `command` with an enumeration in the tool's schema
(an editor's `view` and `create`) is not a command line; nor is a patch, which names its own files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.policy.argument_names import kind_of, tool_names
from toolbus.policy.commands import Unreadable
from toolbus.policy.rules.values import WrongTypeError, excerpt, read_path, type_name, values_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall
    from toolbus.policy.argument_names import Kind
    from toolbus.policy.rules.tables import ToolFacts

_OTHER_SHELL = re.compile(
    r"(?:^|[^a-z])(zsh|fish|pwsh|powershell|cmd\.exe|nushell|tcsh|csh)", re.IGNORECASE
)
_MOST_LISTS = 2
_MOST_NAMES = 1_000
_LEAST_DIGITS = 8
"""Digits of a number that may be an account or a card."""
_PLAIN_NAME = re.compile(r"[A-Za-z_-]{1,40}")
_PATCH = "*** Begin Patch"
_PATCHED_FILE = re.compile(
    r"^[ \t]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE
)
"""File lines of a patch for Codex's `apply_patch` (openai/codex, codex-rs/apply-patch), which
ignores blanks around them."""


class ShellCall(NamedTuple):
    """The command *line* of a shell call; None if it cannot be read, with the *reasons*.

    The *switched_off* arguments are unknown, and off: false, 0 or an empty text.
    """

    line: str | None
    folder: str | None = None
    reasons: tuple[Unreadable, ...] = ()
    switched_off: tuple[str, ...] = ()


def shell_call(call: ToolCall, tool: ToolSpec | None, declared: ToolFacts) -> ShellCall | None:
    """Return the shell call that *call* makes, or None if its tool is not a shell."""
    key = declared.command or _command_key(call, tool, declared)
    if key is None:
        return None
    reasons: list[Unreadable] = []
    arguments, names = dict(call.arguments), tool_names().arguments
    line = _line(arguments, key, reasons)
    named = next((name for name in arguments if name in names.folders), "")
    folder_key = declared.folder_argument or named
    folder = arguments.get(folder_key)
    if folder is not None and not isinstance(folder, str):
        reasons.append(Unreadable(f"{folder_key} = {excerpt(folder)}", "expected a folder's path"))
    known = {key.split(".")[0], *names.words, folder_key, *names.harmless, *declared.ignore} - {""}
    unknown, switched_off = _unknown_arguments(arguments, known)
    reasons += unknown
    if match := _OTHER_SHELL.search(call.name):
        reasons.append(Unreadable(call.name, f"commands for {match[1]} cannot be parsed"))
    start = folder if isinstance(folder, str) else None
    return ShellCall(line, start, tuple(reasons), switched_off)


def _unknown_arguments(
    arguments: Mapping[str, Any], known: set[str]
) -> tuple[list[Unreadable], tuple[str, ...]]:
    """Return the reasons of arguments that are not *known*, and the switched-off ones of these."""
    unknown = [(name, value) for name, value in arguments.items() if name not in known]
    reasons = [
        Unreadable(f"{name} = {excerpt(value)}", "the effect of this shell argument is unknown")
        for name, value in unknown
        if not _changes_nothing(name, value)
    ]
    return reasons, tuple([name for name, value in unknown if value is not None and not value])


def _changes_nothing(name: str, value: object) -> bool:
    """Return whether *value* of a shell's argument *name* leaves the command unchanged."""
    names = tool_names().arguments
    if not isinstance(value, str):
        return value is None or value is False or value == 0
    if name == "shell" and value.rpartition("/")[2] in names.shells:
        return True
    return not value or (name == "mode" and value in names.modes)


def _command_key(call: ToolCall, tool: ToolSpec | None, declared: ToolFacts) -> str | None:
    """Return the name of the command line argument of *call*, or None."""
    if declared.effects is not None:
        return None  # Declared effects take precedence.
    commands = tool_names().arguments.commands
    return next(
        (
            key
            for key, value in call.arguments.items()
            if key in commands and _may_be_line(value) and not _is_choice(tool, key)
        ),
        None,
    )


def _may_be_line(value: object) -> bool:
    return type_name(value) in {"text", "list"} and not _is_patch(value)


def _is_choice(tool: ToolSpec | None, key: str) -> bool:
    """Return whether the schema of *tool* enumerates the values of the argument *key*."""
    properties: Any = {} if tool is None else tool.input_schema.get("properties")
    schema = properties.get(key) if isinstance(properties, dict) else None
    return isinstance(schema, dict) and ("enum" in schema or "const" in schema)


def _is_patch(value: object) -> bool:
    return isinstance(value, str) and value.lstrip().startswith(_PATCH)


def _line(arguments: Mapping[str, Any], key: str, reasons: list[Unreadable]) -> str | None:
    """Return the command line at *key*; words in lists are quoted."""
    try:
        values = values_at(arguments, read_path(key))
    except WrongTypeError as error:
        reasons.append(Unreadable(key, str(error)))
        return None
    value = values[0] if values else ""
    lists = [arguments[name] for name in tool_names().arguments.words if arguments.get(name)]
    if isinstance(value, str) and not lists:
        return value
    lists.insert(0, [value] if isinstance(value, str) else value)
    # With two lists of further words, the order is unknown.
    if len(lists) <= _MOST_LISTS and all(map(_are_texts, lists)):
        return shlex.join(chain.from_iterable(lists))
    reasons.append(Unreadable(f"{key} = {excerpt(value)}", "expected a text or a list of words"))
    return None


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def named_values(arguments: Mapping[str, Any]) -> Iterator[tuple[Kind, str]]:
    """Yield the texts of *arguments* named like files, addresses or recipients, at any depth."""
    waiting: list[tuple[Kind, Any]] = [("", arguments)]
    while waiting:
        kind, value = waiting.pop()
        match type_name(value):
            case "table":
                waiting += [(kind_of(str(key)), each) for key, each in value.items()]
            case "list":
                waiting += [(kind, each) for each in value]
            case "text" if kind:
                yield kind, value
            case "number" if kind == "recipient":
                yield kind, str(value)
            case "text" if _is_patch(value):
                yield from [("path", name) for name in _PATCHED_FILE.findall(value)]


def texts_at(arguments: Mapping[str, Any], paths: tuple[str, ...]) -> Iterator[str | Unreadable]:
    """Yield the texts at *paths*, and an `Unreadable` for each value of another type."""
    for path in paths:
        try:
            values = values_at(arguments, read_path(path))
        except WrongTypeError as error:
            yield Unreadable(path, str(error))
            continue
        for value in values:
            if isinstance(value, str):
                yield value
            elif _are_texts(value):
                yield from value
            else:
                yield Unreadable(
                    f"{path} = {excerpt(value)}", "expected a text, or a list of texts"
                )


def argument_texts(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of *arguments* by their paths, with long numbers and inner keys."""
    texts: dict[str, list[str]] = {}
    waiting: list[tuple[str, Any]] = [("", arguments)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += _members(path, value)
        elif isinstance(value, list | tuple):
            waiting += [(path, each) for each in reversed(value)]
        elif isinstance(value, str) or len(str(value)) >= _LEAST_DIGITS:
            is_listed = path in texts or len(texts) < _MOST_NAMES
            texts.setdefault(path if is_listed else "", []).append(str(value))
    return {path: "\n".join(each) for path, each in texts.items()}


def _members(path: str, table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the keys of *table* that are no plain names, and its members, in reverse."""
    start = f"{path}." if path else ""
    keys = [(path, key) for key in table if path or not _PLAIN_NAME.fullmatch(key)]
    return [*keys, *[(f"{start}{key}", each) for key, each in reversed([*table.items()])]]
