"""`toolbus hosts`: show what is to be written, ask, write it; and how it stands."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.hosts.dialects import dialect
from toolbus.hosts.install.host_files import HOSTS, host_files, project_folder
from toolbus.hosts.install.install_plans import InstallPlan, plan_install, plan_removal
from toolbus.hosts.install.installed_state import InstalledState, installed_state
from toolbus.hosts.install.installing import apply_plan
from toolbus.hosts.install.plan_pages import (
    FileReport,
    agrees,
    file_report,
    is_needed,
    show_plan,
    show_text,
    text_of,
    whose,
)
from toolbus.hosts.run.protection import configuration_here, protection_fault
from toolbus.messages.records import encode
from toolbus.settings.spans import Span, Style
from toolbus.terminal.screen import UsageError, open_screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.hosts.doctor.inspections import Finding
    from toolbus.terminal.output import Output
    from toolbus.terminal.screen import Screen


class InstallOptions(Struct, frozen=True, kw_only=True):
    """How `install` and `uninstall` were called.

    Args:
        hosts: the hosts' names.
        project: whether it is about the project here, instead of the user.
        config: the configuration that is named to the hooks.
        yes: whether nobody is asked.
        dry_run: whether nothing is written.
        as_json: whether one JSON document is written, for programs.
    """

    hosts: tuple[str, ...]
    project: bool = False
    config: str | None = None
    yes: bool = False
    dry_run: bool = False
    as_json: bool = False


class PlanReport(Struct, frozen=True, kw_only=True):
    """The changes of an installation or its end for a host; *fault* is why nothing is judged."""

    host: str
    project: str | None
    script: str
    config: str | None
    files: tuple[FileReport, ...]
    notes: tuple[str, ...]
    written: bool
    fault: str | None = None


def run_install(output: Output, errors: Output, options: InstallOptions) -> int:
    """Install the hooks of all hosts that *options* name; return 0.

    1: the person refuses, or nothing is judged by the hooks. Raises `LoadError` and `UsageError`
    before anything is written.
    """
    project = _project(options)
    plans = [plan_install(host, project, options.config) for host in _unique(options)]
    loaded, report = configuration_here(plans[0].config)
    faults = [
        protection_fault(plan.host, plan.settings.required, loaded, report)
        for plan in plans
        if plan.settings is not None
    ]
    return _carry_out(output, errors, options, plans, faults)


def run_uninstall(output: Output, errors: Output, options: InstallOptions) -> int:
    """Take out what was installed; return and raise as `run_install`."""
    plans = [plan_removal(host, _project(options)) for host in _unique(options)]
    return _carry_out(output, errors, options, plans, [None] * len(plans))


def show_status(output: Output, hosts: Sequence[str], *, as_json: bool = False) -> int:
    """Print how it stands with each of *hosts*, all by default; return 1 if something is wrong."""
    for host in hosts:
        host_files(host)
    project = project_folder()
    states = [
        installed_state(host, folder)
        for host in hosts or HOSTS
        for folder in ((None,) if project == Path.home().resolve() else (None, project))
    ]
    states = _with_faults(states)
    code = 1 if any(state.problems for state in states) else 0
    if as_json:
        output.write(f"{encode(tuple(states)).decode()}\n")
        return code
    screen = open_screen(output)
    shown = [state for state in states if state.presence != "absent" or state.host in hosts]
    if not shown:
        screen.line("no hooks of toolbus are installed; see: toolbus hosts install --help")
    for state in shown:
        show_state(screen, state)
    return code


def _with_faults(states: Sequence[InstalledState]) -> list[InstalledState]:
    """Return *states*, with why nothing is judged among the problems of each."""
    here = cache(configuration_here)
    examined = []
    for state in states:
        problems = state.problems
        if state.presence != "absent":
            fault = protection_fault(state.host, state.required, *here(state.config))
            problems += () if fault is None else (fault.text,)
        examined.append(replace(state, problems=problems))
    return examined


def show_state(screen: Screen, state: InstalledState, *, titled: bool = True) -> None:
    """Write how it stands with one host, for the user or in a project."""
    styles: dict[str, Style] = {"installed": "good", "absent": "dim"}
    word = "not installed" if state.presence == "absent" else state.presence
    is_well = state.presence == "installed" and not state.problems
    mark = "✓ " if is_well else ""
    style: Style = styles.get(state.presence, "bad") if is_well or not state.problems else "bad"
    title = f"{dialect(state.host).title}, " if titled else ""
    screen.line(
        Span(f"{title}{whose(state.project)}: ", "strong" if titled else ""),
        Span(f"{mark}{word}", style),
        indent=0 if titled else 2,
    )
    screen.whole(state.file, indent=2 if titled else 4)
    if state.config is not None:
        screen.whole(f"configuration: {state.config}", indent=2)
    for problem in state.problems:
        show_text(screen, problem, indent=2, style="bad")


def _carry_out(
    output: Output,
    errors: Output,
    options: InstallOptions,
    plans: Sequence[InstallPlan],
    faults: Sequence[Finding | None],
) -> int:
    def page(screen: Screen, whole: bool) -> None:  # noqa: FBT001 - the one choice of a page
        for plan, fault in zip(plans, faults, strict=True):
            show_plan(screen, plan, fault, whole=whole)

    is_written = any(map(is_needed, plans)) and not options.dry_run
    if is_written and not options.yes:
        if not agrees(errors, page, as_json=options.as_json):
            errors.write("toolbus: nothing was written\n")
            return 1
    elif not options.as_json:
        page(open_screen(output), options.dry_run)
    for plan in plans:
        if is_written and is_needed(plan):
            apply_plan(plan)
    if options.as_json:
        reports = [
            plan_report(plan, fault, written=is_written)
            for plan, fault in zip(plans, faults, strict=True)
        ]
        output.write(f"{encode(tuple(reports)).decode()}\n")
    elif is_written:
        _show_end(open_screen(output), faults)
    return 1 if any(faults) else 0


def _show_end(screen: Screen, faults: Sequence[Finding | None]) -> None:
    screen.line(Span("✓ written", "good"))
    for fault in dict.fromkeys([fault for fault in faults if fault is not None]):
        show_text(screen, f"✗ {fault.text}", style="bad")


def plan_report(plan: InstallPlan, fault: Finding | None, *, written: bool) -> PlanReport:
    """Return *plan* for programs; *fault* is of its protection."""
    return PlanReport(
        host=plan.host,
        project=text_of(plan.project),
        script=str(plan.script),
        config=plan.config,
        files=tuple([file_report(edit) for edit in plan.edits]),
        notes=plan.notes,
        written=written,
        fault=None if fault is None else fault.text,
    )


def _project(options: InstallOptions) -> Path | None:
    if not options.project:
        return None
    project = project_folder()
    if project == Path.home().resolve():
        raise UsageError(f"{str(project)!r} is your home folder, no project; leave out --project")
    return project


def _unique(options: InstallOptions) -> list[str]:
    return list(dict.fromkeys(options.hosts))
