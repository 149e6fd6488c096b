"""The files in which each host keeps its hooks, and the form of a hook in them: `hosts.toml`."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, convert

from toolbus.config.documents import repository_of
from toolbus.hosts.dialects import dialect, no_such_host

Form: TypeAlias = Literal["groups", "entries", "toml", "bridge"]


class HostFiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about a host for an installation; `hosts.toml` explains their names."""

    host: str
    program: str
    folder: str
    user: str
    project: str
    is_committed: bool = True
    form: Form
    variable: str = ""
    below: str = ""
    matcher: Mapping[str, str] = {}
    group: Mapping[str, Any] = {}
    hook: Mapping[str, Any] = {}
    exceptions: Mapping[str, Mapping[str, Any]] = {}
    bridge: str = ""
    variables: Mapping[str, str] = {}
    note: str = ""
    project_note: str = ""

    @property
    def events(self) -> tuple[str, ...]:
        """The events for which our command is installed: all of the dialect."""
        return tuple(dialect(self.host).facts.kinds)

    @property
    def tool_events(self) -> tuple[str, ...]:
        """The events of calls, results and failures, the event of a call first."""
        kinds = dialect(self.host).facts.kinds
        return tuple([event for event, kind in kinds.items() if kind in {"call", "result"}])


_TABLES = tomllib.loads(Path(__file__).with_name("hosts.toml").read_text("utf-8"))
HOSTS: Mapping[str, HostFiles] = {
    host: convert({"host": host, **table}, HostFiles) for host, table in _TABLES.items()
}
"""The facts about each host by the name of its dialect."""


def host_files(host: str) -> HostFiles:
    """Return the facts about *host*; raises `LoadError` for an unknown one."""
    if host not in HOSTS:
        raise no_such_host(host, HOSTS)
    return HOSTS[host]


def untested_notice(host: str) -> str:
    """Return the sentence that *host* is known from its documentation only."""
    title = dialect(host).facts.title
    return f"{title} is untested: the integration follows its documentation, and was never run"


def host_folder(host: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's settings of *host*; raises `RuntimeError` without a home."""
    files = HOSTS[host]
    base = environ.get(files.variable, "") if files.variable else ""
    return Path(base) / files.below if base.startswith("/") else Path.home() / files.folder


def hooks_file(host: str, project: Path | None = None) -> Path:
    """Return the file with the hooks of *host*, the user's or the one in the folder *project*."""
    files = HOSTS[host]
    return host_folder(host) / files.user if project is None else project / files.project


def project_folder() -> Path:
    """Return the real root of the repository around the current folder, else the current folder."""
    here = Path(os.path.realpath(Path.cwd()))
    return repository_of(here) or here


def hook_entry(host: str, event: str, command: str) -> dict[str, Any]:
    """Return the entry for *command* in the JSON or TOML of *host*, below its *event*."""
    files = HOSTS[host]
    values = {
        "{command}": command,
        "{event}": event,
        "{name}": f"toolbus-{event}-{sha256(command.encode()).hexdigest()[:12]}",
    }
    matcher = files.matcher if event in files.tool_events else {}
    hook = {**_filled(files.hook, values), **files.exceptions.get(event, {})}
    if files.form == "groups":
        return {**matcher, **files.group, "hooks": [hook]}
    return {**hook, **matcher}


def our_command(host: str) -> str:
    """Return a regular expression for commands that run our client for *host*."""
    return rf"toolbus/hooks/[\w.-]+/hook\.py'? {re.escape(host)} "


def is_ours(value: Any, host: str) -> bool:
    """Return whether *value*, a hook or a group of hooks in JSON or TOML, runs our client.

    Only its command counts, so hooks of an older toolbus and of another folder are ours, too.
    """
    match value:
        case str():
            return re.search(our_command(host), value) is not None
        case dict():
            names = ("command", "args", "bash", "hooks")
            return any(is_ours(value[name], host) for name in names if name in value)
        case list():
            return any(is_ours(item, host) for item in value)
    return False


def _filled(template: Any, values: Mapping[str, str]) -> Any:
    """Return *template* with the keys of *values* replaced by their values."""
    match template:
        case dict():
            return {name: _filled(each, values) for name, each in template.items()}
        case list():
            return [_filled(each, values) for each in template]
        case str():
            return values.get(template, template)
    return template
