"""Text and JSON records of an installation of hooks: its plan, its state, and its findings."""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.hosts.dialects import dialect
from toolbus.settings.spans import Span, Style

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from toolbus.cli.output.screen import Screen
    from toolbus.hosts.doctor.findings import Finding, Severity
    from toolbus.hosts.install.plans import InstallPlan, SettingsEdit
    from toolbus.hosts.install.state import InstalledState

_MARKS: dict[Severity, tuple[str, Style]] = {
    "open": ("✗ open: ", "bad"),
    "broken": ("✗ broken: ", "bad"),
    "warning": ("! ", "changed"),
    "fact": ("✓ ", "good"),
}


class FileReport(Struct, frozen=True, kw_only=True):
    """The change of a file: the lines *added*, all ours; its other lines may be secret.

    *real* is its real path. *taken_out* says that lines of ours go, *removed* that the whole file
    does.
    """

    file: str
    real: str
    added: tuple[str, ...]
    taken_out: bool
    removed: bool


class PlanReport(Struct, frozen=True, kw_only=True):
    """The changes of an installation or removal for a host; *fault* is why nothing is judged."""

    host: str
    project: str | None
    script: str
    config: str | None
    files: tuple[FileReport, ...]
    notes: tuple[str, ...]
    written: bool
    fault: str | None = None


def file_report(edit: SettingsEdit) -> FileReport:
    """Return the change that *edit* makes."""
    return FileReport(
        file=str(edit.file.path),
        real=str(edit.file.real),
        added=edit.added if edit.is_change else (),
        taken_out=edit.is_change and not edit.added,
        removed=edit.after is None and edit.file.data is not None,
    )


def plan_report(plan: InstallPlan, fault: Finding | None, *, written: bool) -> PlanReport:
    """Return *plan* for programs; *fault* is of its protection."""
    return PlanReport(
        host=plan.host,
        project=None if plan.project is None else str(plan.project),
        script=str(plan.script),
        config=None if plan.settings is None else plan.settings.config,
        files=tuple([file_report(edit) for edit in plan.edits]),
        notes=plan.notes,
        written=written,
        fault=None if fault is None else fault.text,
    )


def show_plan(screen: Screen, plan: InstallPlan, fault: Finding | None, *, whole: bool) -> None:
    """Write the changes of *plan*, *whole* or a few lines a file; *fault* is of its protection."""
    screen.line(Span(f"{dialect(plan.host).facts.label}, {_owner(plan.project)}", "strong"))
    faults = [] if fault is None else [fault]
    if not plan.is_needed:
        text = "nothing of ours is there" if plan.settings is None else "installed already"
        screen.line(text, indent=2)
        show_faults(screen, faults)
        return
    for edit in plan.edits:
        show_edit(screen, edit, whole=whole)
    if plan.settings is not None:
        words = [plan.settings.python, "-I", "-S", str(plan.script), plan.host]
        screen.whole(f"they run {shlex.join(words)} EVENT", indent=2)
        usual = "your own, and after it the project's if you trust it"
        show_text(screen, f"configuration: {plan.settings.config or usual}", indent=2)
        show_faults(screen, faults)
        for note in plan.notes:
            show_text(screen, note, indent=2, style="changed")
    screen.line()


def show_edit(screen: Screen, edit: SettingsEdit, *, whole: bool) -> None:
    """Write the change of a file: each added line if *whole*, else a summary."""
    if not edit.is_change:
        return
    path, real = edit.file.path, edit.file.real
    target = "" if path == real else f" (a symlink to {real})"
    gone = " (the file goes)" if edit.after is None else ""
    new = " (new)" if edit.file.data is None else ""
    screen.whole(f"{path}{target}{gone}{new}", indent=2, style="strong")
    if not edit.added:
        ours = "our lines are taken out; all other lines stay"
        screen.line("all of it is ours" if edit.after is None else ours, indent=4)
    elif not whole:
        stay = "" if edit.file.data is None else "; all other lines stay"
        for text in (*edit.summary, f"{len(edit.added)} lines added{stay}"):
            show_text(screen, text, indent=4)
    elif edit.is_program:
        # A person need not read a program of ours from the first to the last line.
        screen.line(f"{len(edit.added)} lines, all of toolbus; see --json", indent=4)
    else:
        for line in edit.added:
            # Whole, however long: these are the commands that are run.
            screen.whole(f"+ {line}", indent=4, style="good")


def show_state(screen: Screen, state: InstalledState, *, titled: bool = True) -> None:
    """Write the state of one host, for the user or in a project."""
    # Presence, problems and a title each change the same line, so it is put together once.
    is_well = state.presence == "installed" and not state.problems
    word = "not installed" if state.presence == "absent" else state.presence
    style: Style = "good" if is_well else "bad"
    if state.presence == "absent" and not state.problems:
        style = "dim"
    title = f"{dialect(state.host).facts.label}, " if titled else ""
    screen.line(
        Span(f"{title}{_owner(state.project)}: ", "strong" if titled else ""),
        Span(f"{'✓ ' if is_well else ''}{word}", style),
        indent=0 if titled else 2,
    )
    screen.whole(state.file, indent=2 if titled else 4)
    if state.config is not None:
        screen.whole(f"configuration: {state.config}", indent=2)
    for problem in state.problems:
        show_text(screen, problem, indent=2, style="bad")


def show_findings(screen: Screen, findings: Iterable[Finding]) -> None:
    """Write *findings*, with a mark and a colour for each severity."""
    for finding in findings:
        mark, style = _MARKS[finding.severity]
        show_text(screen, f"{mark}{finding.text}", indent=2, style=style)


def show_faults(screen: Screen, faults: Iterable[Finding], *, indent: int = 2) -> None:
    """Write why nothing is judged."""
    for fault in faults:
        show_text(screen, f"✗ {fault.text}", indent=indent, style="bad")


def show_text(screen: Screen, text: str, *, indent: int = 0, style: Style = "") -> None:
    """Write *text* over as many lines as it takes, its paths and commands unbroken."""
    width = screen.width - indent
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
        screen.whole(line, indent=indent, style=style)


def _owner(project: Path | str | None) -> str:
    return "for you" if project is None else f"in {project}"
