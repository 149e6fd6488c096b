"""The configuration that judges a host's events: the active one, and the one at installation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.config.configuration import read_for_session
from toolbus.config.targets import LoadedTarget, install, load_configuration
from toolbus.config.trust import effective_config, find_or_missed
from toolbus.errors import LoadError, ToolbusError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.deliveries import component_deliveries
from toolbus.hosts.doctor.findings import Finding
from toolbus.hosts.run.required_configuration import missing_required
from toolbus.redaction.redact_personal_data import RedactPersonalData
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.settings.spans import sanitize
from toolbus.settings.user_folders import value_key_file
from toolbus.settings.user_key import UserKeyError, check_user_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.config.configuration import Configuration


class ConfigurationReport(Struct, frozen=True, kw_only=True):
    """The configuration that judges the events here.

    Args:
        file: the active configuration; None without one.
        components: the names of its components, in the order of installation.
        findings: the problems of the configuration.
    """

    file: str | None
    components: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def configuration_here(file: str | None) -> tuple[LoadedTarget | None, ConfigurationReport]:
    """Load the configuration *file*, else the one that hooks find here; return it with a report."""
    refusal = ""
    try:
        if file is not None:
            loaded: LoadedTarget | None = load_configuration(file)
        else:
            project = find_or_missed(Path(os.path.realpath(Path.cwd())))
            read = read_for_session(project)
            loaded = None if read is None else install(read)
            refusal = (
                "" if project is None or loaded is not None else effective_config(project).refusal
            )
    except (LoadError, ToolbusError) as error:
        text = sanitize(f"every event is blocked: {error}")
        broken = Finding(severity="broken", text=text)
        return None, ConfigurationReport(file=file, findings=(broken,))
    if loaded is None or loaded.configuration is None:
        text = "no configuration is active here; write one: toolbus setup"
        missing = Finding(severity="warning", text=text)
        return None, ConfigurationReport(file=None, findings=(missing, *_refusals(refusal)))
    configuration = loaded.configuration
    findings = [*_refusals(configuration.refusal), *_unknown_values(configuration)]
    return loaded, ConfigurationReport(
        file=str(configuration.file),
        components=tuple([each.entry.name for each in configuration.configured]),
        findings=tuple(findings),
    )


def protection_fault(
    host: str,
    required: str | None,
    loaded: LoadedTarget | None,
    report: ConfigurationReport,
) -> Finding | None:
    """Return why hooks of *host* judge nothing, or block everything; None if they judge.

    *loaded* and *report* belong to their configuration, *required* is the one that their
    installation recorded.
    """
    broken = [each for each in report.findings if each.severity == "broken"]
    if broken:
        return broken[0]
    configuration = None if loaded is None else loaded.configuration
    if reason := missing_required(required, configuration):
        return Finding(severity="broken", text=f"every event is blocked: {reason}")
    if loaded is not None and _judges(host, loaded):
        return None
    why = "no configuration is active here"
    if report.file is not None:
        why = f"{report.file} names no component that judges"
    text = f"nothing is judged yet, so every call and every result passes: {why}"
    return Finding(severity="open", text=f"{text}; run: toolbus setup {host}")


def _judges(host: str, loaded: LoadedTarget) -> bool:
    deliveries = component_deliveries(loaded, dialect(host).facts)
    return any(each.delivered or each.mcp_only or each.commands_only for each in deliveries)


def _refusals(refusal: str) -> Iterator[Finding]:
    if refusal:
        yield Finding(severity="warning", text=refusal)


def _unknown_values(configuration: Configuration) -> Iterator[Finding]:
    """Yield why redacted values are not recognized again, which a hook itself cannot report."""
    kinds = RedactSecrets, RedactPersonalData
    hides = any(isinstance(each.component, kinds) for each in configuration.configured)
    if not hides or configuration.approvals.key is not None:
        return
    try:
        check_user_key(value_key_file())
    except (UserKeyError, RuntimeError) as error:
        text = "each process gives a redacted value a new placeholder, and asks about it again"
        yield Finding(severity="warning", text=sanitize(f"{text}: {error}"))
