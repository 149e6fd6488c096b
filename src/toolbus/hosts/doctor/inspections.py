"""What in the settings of a host ends or weakens what our hooks promise."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from toolbus.hosts.doctor.host_settings import ForeignHook, programs_beside
from toolbus.hosts.install.host_files import HOSTS, is_ours
from toolbus.hosts.install.managed_settings import is_kept_on, switch_warning, value_at
from toolbus.settings.spans import sanitize

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from toolbus.hosts.doctor.host_settings import HostSettings

Severity: TypeAlias = Literal["open", "broken", "warning", "fact"]
"""Something passes that was promised to be stopped; everything is stopped; something to know that
a person can change; something that is so."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was found out, worded for a person, with the way out."""

    severity: Severity
    text: str


_SWITCHES: dict[str, tuple[tuple[tuple[str, ...], Any], ...]] = {
    "claude-code": ((("disableAllHooks",), True), (("allowManagedHooksOnly",), True)),
    "codex": (
        (("features", "hooks"), False),
        (("features", "codex_hooks"), False),
        (("allow_managed_hooks_only",), True),
    ),
    "copilot": ((("disableAllHooks",), True),),
    "gemini-cli": (
        (("hooksConfig", "enabled"), False),
        (("hooks", "enabled"), False),
        (("tools", "enableHooks"), False),
    ),
}
"""By host what switches all hooks off: a path into its settings, and the value that does it."""

_NAMES_SWITCHED_OFF = {
    "copilot": ("disabledHooks",),
    "gemini-cli": ("hooksConfig", "disabled"),
    "pi": ("extensions",),
}
"""By host where single hooks or programs are switched off by their names."""

_LOADED_INTO_US = re.compile(r"(?:LD|DYLD)_[A-Z_]+|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|GLIBC_\w+")
"""Variables by which somebody gets code into any program, ours too."""
_IDLE_FOR_US = re.compile(
    r"PYTHON\w*|PATH|NODE_\w+|HOME|XDG_\w+|TOOLBUS_\w+|VIRTUAL_ENV"
    r"|CLAUDE_CODE_SHELL\w*"
)
"""Variables that would change other hooks; ours takes nothing from them."""

_COUNTING = {
    "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS": "files",
    "MAX_MCP_OUTPUT_TOKENS": "results of MCP servers",
}
"""What is compared with the variables that `HOSTS` has for Claude Code."""

_UNTOLD = (
    "what a command has written while it still runs goes to the model as it is: Codex tells hooks "
    "of a command once, when it has ended (version 0.169.0)"
)

_WIDTH = 80


def inspect_settings(
    host: str,
    settings: Sequence[HostSettings],
    projects: Sequence[Path],
    whole: Collection[Path] = (),
) -> Iterator[Finding]:
    """Yield what the *settings* of *host* do to hooks of ours that are installed.

    *whole* are the files in which what looks like ours is ours: it was compared.
    """
    kept_on = is_kept_on(host)
    for each in settings:
        if each.problem:
            yield Finding(severity="warning", text=f"not looked into: {each.problem}")
        if each.origin == "project" and each.file.is_symlink():
            text = f"{each.file} is a symlink to {os.path.realpath(each.file)}"
            yield Finding(severity="warning", text=text)
        yield from _switches(host, each, kept_on=kept_on)
        yield from _environment(host, each)
    if (warning := switch_warning(host)) is not None:
        yield Finding(severity="warning", text=warning)
    if host == "claude-code":
        yield from _counted_results(settings)
    if host == "codex":
        yield Finding(severity="warning", text=_UNTOLD)
    for hook in _foreign_hooks(host, settings, projects, whole):
        yield Finding(severity="warning", text=_worded(host, hook))


def _switches(host: str, settings: HostSettings, *, kept_on: bool) -> Iterator[Finding]:
    """Yield what switches hooks off; a project does so, too, unless the machine has *kept_on*."""
    for path, value in _SWITCHES.get(host, ()):
        if value_at(settings.value, path) is value:
            name = ".".join(path)
            if kept_on and settings.origin != "machine":
                text = f"{name} in {settings.file} has no effect: the machine keeps hooks on"
                yield Finding(severity="fact", text=text)
            else:
                text = f"hooks are switched off: {name} in {settings.file}; take that out"
                yield Finding(severity="open", text=text)
    if host not in _NAMES_SWITCHED_OFF:
        return
    names = value_at(settings.value, _NAMES_SWITCHED_OFF[host])
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str) and _names_us(host, name):
            place = ".".join(_NAMES_SWITCHED_OFF[host])
            text = f"our hooks are switched off: {place} in {settings.file} names {_short(name)}"
            yield Finding(severity="open", text=text)


def _names_us(host: str, name: str) -> bool:
    if host == "pi":
        return name[:1] in {"!", "-"} and ("toolbus" in name or name.endswith(("*", "*.ts")))
    return "toolbus" in name


def _environment(host: str, settings: HostSettings) -> Iterator[Finding]:
    """Yield the variables that *settings* give to hooks; Claude Code and Codex have such."""
    for path in (("env",), ("shell_environment_policy", "set")):
        variables = value_at(settings.value, path)
        for name in variables if isinstance(variables, dict) else ():
            place = f"{'.'.join(path)} in {settings.file} sets {_short(name)}"
            if _LOADED_INTO_US.fullmatch(name):
                text = f"{place}, which loads other code into every program that {host} starts"
                severity: Severity = "open" if settings.origin == "project" else "warning"
                yield Finding(severity=severity, text=text)
            elif _IDLE_FOR_US.fullmatch(name) and settings.origin == "project":
                yield Finding(severity="fact", text=f"{place}; our hooks take nothing from it")


def _counted_results(settings: Sequence[HostSettings]) -> Iterator[Finding]:
    """Yield which large results Claude Code sends away, to have them counted, before any hook."""
    known = [value_at(each.value, ("env",)) for each in settings if each.origin != "project"]
    for variable, uncounted in HOSTS["claude-code"].variables.items():
        what = _COUNTING[variable]
        values = [str(env.get(variable)) for env in known if isinstance(env, dict)]
        if not any(value.isdecimal() and int(value) >= int(uncounted) for value in values):
            text = (
                f"{what} of more than a quarter of {variable} go to the model's server before any "
                f'hook, to be counted: set env.{variable} to "{uncounted}" in the user\'s settings'
            )
            yield Finding(severity="warning", text=text)


def _foreign_hooks(
    host: str, settings: Sequence[HostSettings], projects: Sequence[Path], whole: Collection[Path]
) -> Iterator[ForeignHook]:
    """Yield the hooks of others for calls and results, where they may rewrite as ours do."""
    for each in settings:
        hooks = each.value.get("hooks")
        if HOSTS[host].form == "toml":
            pairs = [(str(hook.get("type")), hook) for hook in _dicts(hooks)]
        else:
            events = hooks if isinstance(hooks, dict) else {}
            pairs = [(event, group) for event, groups in events.items() for group in _dicts(groups)]
        for event, group in pairs:
            if event not in HOSTS[host].tool_events:
                continue
            for hook in _dicts(group.get("hooks", [group])):
                # In other files a hook may only look like ours.
                if each.file not in whole or not is_ours(hook, host):
                    what = hook.get("command") or hook.get("bash") or hook.get("url") or "a hook"
                    origin = each.origin
                    yield ForeignHook(file=each.file, origin=origin, event=event, what=str(what))
    yield from programs_beside(host, projects)


def _worded(host: str, hook: ForeignHook) -> str:
    which = f"another hook for {hook.event} in {hook.file}: {_short(hook.what)}"
    if HOSTS[host].form in {"toml", "bridge"}:
        return f"{which}; both run in turn, and the last one has the last word"
    if hook.event in HOSTS[host].tool_events[:1]:
        return f"{which}; both see the call as it came, and one of two rewritings is lost"
    return (
        f"{which}; both see the original, and if both replace it, chance decides which the model "
        "reads: let one command run both"
    )


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _short(text: str) -> str:
    # Whoever wrote it chose what stands in a person's terminal.
    text = sanitize(text)
    return repr(text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…")
