"""The settings that decide whether a host runs our hooks: the user's, a project's, a machine's.

They are read, and nothing in them is believed or run: a project's may be hostile.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from toolbus.errors import ConfigurationError
from toolbus.hosts.install.host_files import HOSTS, host_folder
from toolbus.hosts.install.json_positions import locate
from toolbus.hosts.install.settings_files import read_any
from toolbus.toml.files import parse_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Origin: TypeAlias = Literal["user", "project", "machine"]
"""Whose file it is."""

_PATTERNS: dict[str, dict[Origin, tuple[str, ...]]] = {
    "claude-code": {
        "user": ("settings.json",),
        "project": (".claude/settings.json", ".claude/settings.local.json"),
        "machine": (
            "/etc/claude-code/managed-settings.json",
            "/etc/claude-code/managed-settings.d/*.json",
        ),
    },
    "codex": {
        "user": ("hooks.json", "config.toml"),
        "project": (".codex/hooks.json", ".codex/config.toml"),
        "machine": (
            "/etc/codex/config.toml",
            "/etc/codex/requirements.toml",
            "/etc/codex/managed_config.toml",
        ),
    },
    "copilot": {
        "user": ("settings.json", "hooks/*.json"),
        "project": (".github/hooks/*.json", ".github/copilot/*.json"),
    },
    "gemini-cli": {
        "user": ("settings.json",),
        "project": (".gemini/settings.json", ".gemini/.env", ".env"),
        "machine": ("/etc/gemini-cli/settings.json", "/etc/gemini-cli/system-defaults.json"),
    },
    "vibe": {
        "user": ("hooks.toml", "config.toml"),
        "project": (".vibe/hooks.toml", ".vibe/config.toml"),
    },
    "opencode": {
        "user": ("opencode.json", "opencode.jsonc"),
        "project": ("opencode.json", "opencode.jsonc", ".opencode/opencode.json"),
    },
    "pi": {"user": ("settings.json",), "project": (".pi/settings.json",)},
    "cursor": {"user": ("hooks.json",), "project": (".cursor/hooks.json",)},
}
_MACHINE_FOLDERS = {
    "/etc/claude-code": "/Library/Application Support/ClaudeCode",
    "/etc/gemini-cli": "/Library/Application Support/GeminiCli",
}
"""Where macOS has them."""

_VARIABLE = re.compile(r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=")
"""A line of the files of variables that Gemini CLI reads."""

_PROGRAMS = {
    "opencode": ("plugins/*.js", "plugins/*.ts", "plugin/*.js", "plugin/*.ts"),
    "pi": ("extensions/*.ts", "extensions/*.js", "extensions/*/index.ts"),
}
"""Programs in the host's process, from its folder on, the user's or a project's."""
_PROGRAM_FOLDERS = {"opencode": ".opencode", "pi": ".pi"}


class HostSettings(Struct, frozen=True, kw_only=True):
    """What a file says; *problem* is why it is not known."""

    file: Path
    origin: Origin
    value: dict[str, Any] = {}
    problem: str = ""


class ForeignHook(Struct, frozen=True, kw_only=True):
    """A hook that is not ours, for *event*; *what* names its command or program."""

    file: Path
    origin: Origin
    event: str
    what: str


def read_host_settings(host: str, projects: Sequence[Path]) -> tuple[HostSettings, ...]:
    """Return what stands in all files of settings of *host* that are there."""
    return tuple(
        [
            _read(file, origin)
            for origin, file in _files(host, projects)
            if file.is_symlink() or file.exists()
        ]
    )


def read_machine_settings(host: str) -> tuple[HostSettings, ...]:
    """Return what stands in the machine's own files of settings of *host*."""
    files = [file for origin, file in _files(host, ()) if origin == "machine"]
    return tuple([_read(file, "machine") for file in files if file.exists()])


def programs_beside(host: str, projects: Sequence[Path]) -> Iterator[ForeignHook]:
    """Yield other programs that run in the process of *host*, beside our bridge."""
    folders = [("user", host_folder(host)), *[("project", each) for each in projects]]
    for origin, folder in folders:
        place = folder if origin == "user" else folder / _PROGRAM_FOLDERS.get(host, "")
        for pattern in _PROGRAMS.get(host, ()):
            for file in sorted(place.glob(pattern)):
                if file.name != Path(HOSTS[host].user).name:
                    whose: Origin = "user" if origin == "user" else "project"
                    yield ForeignHook(file=file, origin=whose, event="all", what=file.name)


def _files(host: str, projects: Sequence[Path]) -> Iterator[tuple[Origin, Path]]:
    patterns = _PATTERNS.get(host, {})
    for pattern in patterns.get("user", ()):
        for file in sorted(host_folder(host).glob(pattern)):
            yield "user", file
    for pattern in patterns.get("project", ()):
        for file in sorted({file for project in projects for file in project.glob(pattern)}):
            yield "project", file
    for pattern in patterns.get("machine", ()):
        folder, _, name = on_this_system(pattern).partition("*")
        place = Path(folder)
        if name:
            yield from [("machine", file) for file in sorted(place.glob(f"*{name}"))]
        else:
            yield "machine", place


def on_this_system(path: str) -> str:
    """Return where this system has the machine's file *path*, which is named as on Linux."""
    if sys.platform == "darwin":
        for folder, other in _MACHINE_FOLDERS.items():
            path = path.replace(folder, other)
    return path


def _read(file: Path, origin: Origin) -> HostSettings:
    try:
        text = read_any(file).text or ""
        if file.name == ".env":
            value: Any = {"env": dict.fromkeys(_VARIABLE.findall(text))}
        elif file.suffix == ".toml":
            value = parse_toml(file, text.replace("\r\n", "\n"))
        else:
            value = locate(file, text).value
    except ConfigurationError as error:
        return HostSettings(file=file, origin=origin, problem=str(error))
    if not isinstance(value, dict):
        return HostSettings(file=file, origin=origin, problem=f"{file}: it is no object")
    return HostSettings(file=file, origin=origin, value=value)
