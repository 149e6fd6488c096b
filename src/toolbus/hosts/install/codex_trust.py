"""The trust that Codex stores for each hook: hooks without it are skipped silently.

Tested with Codex 0.169.0: `hooks.state` of its `config.toml` has a table for each key
`FILE:EVENT:GROUP:HOOK`, and `trusted_hash` in it is the SHA-256 of the hook as JSON with sorted
names. Codex reports its own view as the answer to `hooks/list` of `codex app-server`.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from toolbus.errors import ConfigurationError
from toolbus.hosts.install.host_files import is_ours
from toolbus.toml.files import parse_toml

if TYPE_CHECKING:
    from pathlib import Path

_DEFAULT_TIMEOUT = 600


def trusted_hashes(file: Path, hooks: dict[str, Any]) -> dict[str, str]:
    """Return the hashes of our hooks in *hooks*, the content of *file*, by their keys."""
    return {
        f"{file}:{_event_key(event)}:{group_index}:{index}": _hash(event, group, index)
        for event, groups in hooks.items()
        for group_index, group in enumerate(groups)
        for index, hook in enumerate(group.get("hooks", ()))
        if is_ours(hook, "codex")
    }


def without_stored(file: Path, text: str, hashes: dict[str, str]) -> dict[str, str]:
    """Return the *hashes* that the *text* of `config.toml`, at *file*, does not store yet.

    Raises `ConfigurationError` if it stores a different one for a hook.
    """
    states = stored_states(file, text)
    for key, state in states.items():
        if key in hashes and state != {"trusted_hash": hashes[key]}:
            reason = "it stores a different trust for our hook"
            way_out = f"remove the table [hooks.state.{_toml(key)}], and try again"
            raise ConfigurationError(f"{reason}; {way_out}", str(file))
    return {key: value for key, value in hashes.items() if key not in states}


def stored_states(file: Path, text: str) -> dict[str, Any]:
    """Return the states that the *text* of `config.toml`, at *file*, stores, by keys of hooks."""
    hooks = parse_toml(file, text.replace("\r\n", "\n")).get("hooks")
    states = hooks.get("state") if isinstance(hooks, dict) else None
    return states if isinstance(states, dict) else {}


def trust_block(hashes: dict[str, str]) -> str:
    """Return the lines for `config.toml` that store *hashes*, by their keys."""
    tables = [
        f"[hooks.state.{_toml(key)}]\ntrusted_hash = {_toml(value)}\n"
        for key, value in hashes.items()
    ]
    return "\n".join(tables)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _event_key(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _hash(event: str, group: dict[str, Any], index: int) -> str:
    hook = {"async": False, "timeout": _DEFAULT_TIMEOUT, **group["hooks"][index]}
    identity = {"event_name": _event_key(event), "hooks": [hook]}
    if "matcher" in group:
        identity["matcher"] = group["matcher"]
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"
