"""The trust that Codex wants to be stored for each hook: without it, it skips them in silence.

Found by running Codex 0.169.0: below `hooks.state` of its `config.toml` stands for the key
`FILE:EVENT:GROUP:HOOK` as `trusted_hash` the SHA-256 of the hook as JSON with sorted names. What it
thinks of its hooks it says itself, as answer to `hooks/list` of `codex app-server`.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from toolbus.hosts.edit_targets import our_entries

if TYPE_CHECKING:
    from pathlib import Path

_DEFAULT_TIMEOUT = 600


def trusted_hashes(file: Path, hooks: dict[str, Any]) -> dict[str, str]:
    """Return by its key the hash of each hook of ours in *hooks*, which stand in *file*."""
    return {
        f"{file}:{_event_key(event)}:{group_index}:{index}": _hash(event, group, index)
        for event, group_index, index, group in our_entries(hooks, "codex")
    }


def trust_block(hashes: dict[str, str]) -> str:
    """Return the lines for `config.toml` that store the trust in *hashes*, by their keys."""
    tables = [
        f"[hooks.state.{json.dumps(key, ensure_ascii=False)}]\ntrusted_hash = {json.dumps(value)}\n"
        for key, value in hashes.items()
    ]
    return "\n".join(tables)


def _event_key(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _hash(event: str, group: dict[str, Any], index: int) -> str:
    hook = {"async": False, "timeout": _DEFAULT_TIMEOUT, **group["hooks"][index]}
    identity = {"event_name": _event_key(event), "hooks": [hook]}
    if "matcher" in group:
        identity["matcher"] = group["matcher"]
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"
