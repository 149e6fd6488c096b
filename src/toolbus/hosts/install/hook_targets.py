"""What of ours stands in which file of a host."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from toolbus.hosts.dialects import dialect
from toolbus.hosts.dialects.bridges import bridge_source
from toolbus.hosts.doctor.codex_trust import trust_block, trusted_hashes, without_stored
from toolbus.hosts.install.edit_targets import (
    BRIDGE_MARK,
    JsonHooks,
    OwnFile,
    TomlBlock,
    our_command,
)
from toolbus.hosts.install.host_files import hook_entry, hooks_file, host_files, host_folder
from toolbus.hosts.install.installation import shell_line
from toolbus.hosts.install.json_positions import locate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from toolbus.hosts.dialects.hook_events import HookAnswer
    from toolbus.hosts.install.edit_targets import EditTarget


def blocks_of(host: str) -> dict[str, HookAnswer]:
    """Return by event of *host* what stops it when nothing of ours can judge it."""
    spoken = dialect(host)
    reason = "toolbus could not judge this event, so it is stopped; see: toolbus doctor"
    return {event: spoken.block(event, None, reason) for event in host_files(host).events}


def install_target(host: str, project: Path | None, script: Path, python: str) -> EditTarget:
    """Return the edit that puts our hooks into the file of *host*."""
    path, files = hooks_file(host, project), host_files(host)
    lines = {
        event: shell_line(python, script, host, event, block)
        for event, block in blocks_of(host).items()
    }
    entries = tuple([(event, hook_entry(host, event, line)) for event, line in lines.items()])
    match files.form:
        case "groups" | "entries":
            return _json_hooks(host, path, entries)
        case "toml":
            return _toml_block(path, host, _toml_tables(entries))
        case "bridge":
            return OwnFile(path=path, content=_bridge(host, script, python))


def removal_targets(host: str, project: Path | None) -> Iterator[EditTarget]:
    """Yield where something of ours may stand."""
    path = hooks_file(host, project)
    match host_files(host).form:
        case "groups" | "entries":
            yield _json_hooks(host, path, ())
        case "toml":
            yield _toml_block(path, host, "")
        case "bridge":
            yield OwnFile(path=path, content="")
    if host == "codex":
        yield _trust_block(path, "")


def codex_trust(path: Path, text: str, stored: str) -> TomlBlock | None:
    """Return what tells Codex to trust our hooks in the *text* of the file at *path*.

    None if *stored*, its configuration without anything of ours, says so already.
    """
    hooks = locate(path, text).value.get("hooks", {})
    config = codex_config()
    hashes = without_stored(config, stored, trusted_hashes(path, hooks))
    return _trust_block(path, trust_block(hashes)) if hashes else None


def codex_config() -> Path:
    """Return where Codex stores what it trusts."""
    return host_folder("codex") / "config.toml"


def _json_hooks(
    host: str, path: Path, entries: tuple[tuple[str, dict[str, object]], ...]
) -> JsonHooks:
    files = host_files(host)
    initial = {"version": 1} if files.form == "entries" else {}
    return JsonHooks(
        path=path, host=host, entries=entries, initial=initial, variables=files.variables
    )


def _bridge(host: str, script: Path, python: str) -> str:
    command = [python, "-I", "-S", str(script), host]
    return BRIDGE_MARK + bridge_source(host_files(host).bridge, command)


def _trust_block(path: Path, block: str) -> TomlBlock:
    pattern = rf"(?m)^\[hooks\.state\.{re.escape(_toml(str(path))[:-1])}:"
    return TomlBlock(
        path=codex_config(), label=f"trust in {str(path)!r}", block=block, pattern=pattern
    )


def _toml_block(path: Path, host: str, block: str) -> TomlBlock:
    return TomlBlock(path=path, label="hooks", block=block, pattern=our_command(host))


def _toml_tables(entries: tuple[tuple[str, dict[str, object]], ...]) -> str:
    # A JSON string without a DEL is a TOML string; a command has none.
    tables = [
        "\n".join(["[[hooks]]", *[f"{key} = {_toml(value)}" for key, value in entry.items()], ""])
        for _, entry in entries
    ]
    return "\n".join(tables)


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
