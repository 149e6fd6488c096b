"""What an installation puts into a file of a host, and how exactly that is taken out again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from toolbus.errors import ConfigurationError
from toolbus.hosts.install.json_edits import insert_last, remove_child
from toolbus.hosts.install.json_positions import JsonNode, locate
from toolbus.hosts.install.toml_edits import append_block, find_block, remove_block

if TYPE_CHECKING:
    from collections.abc import Iterator

BRIDGE_MARK = "// Written by `toolbus hosts install`; `toolbus hosts uninstall` removes it.\n"
"""The first line of a file that is all ours."""

_OUR_COMMAND = r"toolbus/hooks/[\w.-]+/hook\.py'? {host} "


def our_command(host: str) -> str:
    """Return a regular expression for commands that run our client for *host*."""
    return _OUR_COMMAND.format(host=re.escape(host))


def is_ours(value: Any, host: str) -> bool:
    """Tell whether *value*, a hook or a group of them in JSON or TOML, runs our client for *host*.

    By its command alone, so that those of an older toolbus and of another folder count, too.
    """
    match value:
        case str():
            return re.search(our_command(host), value) is not None
        case dict():
            names = ("command", "args", "bash", "hooks")
            return any(is_ours(value[name], host) for name in names if name in value)
        case list():
            return any(is_ours(item, host) for item in value)
    return False


class JsonHooks(Struct, frozen=True, kw_only=True):
    """Hooks below `hooks` in a file of JSON; *entries* are pairs of an event and what stands there.

    A file that is not there, or is blank, begins as *initial*. *variables* are put below `env`,
    unless the person has set them.
    """

    path: Path
    host: str
    entries: tuple[tuple[str, dict[str, Any]], ...]
    initial: dict[str, Any] = {}
    variables: Mapping[str, str] = {}

    @property
    def summary(self) -> tuple[str, ...]:
        """The additions in a few lines, for a person who decides about them."""
        events = ", ".join([event for event, _ in self.entries])
        variables = [f"variable {name}={value}" for name, value in self.variables.items()]
        return (f"hooks for {len(self.entries)} events: {events}", *variables)

    def holds(self, text: str) -> bool:
        """Tell whether exactly the *entries* stand in *text*, whatever else does."""
        events = self.hooks(text).value
        installed = {
            (event, json.dumps(entry, sort_keys=True))
            for event, items in events.items()
            for entry in items
            if is_ours(entry, self.host)
        }
        wanted = {(event, json.dumps(entry, sort_keys=True)) for event, entry in self.entries}
        if not self.variables.keys() <= self._variables(text).value.keys():
            return False
        return installed == wanted and _count_ours(events, self.host) == len(wanted)

    def install(self, text: str | None) -> str:
        """Return *text*, which holds nothing of ours, with the entries behind all others."""
        edited = text or ""
        if not edited.strip():
            edited = json.dumps(self.initial, indent=2) + "\n"
        for event, entry in self.entries:
            root = self._root(edited)
            hooks = self.hooks(edited)
            if root.child("hooks") is None:
                edited = insert_last(edited, root, {event: [entry]}, "hooks")
            elif (node := hooks.child(event)) is None:
                edited = insert_last(edited, hooks, [entry], event)
            else:
                edited = insert_last(edited, node, entry)
        for name, value in self.variables.items():
            variables = self._variables(edited)
            if self._root(edited).child("env") is None:
                edited = insert_last(edited, self._root(edited), {name: value}, "env")
            elif name not in variables.value:
                edited = insert_last(edited, variables, value, name)
        return edited

    def remove(self, text: str) -> str:
        """Return *text* without anything of ours, and without objects that are empty then."""
        while (place := self._find(text) or self._find_variable(text)) is not None:
            text = remove_child(text, *place)
        return text

    def is_empty(self, text: str) -> bool:
        """Return whether *text* holds no more than a file that an installation begins."""
        is_initial = self._root(text).value in ({}, self.initial)
        return is_initial and not any(mark in text for mark in ("//", "/*"))

    def _find(self, text: str) -> tuple[JsonNode, int] | None:
        """Return the node and the index of a child in it that is ours, the largest of that kind."""
        root = self._root(text)
        hooks = root.child("hooks")
        if hooks is None or not _count_ours(self.hooks(text).value, self.host):
            return None
        for index, items in enumerate(hooks.children):
            for item_index, item in enumerate(items.children):
                if not is_ours(item.value, self.host):
                    continue
                inner = item.child("hooks")
                others = [] if inner is None else inner.value
                if inner is not None and not all(is_ours(each, self.host) for each in others):
                    flags = [is_ours(each, self.host) for each in others]
                    return inner, flags.index(True)
                if len(items.children) > 1:
                    return items, item_index
                if len(hooks.children) > 1:
                    return hooks, index
                return root, [key for key, _ in root.keys or ()].index("hooks")
        return None

    def _find_variable(self, text: str) -> tuple[JsonNode, int] | None:
        """Return the node and the index of a child in it that is a variable as we set it."""
        root, variables = self._root(text), self._variables(text)
        names = [name for name, _ in variables.keys or ()]
        for name, value in self.variables.items():
            if variables.value.get(name) == value:
                if len(names) > 1:
                    return variables, names.index(name)
                return root, [key for key, _ in root.keys or ()].index("env")
        return None

    def _variables(self, text: str) -> JsonNode:
        variables = self._root(text).child("env") if self.variables else None
        if variables is None:
            return JsonNode(0, 0, {}, (), ())
        if variables.keys is None:
            raise ConfigurationError("'env' in it is no object; mend it first", str(self.path))
        return variables

    def _root(self, text: str) -> JsonNode:
        root = locate(self.path, text if text.strip() else "{}")
        if root.keys is None:
            raise ConfigurationError("it is no JSON object", str(self.path))
        return root

    def hooks(self, text: str) -> JsonNode:
        """Return the object of events; raises `ConfigurationError` if it has another shape."""
        hooks = self._root(text).child("hooks")
        if hooks is None:
            return JsonNode(0, 0, {}, (), ())
        if hooks.keys is None:
            raise ConfigurationError("'hooks' in it is no object; mend it first", str(self.path))
        for event, items in hooks.value.items():
            if not isinstance(items, list):
                reason = f"{event!r} of its 'hooks' is no array; mend it first"
                raise ConfigurationError(reason, str(self.path))
        return hooks


class TomlBlock(Struct, frozen=True, kw_only=True):
    """Tables of TOML between two marks, at the end of a file; each matches *pattern*."""

    path: Path
    label: str
    block: str
    pattern: str

    @property
    def summary(self) -> tuple[str, ...]:
        """The additions in a line, for a person who decides about them."""
        count = len([line for line in self.block.splitlines() if line.startswith("[")])
        return (f"{count} tables at its end, between two marks: {self.label}",)

    def holds(self, text: str) -> bool:
        """Tell whether exactly this block stands in *text*."""
        installed = find_block(self.path, text, self.label, self.pattern)
        return installed == self.block.rstrip("\n")

    def install(self, text: str | None) -> str:
        """Return *text*, which holds no such block, with it."""
        return append_block(self.path, text or "", self.block, self.label)

    def remove(self, text: str) -> str:
        """Return *text* without the block."""
        return remove_block(self.path, text, self.label, self.pattern)

    def is_empty(self, text: str) -> bool:
        """Return whether *text* holds nothing."""
        return not text


class OwnFile(Struct, frozen=True, kw_only=True):
    """A file that is all ours: its first line, `BRIDGE_MARK`, says so."""

    path: Path
    content: str

    @property
    def summary(self) -> tuple[str, ...]:
        """The content in a line, for a person who decides about it."""
        return (f"{len(self.content.splitlines())} lines, all of toolbus",)

    def holds(self, text: str) -> bool:
        """Tell whether *text* is what would be written."""
        return text == self.content

    def install(self, text: str | None) -> str:
        """Return the content; raises `ConfigurationError` if the file is somebody else's."""
        if text is not None and not text.startswith(BRIDGE_MARK):
            reason = "it is there and was not written by toolbus; move it away, and try again"
            raise ConfigurationError(reason, str(self.path))
        return self.content

    def remove(self, text: str) -> str:
        """Return nothing of a file of ours, and another's file as it is."""
        return "" if text.startswith(BRIDGE_MARK) else text

    def is_empty(self, text: str) -> bool:
        """Return whether *text* holds nothing."""
        return not text


EditTarget: TypeAlias = JsonHooks | TomlBlock | OwnFile


def our_entries(hooks: Any, host: str) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
    """Yield for each hook of ours in the object *hooks* its event and its group with two indices.

    They are that of the group and that of the hook in it.
    """
    for event, groups in hooks.items():
        for group_index, group in enumerate(groups):
            for index, hook in enumerate(group.get("hooks", ())):
                if is_ours(hook, host):
                    yield event, group_index, index, group


def _count_ours(events: dict[str, Any], host: str) -> int:
    return sum([is_ours(entry, host) for items in events.values() for entry in items])
