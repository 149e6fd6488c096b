r"""Pinned items: the instructions, tools and prompts of each server, and their lock file.

The lock file `toolbus.lock` is JSON, sorted, with one value per line for readable diffs:

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
          "members": {"icons": []},
          "output_schema": null
        }
      }
    }
  },
  "version": 1
}
```

Descriptions and instructions are lists of lines. Invisible characters are escaped (`\u200b`). The
file contains the whole text, so that a difference can be shown, and the digest of each text. The
`members` are those that only a client of MCP sees; an older lock file has none, and covers none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toolbus.components.listed_tools import HINTS, MEMBERS
from toolbus.errors import ConfigurationError
from toolbus.messages.immutable import thaw
from toolbus.settings.visible_text import is_visible
from toolbus.toml.files import decode_text, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from toolbus.events.call_values import ToolSpec

LOCK_NAME = "toolbus.lock"

LONGEST_LOCK = 2**26
"""Bytes of a lock file."""

DIGEST_VERSION = 1
"""The version of the canonical form; a lock file of another version must be pinned again."""

SEPARATOR = "_"
"""The separator between the names of a server and its tool, if several servers have names."""

_OF_PROMPT = ("title", "description")
_IN_PROMPT = ("name", "arguments", *_OF_PROMPT)
_OF_ARGUMENT = ("name", "title", "description", "required")
_IN_LINES = ("description", "text")
_AGAIN = "write it again with `toolbus pin`"


class PinnedItem(NamedTuple):
    """The JSON *fields* in which a tool, prompt or server describes itself, and a digest.

    *members* are further members for a client of MCP alone, None if they are unknown. The digest
    covers both.
    """

    fields: Mapping[str, Any]
    digest: str
    members: Mapping[str, Any] | None = None

    @property
    def whole(self) -> Mapping[str, Any]:
        """The fields, and the members as one of them."""
        return {**self.fields, "members": self.members} if self.members else self.fields

    def allows(self, current: PinnedItem) -> bool:
        """Return whether this pin accepts the *current* item.

        Each of its members must equal the pinned one. Some may be missing: a server may list fewer
        for an older revision. A pin without members accepts all.
        """
        known, members = self.members, current.members
        if _canonical(self.fields) != _canonical(current.fields):
            return False
        return (
            known is None
            or members is None
            or all(
                name in known and _canonical(members[name]) == _canonical(known[name])
                for name in members
            )
        )


class PinnedServer(NamedTuple):
    """The *instructions* of a server, and by their names its *tools* and *prompts*."""

    tools: Mapping[str, PinnedItem] = {}
    prompts: Mapping[str, PinnedItem] = {}
    instructions: PinnedItem | None = None


class ToolPins(NamedTuple):
    """All accepted items: of the program itself, and of *servers* by name.

    Tools and prompts have their advertised names, with the prefix of their server.
    """

    program: PinnedServer = PinnedServer()
    servers: Mapping[str, PinnedServer] = {}

    @property
    def sources(self) -> dict[str, PinnedServer]:
        """All servers by name; the name of the program itself is ""."""
        return {"": self.program, **self.servers}

    @property
    def uncovered(self) -> int:
        """The number of pins of servers, in an older lock file, that do not cover members."""
        items = [[*each.tools.values(), *each.prompts.values()] for each in self.servers.values()]
        return sum(item.members is None for item in chain.from_iterable(items))


def pin_tool(spec: ToolSpec, *, is_own: bool = False) -> PinnedItem:
    """Return the item of a tool; unless the tool *is_own*, only annotations of MCP count.

    Hosts use a tool's title or name as its missing description; such a description does not count.
    """
    annotations = thaw(spec.annotations)
    members = annotations.get(MEMBERS)
    description = spec.description
    if not is_own:
        annotations = _known(annotations, HINTS)
        names = (spec.name, spec.name.partition(SEPARATOR)[2], annotations.get("title"))
        description = "" if description in names else description
    fields = {
        "annotations": annotations,
        "description": description,
        "input_schema": thaw(spec.input_schema),
        "output_schema": thaw(spec.output_schema),
    }
    is_listed = not is_own and isinstance(members, dict)
    return _item("tool", spec.name, fields, members if is_listed else None)


def pin_prompt(name: str, prompt: Mapping[str, Any]) -> PinnedItem:
    """Return the item of *prompt*, from `prompts/list`; MCP 2025-11-25, server/prompts."""
    arguments = [
        _known(each, _OF_ARGUMENT) if isinstance(each, Mapping) else thaw(each)
        for each in prompt.get("arguments") or ()
    ]
    members = {key: thaw(prompt[key]) for key in prompt if key not in _IN_PROMPT}
    for argument in prompt.get("arguments") or ():
        if isinstance(argument, Mapping) and (unknown := argument.keys() - {*_OF_ARGUMENT}):
            members[f"argument {argument.get('name')}"] = {
                key: thaw(argument[key]) for key in sorted(unknown)
            }
    fields = {**_known(prompt, _OF_PROMPT), "arguments": arguments}
    return _item("prompt", name, fields, members)


def pin_instructions(text: str | None) -> PinnedItem | None:
    """Return the item of a server's instructions *text*, or None."""
    return _item("instructions", "", {"text": text}) if text else None


def pin_program(specs: Iterable[ToolSpec]) -> PinnedServer:
    """Return the items of the program's own tools."""
    return PinnedServer({spec.name: pin_tool(spec, is_own=True) for spec in specs})


def reveal(text: str, keep: str = "") -> str:
    r"""Return *text* with invisible characters, except for *keep*, escaped as in JSON.

    A text inside JSON keeps its value.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join([char if char in keep or is_visible(char) else _escape(char) for char in text])


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join([f"\\u{units[index : index + 4]}" for index in range(0, len(units), 4)])


def _known(item: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: thaw(item[key]) for key in keys if item.get(key) is not None}


def _item(
    kind: str, name: str, fields: Mapping[str, Any], members: Mapping[str, Any] | None = None
) -> PinnedItem:
    """Return the item of *fields* and *members*, if they are known.

    Its digest is SHA-256 of canonical JSON, with *kind* and *name*.
    """
    whole = [DIGEST_VERSION, kind, name, fields]
    text = _canonical(whole if members is None else [*whole, members])
    return PinnedItem(fields, f"sha256:{sha256(text.encode()).hexdigest()}", members)


def _canonical(value: Any) -> str:
    """Return *value* as JSON with sorted keys, no spaces, ASCII only, and Python's numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def write_lock(pins: ToolPins) -> bytes:
    """Return the bytes of a lock file for *pins*."""
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
    members = {} if item.members is None else {"members": item.members}
    return {**table, **lines, **members}


class _LockedServer(msgspec.Struct, forbid_unknown_fields=True):
    """The section of one server in the lock file."""

    tools: dict[str, dict[str, Any]] = {}
    prompts: dict[str, dict[str, Any]] = {}
    instructions: dict[str, Any] | None = None


class _LockFile(msgspec.Struct, forbid_unknown_fields=True):
    """The lock file."""

    program: _LockedServer
    servers: dict[str, _LockedServer]
    version: int


def read_lock(file: Path, data: bytes | None = None) -> ToolPins:
    """Return the pins in the lock *file*, or its *data*.

    Raises `ConfigurationError` if the file is missing or invalid, or a digest does not match.
    """
    text = decode_text(file, read_bytes(file, LONGEST_LOCK) if data is None else data)
    try:
        return _pins(json.loads(text, object_pairs_hook=_unique))
    except json.JSONDecodeError as error:
        reason = f"this is not JSON: {error.msg.lower()}; {_AGAIN}"
        raise ConfigurationError(reason, str(file), error.lineno, error.colno) from None
    except RecursionError:
        raise ConfigurationError(f"its JSON is nested too deeply; {_AGAIN}", str(file)) from None
    except (_LockError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{error}; {_AGAIN}", str(file)) from None


class _LockError(Exception):
    """The contents of a lock file are wrong."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise _LockError("an object has a key twice")
    return table


def _pins(whole: Any) -> ToolPins:
    version = whole.get("version") if isinstance(whole, dict) else DIGEST_VERSION
    if version != DIGEST_VERSION:
        raise _LockError(f"expected version {DIGEST_VERSION}, got {version!r}")
    lock = msgspec.convert(whole, _LockFile)
    servers = {name: _server(each, repr(name)) for name, each in lock.servers.items()}
    return ToolPins(_server(lock.program, "program"), servers)


def _server(locked: _LockedServer, where: str) -> PinnedServer:
    def items(kind: str, tables: dict[str, dict[str, Any]]) -> dict[str, PinnedItem]:
        return {
            name: _locked_item(kind, name, table, f"{where}: {kind} {name!r}")
            for name, table in tables.items()
        }

    tables = {} if locked.instructions is None else {"": locked.instructions}
    instructions = items("instructions", tables).get("")
    return PinnedServer(items("tool", locked.tools), items("prompt", locked.prompts), instructions)


def _locked_item(kind: str, name: str, table: dict[str, Any], where: str) -> PinnedItem:
    """Return the item of *table*; its digest also reveals missing and additional fields."""
    fields = dict(table)
    digest = fields.pop("digest", None)
    for key in _IN_LINES:
        lines = fields.get(key, [])
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise _LockError(f"{where}: {key!r} is not a list of lines")
        if key in fields:
            fields[key] = "\n".join(lines)
    members = fields.pop("members", None)
    if not isinstance(members, dict | None):
        raise _LockError(f"{where}: 'members' is not an object")
    item = _item(kind, name, fields, members)
    if item.digest != digest:
        raise _LockError(f"{where}: its digest does not match its text")
    return item
