"""The vault's permissions: the tools that receive values, and the arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.errors import RegistrationError
from toolbus.events.subjects import matches
from toolbus.messages.immutable import FrozenDict, freeze

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall

_FIELDS = ("tool", "arguments", "i_know")
_WAY_OUT = 'name tools and arguments: vault = [{{ tool = "{}", arguments = ["{}"] }}]'
_READS = "a program there can print the value in another form (rev, fold, xxd)"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# Names of arguments that a shell or an interpreter runs: it can read all other arguments, too.
_SHELLS = frozenset(
    {"command", "commands", "cmd", "cmds", "script", "scripts", "shell", "bash", "sh", "zsh"}
    | {"powershell", "pwsh", "exec", "eval", "python", "javascript"}
)
# Names of arguments in a query language, which can transform a text as well.
_LANGUAGES = frozenset({"sql", "query", "queries", "statement", "statements"} | {"expression"})


class VaultEntry(Struct, frozen=True):
    """One permission: tools that match the glob *tool* receive values in *arguments*.

    A dotted path leads into an argument, also through lists, and includes all texts below it.
    *i_know* confirms an argument that a shell or an interpreter reads.
    """

    tool: str
    arguments: tuple[str, ...]
    i_know: bool = False


def vault_entries(setting: object) -> tuple[VaultEntry, ...]:
    """Return the permissions in *setting*, mappings or records; none for False or nothing.

    Raises `RegistrationError`, with an example to write instead.
    """
    match setting:
        case False | None | () | []:
            return ()
        case True | "*":
            raise _refusal(f"{setting!r} names neither tools nor arguments", "deploy")
        case str(name):
            raise _refusal(f"{name!r} does not name the arguments that receive values", name)
        case [*items] if items and all(isinstance(item, str) for item in items):
            name = next((str(item) for item in items if item != "*"), "deploy")
            raise _refusal(f"{items!r} does not name the arguments that receive values", name)
        case [*items]:
            return tuple([_entry(item) for item in items])
    raise _refusal(f"expected a list of entries, got {setting!r}", "deploy")


def is_read(name: str) -> bool:
    """Return whether an argument named *name* is likely to be run or evaluated."""
    return runs(name) or not _LANGUAGES.isdisjoint(_words(name))


def runs(name: str) -> bool:
    """Return whether an argument named *name* is likely to be run by a shell or an interpreter."""
    words = _words(name)
    # "code" alone is a program; behind another word it is mostly a number to type.
    is_code = words[:1] == ["code"] or words[-2:] == ["source", "code"]
    return is_code or not _SHELLS.isdisjoint(words)


class Vault:
    """Fills the arguments that *entries* allow."""

    def __init__(self, entries: tuple[VaultEntry, ...]) -> None:
        self.entries = entries
        self.tools = tuple(dict.fromkeys([entry.tool for entry in entries]))

    def filled(self, call: ToolCall, value: Callable[[str], str]) -> ToolCall:
        """Return *call* with *value* of each text that an entry names; the same if unchanged."""
        arguments: Any = call.arguments
        for entry in self._entries_for(call.name):
            for path in entry.arguments:
                arguments = _filled_at(arguments, path, value, i_know=entry.i_know)
        return call if arguments is call.arguments else call.with_arguments(arguments)

    def objection(self, call: ToolCall, spec: ToolSpec | None) -> str | None:
        """Return the reason why the tool of *call* receives no values, or None."""
        if any(entry.i_know for entry in self._entries_for(call.name)):
            return None
        properties = spec.input_schema.get("properties") if spec else None
        names = [*call.arguments, *(properties if isinstance(properties, Mapping) else ())]
        for name in names:
            if runs(name):
                return (
                    f"the vault gives no values to tool {call.name!r}, which has an argument "
                    f"{name!r}: {_READS}; its entry needs i_know = true"
                )
        return None

    def _entries_for(self, tool_name: str) -> Iterator[VaultEntry]:
        return (entry for entry in self.entries if matches((entry.tool,), tool_name))


def _filled_at(value: Any, path: str, change: Callable[[str], str], *, i_know: bool) -> Any:
    """Return *value* with the texts at *path* changed; the path "" means all texts below."""
    if not path:
        return _filled(value, change, i_know=i_know)
    if isinstance(value, tuple):
        new = [_filled_at(item, path, change, i_know=i_know) for item in value]
        return value if all(map(is_, new, value)) else freeze(new)
    if not isinstance(value, FrozenDict):
        return value
    # A name may contain dots.
    for name in value:
        rest = path.removeprefix(name)
        if rest == path or (rest and not rest.startswith(".")):
            continue
        item = _filled_at(value[name], rest[1:], change, i_know=i_know)
        if item is not value[name]:
            value = freeze({**value, name: item})
    return value


def _filled(value: Any, change: Callable[[str], str], *, i_know: bool) -> Any:
    # Callers see by identity whether anything was filled, so each type keeps unchanged parts.
    if isinstance(value, str):
        new_text = change(value)
        return value if new_text == value else new_text
    if isinstance(value, tuple):
        new = [_filled(item, change, i_know=i_know) for item in value]
        return value if all(map(is_, new, value)) else freeze(new)
    if isinstance(value, FrozenDict):
        members = {
            name: item if is_read(name) and not i_know else _filled(item, change, i_know=i_know)
            for name, item in value.items()
        }
        return value if all(map(is_, members.values(), value.values())) else freeze(members)
    return value


def _entry(item: object) -> VaultEntry:
    """Return the permission in *item*, a mapping or a record."""
    # A mistake in a permission could send a secret away, so each has its own refusal.
    if isinstance(item, VaultEntry):
        item = {name: getattr(item, name) for name in _FIELDS}
    if not isinstance(item, Mapping):
        name = item if isinstance(item, str) else "deploy"
        raise _refusal(f"expected an entry, got {item!r}", name)
    if unknown := [name for name in item if name not in _FIELDS]:
        raise _refusal(f"unknown key {unknown[0]!r} in an entry", str(item.get("tool", "deploy")))
    tool, arguments, i_know = item.get("tool"), item.get("arguments", ()), item.get("i_know", False)
    if not isinstance(tool, str) or not any(map(str.isalnum, tool)):
        reason = f"tool = {tool!r} does not name a tool; any tool could send the value away"
        raise _refusal(reason, "deploy")
    if not _are_names(arguments):
        raise _refusal(f"arguments = {arguments!r} does not name an argument of {tool!r}", tool)
    if not isinstance(i_know, bool):
        raise _refusal(f"i_know must be true or false, not {i_know!r}", tool)
    entry = VaultEntry(tool, tuple(arguments), i_know)
    for path in entry.arguments:
        if not i_know and (read := next(filter(is_read, path.split(".")), None)):
            reason = f"{tool!r} reads its argument {read!r}: {_READS}"
            raise RegistrationError("vault", f"{reason}; to allow it set i_know = true")
    return entry


def _are_names(arguments: object) -> bool:
    if isinstance(arguments, str) or not isinstance(arguments, Sequence) or not arguments:
        return False
    return all(isinstance(name, str) and any(map(str.isalnum, name)) for name in arguments)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _refusal(reason: str, tool: str) -> RegistrationError:
    way_out = _WAY_OUT.format(tool, "token")
    return RegistrationError("vault", f"{reason}; {way_out}")
