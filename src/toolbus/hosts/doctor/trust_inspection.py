"""Whether a host trusts the folder of a project, without which it runs no hooks of it.

Where that is kept was read in Copilot CLI 1.0.102 (`trustedFolders` of config.json, or of
settings.json), Gemini CLI 0.61.0 (docs/cli/trusted-folders.md) and Vibe 3.0.2
(`trusted_folders.toml`).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.errors import ConfigurationError
from toolbus.hosts.doctor.inspections import Finding
from toolbus.hosts.install.host_files import host_folder
from toolbus.hosts.install.json_positions import locate
from toolbus.hosts.install.settings_files import read_any
from toolbus.toml.files import parse_toml

if TYPE_CHECKING:
    from collections.abc import Iterator


def inspect_folder_trust(host: str, project: str) -> Iterator[Finding]:
    """Yield that *host* does not trust the folder *project*, if it is one that asks about that."""
    folder = host_folder(host)
    match host:
        case "copilot":
            files = (folder / "config.json", folder / "settings.json")
            trusted = [each for file in files for each in _texts(_read(file).get("trustedFolders"))]
        case "vibe":
            trusted = _texts(_read(folder / "trusted_folders.toml").get("trusted"))
        case "gemini-cli":
            security = _read(folder / "settings.json").get("security")
            switch = security.get("folderTrust") if isinstance(security, dict) else None
            if not (isinstance(switch, dict) and switch.get("enabled") is True):
                return
            trusted = _trusted_by_gemini(_read(folder / "trustedFolders.json"))
        case _:
            return
    if not any(Path(project).is_relative_to(each) for each in trusted):
        text = f"{host} does not trust {project}, and so runs no hooks of it; start it there"
        yield Finding(severity="open", text=text)


def _trusted_by_gemini(folders: dict[str, Any]) -> list[str]:
    parents = [str(Path(each).parent) for each, what in folders.items() if what == "TRUST_PARENT"]
    return [*parents, *[each for each, what in folders.items() if what == "TRUST_FOLDER"]]


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _read(file: Path) -> dict[str, Any]:
    with suppress(ConfigurationError):
        text = read_any(file).text or ""
        value = parse_toml(file, text) if file.suffix == ".toml" else locate(file, text).value
        return value if isinstance(value, dict) else {}
    return {}
