"""Names of the files that only people change: ours, and those of agents' hosts."""

from __future__ import annotations

import posixpath
import site
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.policy.paths.name_globs import fold
from toolbus.settings.user_folders import config_folder, state_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from toolbus.policy.paths.resolving import PathResolver

PACKAGE = Path(__file__).parents[2]
"""The folder of `toolbus` itself."""

SETTINGS = (
    "toolbus.toml",
    "toolbus.lock",
    ".mcp.json",
    ".claude.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".config/opencode",
    ".copilot/config.json",
    ".copilot/hooks",
    ".copilot/settings.json",
    ".copilot/mcp-config.json",
    ".cursor/hooks.json",
    ".cursor/mcp.json",
    ".gemini/extensions",
    ".gemini/settings.json",
    ".gemini/trustedFolders.json",
    ".github/copilot",
    ".github/hooks",
    ".opencode/opencode.json",
    ".opencode/plugin",
    ".opencode/plugins",
    "opencode.json",
    "opencode.jsonc",
    ".pi/agent",
    ".pi/extensions",
    ".pi/settings.json",
    ".vibe/config.toml",
    ".vibe/hooks.toml",
    ".vibe/trusted_folders.toml",
    ".vscode/mcp.json",
)
"""Settings of agents' hosts and ours, by their names in a project or a home folder.

They count wherever they are: a host that is started elsewhere reads the nearest ones.
"""

_SETTINGS = frozenset(map(fold, SETTINGS))
_FOLDERS = frozenset([name.partition("/")[0] for name in SETTINGS if "/" in name])


def files_of_installation() -> Iterator[str]:
    """Yield what belongs to every installation."""
    if (folder := config_folder()) is not None:
        yield str(folder)
    with suppress(RuntimeError):
        yield str(state_folder())
    yield str(PACKAGE)
    # What is written there stands on a person's screen, where questions do.
    yield "/dev/pts"
    yield from [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    yield site.getusersitepackages()
    yield posixpath.join(sys.prefix, "pyvenv.cfg")
    yield sys.executable
    yield posixpath.join(sysconfig.get_path("scripts"), "toolbus")


def reading_folders(resolver: PathResolver) -> list[str]:
    """Return the folders where a host that is started here looks for its settings."""
    start = resolver.place.folder
    starts = [start, resolver.home(), str(Path.cwd())]
    return list(
        dict.fromkeys(
            [str(each) for path in starts if path for each in (Path(path), *Path(path).parents)]
        )
    )


def is_setting(name: str, folders: Collection[str] | None = None) -> bool:
    """Return whether *name* is one of `SETTINGS`, or below it, in one of *folders*; all folded."""
    parts = name.split("/")
    for index in range(1, len(parts)):
        names = {"/".join(parts[index : index + length]) for length in (1, 2)}
        is_there = folders is None or ("/".join(parts[:index]) or "/") in folders
        if is_there and not _SETTINGS.isdisjoint(names):
            return True
    return False


def holds_settings(path: str) -> bool:
    """Return whether *path* is called as a folder that has some of `SETTINGS`: ``.claude``."""
    return posixpath.basename(path) in _FOLDERS


def settings_in(name: str) -> list[str]:
    """Return the names of settings in a folder of this *name*."""
    return [setting.partition("/")[2] for setting in SETTINGS if setting.startswith(f"{name}/")]


def is_among(name: str, paths: frozenset[str]) -> bool:
    """Return whether the absolute *name* is one of *paths*, or below one."""
    while name not in paths:
        name, _, rest = name.rpartition("/")
        if not rest and not name:
            return False
    return True
