"""Settings of hosts that disable or weaken our hooks, as `vendors.toml` lists them.

Settings are only read: a project's may be hostile, so nothing in them is trusted or run.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, convert, field

from toolbus.errors import ConfigurationError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.findings import Finding
from toolbus.hosts.install.host_files import HOSTS, host_folder, is_ours
from toolbus.hosts.install.json_positions import locate
from toolbus.hosts.install.settings_files import read_any
from toolbus.settings.spans import sanitize
from toolbus.toml.files import parse_toml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

Origin: TypeAlias = Literal["user", "project", "machine"]
"""The owner of a file of settings."""

_MACOS = {
    "/etc/claude-code": "/Library/Application Support/ClaudeCode",
    "/etc/gemini-cli": "/Library/Application Support/GeminiCli",
}
"""The folders of a machine's settings on Linux and on macOS, where they differ."""

_ENVIRONMENTS = ("env", "shell_environment_policy.set")
"""The keys of environment variables that Claude Code, Gemini CLI and Codex pass to hooks."""

_LOADED_INTO_US = re.compile(r"(?:LD|DYLD)_[A-Z_]+|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|GLIBC_\w+")
"""Variables that load code into any program, including ours."""
_IDLE_FOR_US = re.compile(
    r"PYTHON\w*|PATH|NODE_\w+|HOME|XDG_\w+|TOOLBUS_\w+|VIRTUAL_ENV"
    r"|CLAUDE_CODE_SHELL\w*"
)
"""Variables that affect other hooks; ours ignores them."""

_VARIABLE = re.compile(r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=")
"""An assignment in the `.env` files that Gemini CLI reads."""

_WIDTH = 80


class Managed(Struct, frozen=True, kw_only=True):
    """The setting *key*, which is *on* if hooks run, and the machine's *file* that enforces it.

    *file* is ours alone if the host reads a folder of files, else the host's only one.
    """

    key: str
    on: bool
    file: str
    text: str
    project_file: str

    @property
    def path(self) -> Path:
        """The file on this system; *file* is its path on Linux."""
        return Path(on_this_system(self.file))


class Trusted(Struct, frozen=True, kw_only=True):
    """The files that list the folders a host trusts; see `vendors.toml`."""

    files: tuple[str, ...]
    key: str = ""
    condition: str = field(default="", name="if")


class Vendor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a host that affect hooks; `vendors.toml` explains the fields."""

    user: tuple[str, ...]
    project: tuple[str, ...]
    machine: tuple[str, ...] = ()
    off: Mapping[str, bool] = {}
    names_off: str = ""
    programs: tuple[str, ...] = ()
    program_folder: str = ""
    trusted: Trusted | None = None
    managed: Managed | None = None


class HostSettings(Struct, frozen=True, kw_only=True):
    """The content of a settings file; *problem* is why it could not be read."""

    file: Path
    origin: Origin
    value: dict[str, Any] = {}
    problem: str = ""

    def value_at(self, key: str) -> Any:
        """Return the value at the dotted *key*; None if it is missing."""
        value: Any = self.value
        for name in key.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value


@cache
def vendors() -> Mapping[str, Vendor]:
    """Return the settings by host."""
    text = Path(__file__).with_name("vendors.toml").read_text("utf-8")
    return convert(tomllib.loads(text), dict[str, Vendor])


# --- findings ------------------------------------------------------------------------------------


def inspect_settings(
    host: str, projects: Sequence[Path], whole: Collection[Path] = ()
) -> Iterator[Finding]:
    """Yield findings about the settings of *host*, also in each of *projects*.

    *whole* are the files whose hooks of ours are verified to be ours.
    """
    settings = [*read_settings_files(host, projects)]
    kept_on = is_kept_on(host)
    for each in settings:
        if each.problem:
            yield _warning(f"not examined: {each.problem}")
        if each.origin == "project" and each.file.is_symlink():
            yield _warning(f"{each.file} is a symlink to {os.path.realpath(each.file)}")
        yield from _switches(host, each, kept_on=kept_on)
        yield from _environment(host, each)
    if (warning := switch_warning(host)) is not None:
        yield _warning(warning)
    yield from _counted_results(host, settings)
    for each in settings:
        yield from _foreign_hooks(host, each, is_compared=each.file in whole)
    yield from _foreign_programs(host, projects)
    yield from [_warning(f"blind spot: {each}") for each in dialect(host).facts.blind_spots]


def inspect_folder_trust(host: str, project: str) -> Iterator[Finding]:
    """Yield a finding if *host* requires trust in the folder *project*, and does not trust it."""
    trusted, folder = vendors()[host].trusted, host_folder(host)
    if trusted is None:
        return
    if (
        trusted.condition
        and _read(folder / "settings.json", "user").value_at(trusted.condition) is not True
    ):
        return
    listed = [each for file in trusted.files for each in _listed(folder / file, trusted.key)]
    if not any(Path(project).is_relative_to(each) for each in listed):
        text = f"{host} does not trust {project}, so it runs no hooks of it; start {host} there"
        yield Finding(severity="open", text=text)


def _listed(file: Path, key: str) -> Iterator[Path]:
    """Yield the trusted folders in *file*: a list at *key*, else names with a level of trust."""
    settings = _read(file, "user")
    if key:
        value = settings.value_at(key)
        names = value if isinstance(value, list) else ()
        yield from [Path(each) for each in names if isinstance(each, str)]
        return
    for each, trust in settings.value.items():
        if trust == "TRUST_FOLDER":
            yield Path(each)
        elif trust == "TRUST_PARENT":
            yield Path(each).parent


def is_kept_on(host: str) -> bool:
    """Return whether the machine's settings keep the hooks of *host* on, overriding projects.

    Unreadable settings do not.
    """
    managed = vendors()[host].managed
    if managed is None:
        return False
    values = [
        each.value_at(managed.key)
        for each in read_settings_files(host, ())
        if each.origin == "machine"
    ]
    return managed.on in values and (not managed.on) not in values


def switch_warning(host: str) -> str | None:
    """Return the warning that a project can switch the hooks of *host* off; None if it cannot."""
    managed = vendors()[host].managed
    if managed is None or is_kept_on(host):
        return None
    return (
        f"a project can switch the hooks of {dialect(host).facts.title} off by {managed.key} in "
        f"{managed.project_file}; `toolbus setup {host} --managed` prevents that"
    )


def _switches(host: str, settings: HostSettings, *, kept_on: bool) -> Iterator[Finding]:
    """Yield the settings that switch hooks off; with *kept_on* only the machine's own can."""
    vendor = vendors()[host]
    for key, value in vendor.off.items():
        if settings.value_at(key) is not value:
            continue
        if kept_on and settings.origin != "machine":
            text = f"{key} in {settings.file} has no effect: the machine keeps hooks on"
            yield Finding(severity="fact", text=text)
        else:
            text = f"hooks are switched off by {key} in {settings.file}; remove it"
            yield Finding(severity="open", text=text)
    names = settings.value_at(vendor.names_off) if vendor.names_off else ()
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str) and _names_us(host, name):
            text = f"{vendor.names_off} in {settings.file} names {_short(name)}"
            yield Finding(severity="open", text=f"our hooks are switched off: {text}")


def _names_us(host: str, name: str) -> bool:
    if host == "pi":
        return name[:1] in {"!", "-"} and ("toolbus" in name or name.endswith(("*", "*.ts")))
    return "toolbus" in name


def _environment(host: str, settings: HostSettings) -> Iterator[Finding]:
    """Yield the environment variables that *settings* pass to hooks, without their values."""
    for key in _ENVIRONMENTS:
        variables = settings.value_at(key)
        for name in variables if isinstance(variables, dict) else ():
            place = f"{key} in {settings.file} sets {_short(name)}"
            if _LOADED_INTO_US.fullmatch(name):
                text = f"{place}, which loads other code into every program that {host} starts"
                is_open = settings.origin == "project"
                yield Finding(severity="open" if is_open else "warning", text=text)
            elif _IDLE_FOR_US.fullmatch(name) and settings.origin == "project":
                yield Finding(severity="fact", text=f"{place}; our hooks ignore it")


def _counted_results(host: str, settings: Sequence[HostSettings]) -> Iterator[Finding]:
    """Yield the limits above which Claude Code uploads results for counting before any hook."""
    for variable, uncounted in HOSTS[host].variables.items():
        known = [each.value_at(f"env.{variable}") for each in settings if each.origin != "project"]
        if not any(
            re.fullmatch("[0-9]{1,18}", str(each)) and int(each) >= int(uncounted) for each in known
        ):
            yield _warning(
                f"Claude Code uploads results above a quarter of {variable} tokens for counting, "
                f'before any hook: set env.{variable} to "{uncounted}" in the user\'s settings'
            )


def _foreign_hooks(host: str, settings: HostSettings, *, is_compared: bool) -> Iterator[Finding]:
    """Yield other hooks for calls and results, which may rewrite them as ours do."""
    hooks, files = settings.value.get("hooks"), HOSTS[host]
    if files.form == "toml":
        pairs = [(str(hook.get("type")), hook) for hook in _dicts(hooks)]
    else:
        events = hooks if isinstance(hooks, dict) else {}
        pairs = [(event, group) for event, groups in events.items() for group in _dicts(groups)]
    for event, group in pairs:
        for hook in _dicts(group.get("hooks", [group])) if event in files.tool_events else ():
            # In a file that was not compared a hook may only look like ours.
            if not (is_compared and is_ours(hook, host)):
                name = hook.get("command") or hook.get("bash") or hook.get("url") or "a hook"
                yield _foreign(host, event, settings.file, str(name))


def _foreign_programs(host: str, projects: Sequence[Path]) -> Iterator[Finding]:
    """Yield other programs that run in the process of *host*, beside our bridge."""
    vendor, ours = vendors()[host], Path(HOSTS[host].user).name
    for folder in (host_folder(host), *[each / vendor.program_folder for each in projects]):
        for pattern in vendor.programs:
            for file in sorted(folder.glob(pattern)):
                if file.name != ours:
                    yield _foreign(host, "all", file, file.name)


def _foreign(host: str, event: str, file: Path, name: str) -> Finding:
    text = f"another hook for {event} in {file}: {_short(name)}"
    if HOSTS[host].form in {"toml", "bridge"}:
        return _warning(f"{text}; both run in turn, and the last one decides")
    if event == HOSTS[host].tool_events[0]:
        return _warning(f"{text}; both get the original call, and if both rewrite it, one is lost")
    return _warning(
        f"{text}; both get the original result, and if both replace it, the model reads either: "
        "let one command run both"
    )


# --- files of settings ---------------------------------------------------------------------------


def read_settings_files(host: str, projects: Sequence[Path]) -> Iterator[HostSettings]:
    """Yield the content of each existing settings file of *host*."""
    vendor = vendors()[host]
    for pattern in vendor.user:
        yield from _read_all(host_folder(host).glob(pattern), "user")
    for pattern in vendor.project:
        yield from _read_all({file for each in projects for file in each.glob(pattern)}, "project")
    for pattern in vendor.machine:
        place = Path(on_this_system(pattern))
        yield from _read_all(place.parent.glob(place.name), "machine")


def on_this_system(path: str) -> str:
    """Return the path on this system of the machine's file *path* on Linux."""
    if sys.platform == "darwin":
        for folder, other in _MACOS.items():
            path = path.replace(folder, other)
    return path


def _read_all(files: Collection[Path] | Iterator[Path], origin: Origin) -> Iterator[HostSettings]:
    yield from [_read(file, origin) for file in sorted(files)]


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
        return HostSettings(file=file, origin=origin, problem=f"{file}: expected a JSON object")
    return HostSettings(file=file, origin=origin, value=value)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _warning(text: str) -> Finding:
    return Finding(severity="warning", text=text)


def _short(text: str) -> str:
    # The text may be hostile, and is printed on a terminal.
    text = sanitize(text)
    return repr(text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…")
