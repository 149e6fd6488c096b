"""`toolbus hosts`: show what is to be written, ask, write it; and how it stands."""

from __future__ import annotations

import textwrap
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.hosts.dialects import dialect
from toolbus.hosts.edit_lines import ChangedLine, changed_lines
from toolbus.hosts.edit_targets import BRIDGE_MARK
from toolbus.hosts.host_files import HOSTS, host_files, project_folder
from toolbus.hosts.install_plans import InstallPlan, plan_install, plan_removal
from toolbus.hosts.installed_state import InstalledState, installed_state
from toolbus.hosts.installing import apply_plan, needs_client
from toolbus.messages.records import encode
from toolbus.terminal.output import Output
from toolbus.terminal.person import person_terminal
from toolbus.terminal.person_pages import show_whole
from toolbus.terminal.screen import UsageError, open_screen
from toolbus.terminal.spans import Span, Style

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        filter_shell: whether shell commands write into a filter.
    """

    hosts: tuple[str, ...]
    project: bool = False
    config: str | None = None
    yes: bool = False
    dry_run: bool = False
    as_json: bool = False
    filter_shell: bool = False


class FileReport(Struct, frozen=True, kw_only=True):
    """What becomes of a file; *real* is where it is, *removed* whether it goes as a whole."""

    file: str
    real: str
    removed: bool
    lines: tuple[ChangedLine, ...]


class PlanReport(Struct, frozen=True, kw_only=True):
    """What an installation or its end writes for a host."""

    host: str
    project: str | None
    script: str
    config: str | None
    files: tuple[FileReport, ...]
    notes: tuple[str, ...]
    written: bool


def run_install(output: Output, errors: Output, options: InstallOptions) -> int:
    """Install the hooks of all hosts that *options* name; return 0, 1 if the person refuses.

    Raises `LoadError` and `UsageError` before anything is written.
    """
    project = _project(options)
    plans = [
        plan_install(host, project, options.config, filter_shell=options.filter_shell)
        for host in _unique(options)
    ]
    return _carry_out(output, errors, options, plans, "installed already")


def run_uninstall(output: Output, errors: Output, options: InstallOptions) -> int:
    """Take out what was installed; return and raise as `run_install`."""
    plans = [plan_removal(host, _project(options)) for host in _unique(options)]
    return _carry_out(output, errors, options, plans, "nothing of ours is there")


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


def show_state(screen: Screen, state: InstalledState, *, titled: bool = True) -> None:
    """Write how it stands with one host, for the user or in a project."""
    styles: dict[str, Style] = {"installed": "good", "absent": "dim"}
    word = "not installed" if state.presence == "absent" else state.presence
    mark = "✓ " if state.presence == "installed" else ""
    title = f"{dialect(state.host).title}, " if titled else ""
    screen.line(
        Span(f"{title}{_whose(state.project)}: ", "strong" if titled else ""),
        Span(f"{mark}{word}", styles.get(state.presence, "bad")),
        indent=0 if titled else 2,
    )
    screen.whole(state.file, indent=2 if titled else 4)
    if state.config is not None:
        screen.whole(f"configuration: {state.config}", indent=2)
    for problem in state.problems:
        show_text(screen, problem, indent=2, style="bad")


def show_text(screen: Screen, text: str, *, indent: int = 0, style: Style = "") -> None:
    """Write *text* over as many lines as it takes, its paths and commands whole."""
    lines = textwrap.wrap(
        text, screen.width - indent, break_long_words=False, break_on_hyphens=False
    )
    for line in lines:
        screen.whole(line, indent=indent, style=style)


def _carry_out(
    output: Output,
    errors: Output,
    options: InstallOptions,
    plans: Sequence[InstallPlan],
    nothing: str,
) -> int:
    is_needed = any(_is_needed(plan) for plan in plans)
    is_written = is_needed and not options.dry_run
    if is_written and not options.yes:
        if not _agrees(errors, options, plans, nothing):
            errors.write("toolbus: nothing was written\n")
            return 1
    elif not options.as_json:
        _show_plans(output, plans, nothing)
    for plan in plans:
        if is_written and _is_needed(plan):
            apply_plan(plan)
    if options.as_json:
        reports = tuple([_report(plan, written=is_written) for plan in plans])
        output.write(f"{encode(reports).decode()}\n")
    elif is_written:
        open_screen(output).line(Span("✓ written", "good"))
    return 0


def _show_plans(output: Output, plans: Sequence[InstallPlan], nothing: str) -> None:
    screen = open_screen(output)
    for plan in plans:
        _show_plan(screen, plan, nothing)


def _show_plan(screen: Screen, plan: InstallPlan, nothing: str) -> None:
    title = dialect(plan.host).title
    screen.line(Span(f"{title}, {_whose(_text(plan.project))}", "strong"))
    if not _is_needed(plan):
        screen.line(nothing, indent=2)
        return
    for report in _files(plan):
        leads = "" if report.real == report.file else f" (a symlink to {report.real})"
        gone = " (the file goes)" if report.removed else ""
        if report.lines or report.removed:
            screen.whole(f"{report.file}{leads}{gone}", indent=2, style="strong")
        if report.lines and report.lines[0].text == BRIDGE_MARK.rstrip():
            # A person need not read what is ours from the first to the last line.
            screen.line(f"    {len(report.lines)} lines, all of toolbus; see --json", indent=2)
            continue
        for line in report.lines:
            # Whole, however long: it is the commands that a person has to read.
            text = f"{line.number:5} {line.sign} {line.text}"
            screen.whole(text, style="good" if line.sign == "+" else "bad")
    if plan.settings is not None:
        screen.whole(f"they run {plan.script}", indent=2)
        config = plan.config or "your own, and behind it that of a project that you trust"
        show_text(screen, f"configuration: {config}", indent=2)
        for note in plan.notes:
            show_text(screen, note, indent=2, style="changed")
    screen.line()


def _is_needed(plan: InstallPlan) -> bool:
    return any(edit.is_change for edit in plan.edits) or needs_client(plan)


def _files(plan: InstallPlan) -> tuple[FileReport, ...]:
    return tuple(
        [
            FileReport(
                file=str(edit.file.path),
                real=str(edit.file.real),
                removed=edit.after is None and edit.file.data is not None,
                lines=changed_lines(edit.file.data, edit.after),
            )
            for edit in plan.edits
        ]
    )


def _report(plan: InstallPlan, *, written: bool) -> PlanReport:
    return PlanReport(
        host=plan.host,
        project=_text(plan.project),
        script=str(plan.script),
        config=plan.config,
        files=_files(plan),
        notes=plan.notes,
        written=written,
    )


def _agrees(
    errors: Output, options: InstallOptions, plans: Sequence[InstallPlan], nothing: str
) -> bool:
    """Show *plans* at the terminal to their end, wherever the output goes, and ask about them.

    Raises `UsageError` where nobody can be asked.
    """
    if options.as_json or not errors.is_terminal:
        raise UsageError("nothing was written: nobody can be asked here; add --yes")
    text = StringIO()
    _show_plans(Output(text, is_terminal=True), plans, nothing)
    with person_terminal() as terminal:
        is_shown = show_whole(terminal, text.getvalue())
        answer = (terminal.ask("write this? [y/N] ") or "") if is_shown else ""
    return answer.strip().lower() in {"y", "yes"}


def _project(options: InstallOptions) -> Path | None:
    if not options.project:
        return None
    project = project_folder()
    if project == Path.home().resolve():
        raise UsageError(f"{str(project)!r} is your home folder, no project; leave out --project")
    return project


def _unique(options: InstallOptions) -> list[str]:
    return list(dict.fromkeys(options.hosts))


def _whose(project: str | None) -> str:
    return "for you" if project is None else f"in {project}"


def _text(project: Path | None) -> str | None:
    return None if project is None else str(project)
