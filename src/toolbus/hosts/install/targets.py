"""The hooks of each host as parts of its files: how they are added, recognised and removed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct

from toolbus.errors import ConfigurationError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.dialects.bridges import bridge_source
from toolbus.hosts.install.client_files import shell_line
from toolbus.hosts.install.codex_trust import trust_block, trusted_hashes, without_stored
from toolbus.hosts.install.host_files import (
    hook_entry,
    hooks_file,
    host_files,
    host_folder,
    is_ours,
    our_command,
)
from toolbus.hosts.install.json_edits import add_values, added_lines, present_parts, remove_values
from toolbus.hosts.install.json_positions import JsonNode, locate
from toolbus.hosts.install.records import RecordedFile
from toolbus.hosts.install.toml_blocks import append_block, find_block, remove_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.hosts.dialects.hook_events import HookAnswer

BRIDGE_MARK = "// Written by `toolbus hosts install`; `toolbus hosts uninstall` removes it.\n"
"""The first line of a file that belongs to us."""


class Installed(NamedTuple):
    """The *text* of a file with our hooks, the *added* lines, and the record for removal."""

    text: str
    added: tuple[str, ...]
    before: RecordedFile


class JsonHooks(Struct, frozen=True, kw_only=True):
    """Hooks below `hooks` of a JSON file; *entries* are pairs of an event and its hook.

    A missing or blank file begins as *initial*. *variables* are added below `env`, unless the user
    has set them.
    """

    path: Path
    host: str
    entries: tuple[tuple[str, dict[str, Any]], ...]
    initial: dict[str, Any] = {}
    variables: Mapping[str, str] = {}

    @property
    def summary(self) -> tuple[str, ...]:
        """The additions in a few lines, for a person's approval."""
        events = ", ".join([event for event, _ in self.entries])
        variables = [f"variable {name}={value}" for name, value in self.variables.items()]
        return (f"hooks for {len(self.entries)} events: {events}", *variables)

    def is_present(self, text: str) -> bool:
        """Return whether *text* contains any hook of ours."""
        return any(is_ours(items, self.host) for items in self.events(text).values())

    def holds(self, text: str) -> bool:
        """Return whether our hooks in *text* are exactly *entries*."""
        installed = [
            (event, entry)
            for event, items in self.events(text).items()
            for entry in items
            if is_ours(entry, self.host)
        ]
        variables = self._root(text).value.get("env", {})
        has_variables = self.variables.keys() <= variables.keys()
        return has_variables and _in_order(installed) == _in_order(self.entries)

    def install(self, text: str | None) -> Installed:
        """Return *text*, which has no hooks of ours, with the entries added after all others."""
        additions: dict[str, Any] = {"hooks": {event: [entry] for event, entry in self.entries}}
        if self.variables:
            additions["env"] = self.variables
        if text is None or not text.strip():
            new = add_values("{}\n", locate(self.path, "{}"), self.initial | additions)
            before = RecordedFile(existed=text is not None, blank=text)
            return Installed(new, tuple(new.splitlines()), before)
        self.events(text)
        root = self._root(text)
        parts = dict(present_parts(text, root, additions))
        return Installed(
            text=add_values(text, root, additions),
            added=added_lines(text, root, additions),
            before=RecordedFile(existed=True, parts=parts),
        )

    def remove(self, text: str, before: RecordedFile | None) -> str | None:
        """Return *text* without our hooks; None: the file is removed.

        *before* is the record of the installation, None if it is unknown.
        """
        # Anything that somebody else may have written keeps the file, so each sign of it counts.
        parts = {} if before is None else before.parts

        def is_part_of_ours(path: tuple[str, ...], value: Any) -> bool:
            match path:
                case ("env", name):
                    return (name, value) in self.variables.items()
                case ("hooks", _, _) if isinstance(value, dict) and value.get("hooks"):
                    return all(is_ours(each, self.host) for each in value["hooks"])
                case ("hooks", _, _) | ("hooks", _, _, "hooks", _):
                    return is_ours(value, self.host)
            return False

        self.events(text)
        edited = remove_values(text, self._root(text), is_part_of_ours, parts)
        was_filled = before is not None and before.existed and before.blank is None
        if edited == text or was_filled or any(mark in edited for mark in ("//", "/*")):
            return edited
        if self._root(edited).value not in ({}, self.initial):
            return edited
        return None if before is None else before.blank

    def events(self, text: str) -> dict[str, list[Any]]:
        """Return hooks by event; raises `ConfigurationError` for any other shape."""
        document = self._root(text).value
        hooks = document.get("hooks", {})
        if not isinstance(hooks, dict):
            raise ConfigurationError("'hooks' is not an object; fix it first", str(self.path))
        for event, items in hooks.items():
            if not isinstance(items, list):
                reason = f"{event!r} of 'hooks' is not an array; fix it first"
                raise ConfigurationError(reason, str(self.path))
        if self.variables and not isinstance(document.get("env", {}), dict):
            raise ConfigurationError("'env' is not an object; fix it first", str(self.path))
        return hooks

    def _root(self, text: str) -> JsonNode:
        root = locate(self.path, text if text.strip() else "{}")
        if root.keys is None:
            raise ConfigurationError("expected a JSON object", str(self.path))
        return root


class TomlBlock(Struct, frozen=True, kw_only=True):
    """TOML tables between two marker lines at the end of a file; each matches *pattern*."""

    path: Path
    label: str
    block: str
    pattern: str

    def is_present(self, text: str) -> bool:
        """Return whether *text* has the two marker lines."""
        return find_block(self.path, text, self.label, self.pattern) is not None

    def holds(self, text: str) -> bool:
        """Return whether *text* contains exactly this block."""
        installed = find_block(self.path, text, self.label, self.pattern)
        return installed == self.block.rstrip("\n")

    def install(self, text: str | None) -> Installed:
        """Return *text*, which has no such block, with the block added."""
        new = append_block(self.path, text or "", self.block, self.label)
        added = new.removeprefix(text or "").strip().splitlines()
        return Installed(new, tuple(added), RecordedFile(existed=text is not None))

    def remove(self, text: str, before: RecordedFile | None) -> str | None:
        """Return *text* without the block; None: remove the file, which did not exist before."""
        rest = remove_block(self.path, text, self.label, self.pattern)
        is_new = before is None or not before.existed
        return None if text and not rest and is_new else rest


class OwnFile(Struct, frozen=True, kw_only=True):
    """A file that belongs to us, by its first line, `BRIDGE_MARK`."""

    path: Path
    content: str

    def is_present(self, text: str) -> bool:
        """Return whether *text* is ours."""
        return text.startswith(BRIDGE_MARK)

    def holds(self, text: str) -> bool:
        """Return whether *text* equals the content to write."""
        return text == self.content

    def install(self, text: str | None) -> Installed:
        """Return the content; raises `ConfigurationError` if the file is not ours."""
        if text is not None:
            reason = "the file exists and was not written by toolbus; move it away, and try again"
            raise ConfigurationError(reason, str(self.path))
        return Installed(self.content, tuple(self.content.splitlines()), RecordedFile())

    def remove(self, text: str, before: RecordedFile | None) -> str | None:  # noqa: ARG002
        """Return None, to remove a file of ours; any other file stays unchanged."""
        return None if self.is_present(text) else text


EditTarget: TypeAlias = JsonHooks | TomlBlock | OwnFile


def install_target(host: str, project: Path | None, script: Path, python: str) -> EditTarget:
    """Return the part of the hooks file that runs our client *script* by *python*."""
    files = host_files(host)
    if files.form == "bridge":
        command = [python, "-I", "-S", str(script), host]
        content = BRIDGE_MARK + bridge_source(files.bridge, command)
        return OwnFile(path=hooks_file(host, project), content=content)
    entries = [
        (event, hook_entry(host, event, shell_line(python, script, host, event, block)))
        for event, block in fail_closed_answers(host).items()
    ]
    return _hooks_target(host, project, entries)


def removal_targets(host: str, project: Path | None) -> Iterator[EditTarget]:
    """Yield the parts of files that may be ours, the part with the hooks first."""
    path = hooks_file(host, project)
    if host_files(host).form == "bridge":
        yield OwnFile(path=path, content="")
    else:
        yield _hooks_target(host, project, [])
    if host == "codex":
        yield _trust_target(path, "")


def fail_closed_answers(host: str) -> dict[str, HookAnswer]:
    """Return the fail-closed answer to each event of *host*, for events that cannot be judged."""
    host_dialect = dialect(host)
    reason = "toolbus could not judge this event, so it is blocked; see: toolbus doctor"
    return {
        event: host_dialect.fail_closed_answer(event, None, reason)
        for event in host_files(host).events
    }


def codex_trust(path: Path, text: str, stored: str) -> TomlBlock | None:
    """Return the block that stores Codex's trust in our hooks in the *text* of the file at *path*.

    None if *stored*, its configuration without our block, has that trust already.
    """
    hooks = locate(path, text).value.get("hooks", {})
    config = host_folder("codex") / "config.toml"
    hashes = without_stored(config, stored, trusted_hashes(path, hooks))
    return _trust_target(path, trust_block(hashes)) if hashes else None


def _hooks_target(
    host: str, project: Path | None, entries: list[tuple[str, dict[str, Any]]]
) -> JsonHooks | TomlBlock:
    path, files = hooks_file(host, project), host_files(host)
    if files.form == "toml":
        block = "\n".join([_toml_table(entry) for _, entry in entries])
        return TomlBlock(path=path, label="hooks", block=block, pattern=our_command(host))
    return JsonHooks(
        path=path,
        host=host,
        entries=tuple(entries),
        initial={"version": 1} if files.form == "entries" else {},
        variables=files.variables,
    )


def _trust_target(path: Path, block: str) -> TomlBlock:
    key = re.escape(json.dumps(str(path), ensure_ascii=False)[:-1])
    return TomlBlock(
        path=host_folder("codex") / "config.toml",
        label=f"trust in {str(path)!r}",
        block=block,
        pattern=rf"(?m)^\[hooks\.state\.{key}:",
    )


def _in_order(entries: Iterable[tuple[str, Any]]) -> list[str]:
    return sorted([json.dumps(each, sort_keys=True) for each in entries])


def _toml_table(entry: dict[str, Any]) -> str:
    # A JSON string without a DEL is a TOML string; a command has none.
    pairs = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join(["[[hooks]]", *pairs, ""])
