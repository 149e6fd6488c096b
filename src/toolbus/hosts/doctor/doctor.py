"""`toolbus doctor`: what works in each host that is found, what does not, and the way out."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.errors import ConfigurationError, StoreError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.codex_inspection import inspect_codex_trust
from toolbus.hosts.doctor.deliveries import ComponentDelivery, component_deliveries
from toolbus.hosts.doctor.host_programs import program_version
from toolbus.hosts.doctor.host_settings import read_host_settings
from toolbus.hosts.doctor.inspections import Finding, inspect_settings
from toolbus.hosts.doctor.trials import inspect_trial
from toolbus.hosts.doctor.trust_inspection import inspect_folder_trust
from toolbus.hosts.doctor.worker_inspection import inspect_workers
from toolbus.hosts.install.host_files import HOSTS, host_files, project_folder
from toolbus.hosts.install.state import InstalledState, install_again, installed_state
from toolbus.hosts.run.hook_sessions import read_session_folders
from toolbus.hosts.run.hook_settings import default_store
from toolbus.hosts.run.protection import (
    ConfigurationReport,
    configuration_here,
    protection_fault,
)
from toolbus.hosts.run.required_configuration import required_now
from toolbus.hosts.run.unseen_texts import UNSEEN_TEXTS
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.store.opening import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.config.loading import LoadedTarget
    from toolbus.hosts.doctor.inspections import Severity


_MOST_FOLDERS = 200
"""Folders of earlier sessions whose settings are looked into."""


class HostReport(Struct, frozen=True, kw_only=True):
    """How it stands with a host.

    Args:
        host: the dialect's name.
        title: what its makers call it.
        program: where its program is; None if it is not on the PATH.
        version: what that says of itself.
        states: our hooks, the user's and the project's.
        findings: what was found out.
        deliveries: for each component what reaches the model.
    """

    host: str
    title: str
    program: str | None
    version: str | None
    states: tuple[InstalledState, ...]
    findings: tuple[Finding, ...] = ()
    deliveries: tuple[ComponentDelivery, ...] = ()


class DoctorReport(Struct, frozen=True, kw_only=True):
    """All that was found out in the current folder."""

    configuration: ConfigurationReport
    hosts: tuple[HostReport, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing is open that was promised closed, and nothing is broken."""
        findings = [*self.configuration.findings, *[f for h in self.hosts for f in h.findings]]
        return not any(finding.severity in {"open", "broken"} for finding in findings)


def examine(hosts: Sequence[str], *, sends: bool = True) -> DoctorReport:
    """Return how it stands with *hosts*, by default with all that are found or installed.

    With *sends* made-up events go through the hooks. Raises `LoadError` for a host that is none.
    """
    for host in hosts:
        host_files(host)
    in_force = configuration_here(None)
    reports = [_examine(host, in_force, sends=sends) for host in hosts or HOSTS]
    shown = [
        report
        for report in reports
        if hosts or report.program or any(each.presence != "absent" for each in report.states)
    ]
    return DoctorReport(configuration=in_force[1], hosts=tuple(shown))


def _examine(
    host: str, in_force: tuple[LoadedTarget | None, ConfigurationReport], *, sends: bool
) -> HostReport:
    here, root = Path(os.path.realpath(Path.cwd())), project_folder()
    findings: list[Finding] = []
    program = _program(host, root, findings)
    states = _states(host, root, findings)
    installed = [state for state in states if state.presence != "absent"]
    if not installed:
        return _report(host, program, states, findings, ())
    if len(installed) > 1:
        text = f"installed for you and in {root}: every event is judged twice; take out one"
        findings.append(Finding(severity="warning", text=text))
    folders = tuple(dict.fromkeys([here, root, *_session_folders(host, findings)]))
    whole = [Path(state.file) for state in installed if state.presence == "installed"]
    findings += inspect_settings(host, read_host_settings(host, folders), folders, whole)
    unseen = UNSEEN_TEXTS.get(host, ())
    findings += [Finding(severity="warning", text=f"not seen: {each}") for each in unseen]
    deliveries: tuple[ComponentDelivery, ...] = ()
    for state in installed:
        named, report = in_force
        if state.config is not None:
            named, report = configuration_here(state.config)
            findings += report.findings
        findings += _examine_protection(state, named, report)
        if named is not None:
            deliveries = component_deliveries(named, dialect(host).abilities)
        if host == "codex":
            findings += inspect_codex_trust(program, state, here)
        if state.project is not None:
            findings += inspect_folder_trust(host, state.project)
        findings += _examine_client(state, here, named, sends=sends)
    return _report(host, program, states, findings, deliveries)


def _session_folders(host: str, findings: list[Finding]) -> list[Path]:
    """Return where the latest sessions of *host* began that its hooks were told of."""
    try:
        if not (store := default_store()).exists():
            return []
        with open_reader(store, live=True) as reader:
            return read_session_folders(reader, host)[-_MOST_FOLDERS:]
    except (StoreError, RuntimeError) as error:
        text = f"the folders of earlier sessions are not looked into: {error}"
        findings.append(Finding(severity="warning", text=text))
        return []


def _examine_protection(
    state: InstalledState, loaded: LoadedTarget | None, report: ConfigurationReport
) -> Iterator[Finding]:
    """Yield that nothing judges the events of *state*, or that their loss would be open."""
    fault = protection_fault(state.host, state.required, loaded, report)
    if fault is not None and fault not in report.findings:
        yield fault
    if (
        fault is None
        and state.required is None
        and (required := required_now(state.config)) is not None
    ):
        text = f"the hooks were installed before {required}: without it everything would pass"
        yield Finding(severity="warning", text=f"{text}; {install_again(state)}")


def _program(host: str, project: Path, findings: list[Finding]) -> str | None:
    """Return where the program of *host* is; one that a *project* brings is told, and not run."""
    program = which(HOSTS[host].program)
    if program is None or not Path(os.path.realpath(program)).is_relative_to(project):
        return program
    text = f"{program} is the project's, so it is not run; its version is not known"
    findings.append(Finding(severity="warning", text=text))
    return None


def _states(host: str, root: Path, findings: list[Finding]) -> list[InstalledState]:
    states: list[InstalledState] = []
    for project in (None,) if root == Path.home().resolve() else (None, root):
        try:
            states.append(installed_state(host, project))
        except ConfigurationError as error:
            findings.append(Finding(severity="warning", text=f"not looked into: {error}"))
    return states


def _examine_client(
    state: InstalledState, folder: Path, loaded: LoadedTarget | None, *, sends: bool
) -> Iterator[Finding]:
    """Yield what is wrong with what the hooks of *state* run, and with its answers."""
    severity: Severity = "broken" if state.presence == "broken" else "open"
    for problem in state.problems:
        yield Finding(severity=severity, text=problem)
    if state.presence == "broken" or state.script is None:
        return
    if sends:
        yield from inspect_trial(state, folder, redacts=_redacts(loaded))
    yield from inspect_workers(state)


def _report(
    host: str,
    program: str | None,
    states: Sequence[InstalledState],
    findings: Sequence[Finding],
    deliveries: tuple[ComponentDelivery, ...],
) -> HostReport:
    return HostReport(
        host=host,
        title=dialect(host).title,
        program=program,
        version=None if program is None else program_version(program),
        states=tuple(states),
        findings=tuple(dict.fromkeys(findings)),
        deliveries=deliveries,
    )


def _redacts(loaded: LoadedTarget | None) -> bool:
    """Tell whether a component looks for secrets in the results of all tools."""
    if loaded is None or loaded.configuration is None:
        return False
    return any(
        isinstance(each.component, RedactSecrets) and each.entry.tools == ("*",)
        for each in loaded.configuration.configured
    )
