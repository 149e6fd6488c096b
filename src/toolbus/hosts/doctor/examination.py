"""The examination of `toolbus doctor`: the hooks of each host, their problems and ways out."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from toolbus.errors import ConfigurationError, StoreError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.codex_inspection import inspect_codex_trust
from toolbus.hosts.doctor.deliveries import ComponentDelivery, component_deliveries
from toolbus.hosts.doctor.findings import Finding
from toolbus.hosts.doctor.protection import (
    ConfigurationReport,
    configuration_here,
    protection_fault,
)
from toolbus.hosts.doctor.trials import inspect_trial
from toolbus.hosts.doctor.vendors import inspect_folder_trust, inspect_settings
from toolbus.hosts.install.host_files import HOSTS, host_files, project_folder, untested_notice
from toolbus.hosts.install.state import InstalledState, install_again, installed_state
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.hook_sessions import read_session_folders
from toolbus.hosts.run.requests import default_store
from toolbus.hosts.run.required_configuration import required_now
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.settings.private_files import is_private, lock_file, try_lock
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.config.targets import LoadedTarget

    Loaded: TypeAlias = tuple[LoadedTarget | None, ConfigurationReport]
    """A configuration, and the report about it."""

_MOST_FOLDERS = 200
"""The most folders of earlier sessions whose settings are examined."""
_WAIT = 20
"""Seconds for a program to print its version."""
_VERSION = re.compile(rb"\d+\.\d+(?:[.+-]?\w+)*")
_DIGITS = 16
"""The digits of the settings' digest at the beginning of a socket's name."""


class HostReport(Struct, frozen=True, kw_only=True):
    """The state of a host.

    Args:
        host: the dialect's name.
        title: the vendor's name of the host.
        program: the path of its program; None if it is not on the PATH.
        version: the version that the program prints.
        states: the states of our hooks, for the user and for the project.
        findings: the findings about the hooks.
        deliveries: the abilities that each component gets.
    """

    host: str
    title: str
    program: str | None
    version: str | None
    states: tuple[InstalledState, ...]
    findings: tuple[Finding, ...] = ()
    deliveries: tuple[ComponentDelivery, ...] = ()


class DoctorReport(Struct, frozen=True, kw_only=True):
    """The findings in the current folder."""

    configuration: ConfigurationReport
    hosts: tuple[HostReport, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether no finding is open or broken."""
        findings = [*self.configuration.findings, *[f for h in self.hosts for f in h.findings]]
        return not any(finding.severity in {"open", "broken"} for finding in findings)


def examine(hosts: Sequence[str] | None, *, sends: bool = True) -> DoctorReport:
    """Return the report on *hosts*; None: on all with a program or with our hooks.

    With *sends*, made-up events are sent through the hooks. Raises `LoadError` for an unknown host.
    """
    for host in hosts or ():
        host_files(host)
    in_force = configuration_here(None)
    reports = [
        _examine(host, in_force, sends=sends) for host in (HOSTS if hosts is None else hosts)
    ]
    shown = [
        report
        for report in reports
        if hosts or report.program or any(each.presence != "absent" for each in report.states)
    ]
    return DoctorReport(configuration=in_force[1], hosts=tuple(shown))


def _examine(host: str, in_force: Loaded, *, sends: bool) -> HostReport:
    here, root = Path(os.path.realpath(Path.cwd())), project_folder()
    program, of_program = _program(host, root)
    states, of_states = _states(host, root)
    installed = [state for state in states if state.presence != "absent"]
    findings = [*of_program, *of_states]
    deliveries: tuple[ComponentDelivery, ...] = ()
    if installed:
        findings += _examine_settings(host, installed, here, root)
    for state in installed:
        loaded = in_force
        if state.config is not None:
            loaded = configuration_here(state.config)
            findings += loaded[1].findings
        findings += _examine_protection(state, loaded)
        if loaded[0] is not None:
            deliveries = component_deliveries(loaded[0], dialect(host).facts)
        if host == "codex":
            findings += inspect_codex_trust(program, state, here)
        if state.project is not None:
            findings += inspect_folder_trust(host, state.project)
        findings += _examine_client(state, here, loaded[0], sends=sends)
    return HostReport(
        host=host,
        title=dialect(host).facts.label,
        program=program,
        version=None if program is None else _program_version(program),
        states=tuple(states),
        findings=tuple(dict.fromkeys(findings)),
        deliveries=deliveries,
    )


# --- the host ------------------------------------------------------------------------------------


def _program(host: str, project: Path) -> tuple[str | None, list[Finding]]:
    """Return the path of the program of *host*; None with a warning if *project* contains it."""
    program = which(HOSTS[host].program)
    if program is None or not Path(os.path.realpath(program)).is_relative_to(project):
        return program, []
    text = f"{program} belongs to the project, so it is not run; its version is unknown"
    return None, [Finding(severity="warning", text=text)]


def _program_version(program: str) -> str | None:
    """Return the version that *program* prints; None if it prints none."""
    # In an empty folder: a project may configure programs.
    with tempfile.TemporaryDirectory(prefix="toolbus-") as folder:
        try:
            ended = subprocess.run(  # noqa: S603 - the person's own program
                [program, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=folder,
                check=False,
                timeout=_WAIT,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    match = _VERSION.search(ended.stdout + ended.stderr)
    return None if match is None else match[0].decode()


def _states(host: str, root: Path) -> tuple[list[InstalledState], list[Finding]]:
    """Return the states of our hooks for the user and in the project, and read errors."""
    states: list[InstalledState] = []
    findings: list[Finding] = []
    for project in (None,) if root == Path.home().resolve() else (None, root):
        try:
            states.append(installed_state(host, project))
        except ConfigurationError as error:
            findings.append(Finding(severity="warning", text=f"not examined: {error}"))
    return states, findings


def _examine_settings(
    host: str, installed: Sequence[InstalledState], here: Path, root: Path
) -> Iterator[Finding]:
    """Yield findings about the host's settings, here and in the folders of its sessions."""
    if not dialect(host).facts.version:
        yield Finding(severity="warning", text=untested_notice(host))
    if len(installed) > 1:
        text = f"installed for you and in {root}: every event is judged twice; uninstall one"
        yield Finding(severity="warning", text=text)
    folders = [here, root]
    try:
        if (store := default_store()).exists():
            with open_reader(store, live=True) as reader:
                folders += read_session_folders(reader, host)[-_MOST_FOLDERS:]
    except (StoreError, RuntimeError) as error:
        text = f"the folders of earlier sessions are not examined: {error}"
        yield Finding(severity="warning", text=text)
    whole = [Path(state.file) for state in installed if state.presence == "installed"]
    yield from inspect_settings(host, tuple(dict.fromkeys(folders)), whole)


# --- an installation -----------------------------------------------------------------------------


def _examine_protection(state: InstalledState, loaded: Loaded) -> Iterator[Finding]:
    """Yield that no component judges the events of *state*, or that none would be required."""
    fault = protection_fault(state.host, state.required, *loaded)
    if fault is not None:
        if fault not in loaded[1].findings:
            yield fault
        return
    if state.required is None and (required := required_now(state.config)) is not None:
        again = install_again(state.host, in_project=state.project is not None)
        text = f"the hooks were installed before {required}; if it is lost, everything passes"
        yield Finding(severity="warning", text=f"{text}; {again}")


def _examine_client(
    state: InstalledState, folder: Path, loaded: LoadedTarget | None, *, sends: bool
) -> Iterator[Finding]:
    """Yield findings about the client that the hooks of *state* run, and about its answers."""
    for problem in state.problems:
        is_broken = state.presence == "broken"
        yield Finding(severity="broken" if is_broken else "open", text=problem)
    if state.presence == "broken" or state.script is None:
        return
    if sends:
        yield from inspect_trial(state, folder, redacts=_redacts(loaded))
    yield _examine_workers(state, Path(state.script))


def _redacts(loaded: LoadedTarget | None) -> bool:
    """Return whether a component redacts secrets in the results of all tools."""
    if loaded is None or loaded.configuration is None:
        return False
    return any(
        isinstance(each.component, RedactSecrets) and each.entry.tools == ("*",)
        for each in loaded.configuration.configured
    )


def _examine_workers(state: InstalledState, script: Path) -> Finding:
    """Return the number of workers that run for the client of *state*, or why none is used.

    Without a worker each event is judged by a process of its own, so nothing here is open.
    """
    settings = hook_client.read_settings(str(script.parent / "settings"))
    folder = Path(os.fsdecode(settings[b"sockets"][0]))
    digest = os.fsdecode(settings[b"digest"][0])[:_DIGITS]
    if not os.path.lexists(folder):
        return Finding(severity="fact", text="no worker runs; the first event starts one")
    if not is_private(folder.lstat()):
        text = f"others have access to {str(folder)!r}, so no worker is used, and hooks are slow"
        return Finding(severity="warning", text=text)
    running = [lock.name for lock in folder.glob("*.lock") if _is_held(lock)]
    ours = [name for name in running if name.startswith(digest)]
    others = f", and {len(running) - len(ours)} with other settings" if running != ours else ""
    text = f"running workers of toolbus {state.version}: {len(ours)}{others}"
    return Finding(severity="fact", text=text)


def _is_held(lock: Path) -> bool:
    """Return whether a worker holds *lock*."""
    try:
        with lock_file(lock) as number:
            return not try_lock(number)
    except OSError:
        return False
