r"""The lock file `toolbus.lock`: JSON, sorted, one thing a line, so that a diff reads well.

```json
{
  "program": {"tools": {}},
  "servers": {
    "git": {
      "instructions": {"digest": "sha256:…", "text": ["a line"]},
      "prompts": {},
      "tools": {
        "git_log": {
          "annotations": {"readOnlyHint": true},
          "description": ["Shows the log.", "Line by line."],
          "digest": "sha256:…",
          "input_schema": {"type": "object"},
          "output_schema": null
        }
      }
    }
  },
  "version": 1
}
```

Descriptions and instructions are lists of lines. Characters that show nothing are `\u200b` and the
like. The whole text is in it, so that a difference can be shown; each digest is that of its text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from toolbus.errors import ConfigurationError
from toolbus.policy.pins.look_alikes import reveal
from toolbus.policy.pins.pinned_items import (
    DIGEST_VERSION,
    PinnedItem,
    PinnedServer,
    ToolPins,
    make_item,
)
from toolbus.toml.files import decode_text, read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOCK_NAME = "toolbus.lock"

LONGEST_LOCK = 2**26
"""Bytes of a lock file."""

_AGAIN = "write it anew with `toolbus pin`"
_IN_LINES = ("description", "text")
_FIELDS = {
    "tool": {"annotations", "description", "input_schema", "output_schema"},
    "instructions": {"text"},
}


def write_lock(pins: ToolPins) -> bytes:
    """Return the lock file that says *pins*."""
    whole = {
        "program": _server_table(pins.program),
        "servers": {name: _server_table(server) for name, server in pins.servers.items()},
        "version": DIGEST_VERSION,
    }
    text = json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=False)
    return (reveal(text, keep="\n") + "\n").encode()


def _server_table(server: PinnedServer) -> dict[str, Any]:
    table: dict[str, Any] = {
        "tools": {name: _item_table(item) for name, item in server.tools.items()}
    }
    if server.prompts:
        table["prompts"] = {name: _item_table(item) for name, item in server.prompts.items()}
    if server.instructions is not None:
        table["instructions"] = _item_table(server.instructions)
    return table


def _item_table(item: PinnedItem) -> dict[str, Any]:
    table = {**item.fields, "digest": item.digest}
    lines = {key: table[key].split("\n") for key in _IN_LINES if isinstance(table.get(key), str)}
    return {**table, **lines}


def read_lock(file: Path, data: bytes | None = None) -> ToolPins:
    """Return what the lock *file*, or its *data*, pins.

    Raises `ConfigurationError` if it is missing, no lock file, or one of its digests is not that
    of its text.
    """
    text = decode_text(file, read_bytes(file, LONGEST_LOCK) if data is None else data)
    try:
        return _pins(json.loads(text, object_pairs_hook=_unique))
    except json.JSONDecodeError as error:
        reason = f"this is no JSON: {error.msg.lower()}; {_AGAIN}"
        raise ConfigurationError(reason, str(file), error.lineno, error.colno) from None
    except RecursionError:
        raise ConfigurationError(f"it is nested too deeply; {_AGAIN}", str(file)) from None
    except _NoLockError as error:
        raise ConfigurationError(f"{error}; {_AGAIN}", str(file)) from None


class _NoLockError(Exception):
    """What is wrong with the contents of a lock file."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise _NoLockError("a key stands twice in one object")
    return table


def _pins(whole: Any) -> ToolPins:
    table = _table(whole, {"program", "servers", "version"}, "the file")
    version = table.get("version")
    if type(version) is not int or version != DIGEST_VERSION:
        raise _NoLockError(f"it is of version {version!r}, and this toolbus reads {DIGEST_VERSION}")
    servers = _table(table.get("servers"), None, "'servers'")
    return ToolPins(
        _server(table.get("program"), "program"),
        {name: _server(each, repr(name)) for name, each in servers.items()},
    )


def _server(value: Any, where: str) -> PinnedServer:
    table = _table(value, {"tools", "prompts", "instructions"}, where)
    instructions = table.get("instructions")
    return PinnedServer(
        _items("tool", table.get("tools", {}), where),
        _items("prompt", table.get("prompts", {}), where),
        None if instructions is None else _item("instructions", "", instructions, where),
    )


def _items(kind: str, value: Any, where: str) -> Mapping[str, PinnedItem]:
    table = _table(value, None, f"{where}: its {kind}s")
    return {
        name: _item(kind, name, each, f"{where}: {kind} {name!r}") for name, each in table.items()
    }


def _item(kind: str, name: str, value: Any, where: str) -> PinnedItem:
    fields = dict(_table(value, None, where))
    digest = fields.pop("digest", None)
    if fields.keys() != _FIELDS.get(kind, fields.keys()):
        raise _NoLockError(f"{where} has not the keys {', '.join(sorted(_FIELDS[kind]))}")
    for key in _IN_LINES:
        lines = fields.get(key)
        if key in fields:
            if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
                raise _NoLockError(f"{where}: {key!r} is no list of lines")
            fields[key] = "\n".join(lines)
    item = make_item(kind, name, fields)
    if item.digest != digest:
        raise _NoLockError(f"{where}: its digest is not that of its text")
    return item


def _table(value: Any, keys: set[str] | None, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _NoLockError(f"{where} is no object")
    if keys is not None and (strange := value.keys() - keys):
        raise _NoLockError(f"{where} has the unknown key {min(strange)!r}")
    return value
