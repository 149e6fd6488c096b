"""The trust of Codex in our hooks: as stored in its files, and as its program reports it."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from toolbus.errors import ConfigurationError
from toolbus.hosts.doctor.findings import Finding
from toolbus.hosts.install.codex_trust import stored_states, trusted_hashes
from toolbus.hosts.install.host_files import host_folder
from toolbus.hosts.install.json_positions import locate
from toolbus.hosts.install.settings_files import read_any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.hosts.install.state import InstalledState

_LAST_ID = 2
_WAIT = 20
"""Seconds for the program's answer."""
_AGAIN = "it skips them silently; run: toolbus hosts install codex"


def inspect_codex_trust(
    program: str | None, state: InstalledState, folder: Path
) -> Iterator[Finding]:
    """Yield findings about Codex's trust in the hooks of *state*, as it applies in *folder*.

    The *program* of Codex reports it; without one, its files are read.
    """
    path = Path(state.file)
    expected: dict[str, str] = {}
    with suppress(ConfigurationError, AttributeError):
        hooks = locate(path, read_any(path).text or "{}").value.get("hooks", {})
        expected = trusted_hashes(path, hooks)
    hooks_of_codex = None if program is None else hooks_of_program(program, folder)
    trusted = _trusted_keys(hooks_of_codex, expected)
    doubted = [key for key in expected if key not in trusted]
    if doubted:
        events = ", ".join([key.rsplit(":", 3)[1] for key in doubted])
        text = f"Codex does not trust our hooks for {events}: {_AGAIN}"
        project = "" if state.project is None else " --project, and trust the project in Codex"
        yield Finding(severity="open", text=text + project)
    elif expected:
        source = "its configuration" if hooks_of_codex is None else "its own report"
        yield Finding(severity="fact", text=f"Codex trusts our hooks, according to {source}")


def _trusted_keys(
    reported: Sequence[dict[str, Any]] | None, expected: Mapping[str, str]
) -> set[str]:
    """Return the keys *reported* as trusted, else those stored with their *expected* hashes."""
    if reported is not None:
        return {
            str(each.get("key"))
            for each in reported
            if each.get("trustStatus") in {"trusted", "managed"} and each.get("enabled") is True
        }
    config = host_folder("codex") / "config.toml"
    stored: dict[str, Any] = {}
    with suppress(ConfigurationError, AttributeError):
        stored = stored_states(config, read_any(config).text or "")
    return {key for key, value in expected.items() if _is_trusted(stored.get(key), value)}


def _is_trusted(stored: Any, expected: str) -> bool:
    if not isinstance(stored, dict) or stored.get("enabled") is False:
        return False
    return stored.get("trusted_hash") == expected


def hooks_of_program(program: str, folder: Path) -> list[dict[str, Any]] | None:
    """Return the hooks that `codex app-server` lists for *folder*; None without an answer."""
    client = {"name": "toolbus", "version": "1"}
    requests = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": client}},
        {"method": "initialized"},
        {"id": _LAST_ID, "method": "hooks/list", "params": {"cwds": [str(folder)]}},
    ]
    text = "".join([json.dumps(each) + "\n" for each in requests])
    try:
        with subprocess.Popen(  # noqa: S603 - the person's own program
            [program, "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        ) as server:
            timer = Timer(_WAIT, server.kill)
            timer.start()
            try:
                return _answer(server, text.encode())
            finally:
                timer.cancel()
                server.kill()
    except OSError:
        return None


def _answer(server: subprocess.Popen[bytes], requests: bytes) -> list[dict[str, Any]] | None:
    assert server.stdin is not None  # noqa: S101 - for mypy: both are pipes
    assert server.stdout is not None  # noqa: S101 - as above
    server.stdin.write(requests)
    # Standard input stays open: the server ends without an answer when it is closed.
    server.stdin.flush()
    for line in server.stdout:
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            answer = json.loads(line)
            if answer.get("id") == _LAST_ID:
                return [hook for each in answer["result"]["data"] for hook in each["hooks"]]
    return None
