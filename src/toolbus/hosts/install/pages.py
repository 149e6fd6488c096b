"""`toolbus hosts`: the pages on which a person reads what is to be written, decides, and looks."""

from __future__ import annotations

import shlex
import textwrap
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.protection import configuration_here, protection_fault
from toolbus.hosts.install.host_files import HOSTS, host_files, project_folder
from toolbus.hosts.install.plans import apply_plans, plan_install, plan_removal
from toolbus.hosts.install.state import InstalledState, installed_state
from toolbus.messages.records import encode
from toolbus.presence.person import person_terminal, show_whole
from toolbus.settings.spans import Span, Style
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from toolbus.cli.output.screen import Screen
    from toolbus.hosts.doctor.findings import Finding
    from toolbus.hosts.install.plans import InstallPlan, SettingsEdit

    Page: TypeAlias = Callable[[Screen, bool], None]
    """Writes a page to a screen: a summary, or with True every line."""


class InstallOptions(Struct, frozen=True, kw_only=True):
    """The options of `install` and `uninstall`.

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


class FileReport(Struct, frozen=True, kw_only=True):
    """The change of a file: the lines *added*, all ours; what else it holds may be secret.

    *real* is its real path. *taken_out* says that something of ours goes, *removed* that the
    whole file does.
    """

    file: str
    real: str
    added: tuple[str, ...]
    taken_out: bool
    removed: bool


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


# --- the commands --------------------------------------------------------------------------------


def run_install(output: Output, errors: Output, options: InstallOptions) -> int:
    """Install the hooks of all hosts that *options* name; return 0.

    1: the person refuses, or nothing is judged by the hooks. Raises `LoadError` and `UsageError`
    before anything is written.
    """
    project = _project(options)
    hosts = dict.fromkeys(options.hosts)
    plans = [plan_install(host, project, options.config) for host in hosts]
    loaded, report = configuration_here(_config_of(plans[0]))
    faults = [
        protection_fault(plan.host, plan.settings.required, loaded, report)
        for plan in plans
        if plan.settings is not None
    ]
    return _carry_out(output, errors, options, plans, faults)


def run_uninstall(output: Output, errors: Output, options: InstallOptions) -> int:
    """Take out what was installed; return and raise as `run_install`."""
    project = _project(options)
    plans = [plan_removal(host, project) for host in dict.fromkeys(options.hosts)]
    return _carry_out(output, errors, options, plans, [None] * len(plans))


def show_status(output: Output, hosts: Sequence[str], *, as_json: bool = False) -> int:
    """Print the state of each of *hosts*, all by default; return 1 if something is wrong."""
    for host in hosts:
        host_files(host)
    project = project_folder()
    here = cache(configuration_here)
    states = [
        _with_fault(installed_state(host, folder), here)
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

    needed = [plan for plan in plans if plan.is_needed]
    is_written = bool(needed) and not options.dry_run
    if is_written and not options.yes:
        if not agrees(errors, page, as_json=options.as_json):
            errors.write("toolbus: nothing was written\n")
            return 1
    elif not options.as_json:
        page(open_screen(output), options.dry_run)
    if is_written:
        apply_plans(needed)
    if options.as_json:
        reports = [
            plan_report(plan, fault, written=is_written)
            for plan, fault in zip(plans, faults, strict=True)
        ]
        output.write(f"{encode(tuple(reports)).decode()}\n")
    elif is_written:
        screen = open_screen(output)
        screen.line(Span("✓ written", "good"))
        for fault in dict.fromkeys(faults):
            _show_fault(screen, fault, indent=0)
    return 1 if any(faults) else 0


def _project(options: InstallOptions) -> Path | None:
    if not options.project:
        return None
    project = project_folder()
    if project == Path.home().resolve():
        raise UsageError(
            f"{str(project)!r} is your home folder, not a project; leave out --project"
        )
    return project


def _with_fault(
    state: InstalledState, here: Callable[[str | None], tuple[Any, Any]]
) -> InstalledState:
    """Return *state*, with the reason why nothing is judged among its problems."""
    if state.presence == "absent":
        return state
    fault = protection_fault(state.host, state.required, *here(state.config))
    return state if fault is None else replace(state, problems=(*state.problems, fault.text))


# --- reports for programs ------------------------------------------------------------------------


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
        config=_config_of(plan),
        files=tuple([file_report(edit) for edit in plan.edits]),
        notes=plan.notes,
        written=written,
        fault=None if fault is None else fault.text,
    )


# --- pages ---------------------------------------------------------------------------------------


def show_plan(screen: Screen, plan: InstallPlan, fault: Finding | None, *, whole: bool) -> None:
    """Write the changes of *plan*, *whole* or a few lines a file; *fault* is of its protection."""
    screen.line(Span(f"{dialect(plan.host).facts.label}, {_owner(plan.project)}", "strong"))
    if not plan.is_needed:
        text = "nothing of ours is there" if plan.settings is None else "installed already"
        screen.line(text, indent=2)
        _show_fault(screen, fault)
        return
    for edit in plan.edits:
        show_edit(screen, edit, whole=whole)
    if plan.settings is not None:
        words = [plan.settings.python, "-I", "-S", str(plan.script), plan.host]
        screen.whole(f"they run {shlex.join(words)} EVENT", indent=2)
        config = _config_of(plan) or "your own, and behind it that of a project that you trust"
        show_text(screen, f"configuration: {config}", indent=2)
        _show_fault(screen, fault)
        for note in plan.notes:
            show_text(screen, note, indent=2, style="changed")
    screen.line()


def show_edit(screen: Screen, edit: SettingsEdit, *, whole: bool) -> None:
    """Write the change of a file: each added line if *whole*, else a summary."""
    if not edit.is_change:
        return
    path, real = edit.file.path, edit.file.real
    leads = "" if path == real else f" (a symlink to {real})"
    gone = " (the file goes)" if edit.after is None else ""
    new = " (new)" if edit.file.data is None else ""
    screen.whole(f"{path}{leads}{gone}{new}", indent=2, style="strong")
    if not edit.added:
        ends = (
            "all of it is ours"
            if edit.after is None
            else "what is ours is taken out; all else stays"
        )
        screen.line(ends, indent=4)
    elif not whole:
        for text in (*edit.summary, f"{len(edit.added)} lines added; all others stay"):
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


def show_text(screen: Screen, text: str, *, indent: int = 0, style: Style = "") -> None:
    """Write *text* over as many lines as it takes, its paths and commands whole."""
    lines = textwrap.wrap(
        text, screen.width - indent, break_long_words=False, break_on_hyphens=False
    )
    for line in lines:
        screen.whole(line, indent=indent, style=style)


def agrees(errors: Output, page: Page, *, as_json: bool = False) -> bool:
    """Show *page* at the terminal, wherever the output goes, and ask about it; "v" shows it whole.

    Raises `UsageError` where no person can be asked.
    """
    require_answers(errors, as_json=as_json)
    with person_terminal() as terminal:
        if not show_whole(terminal, _rendered(page, whole=False)):
            return False
        while True:
            answer = terminal.ask("write this? [y/N, v shows every line] ") or ""
            if answer.strip().lower() != "v":
                return answer.strip().lower() in {"y", "yes"}
            if not show_whole(terminal, _rendered(page, whole=True)):
                return False


def require_answers(errors: Output, *, as_json: bool = False) -> None:
    """Raise `UsageError` where no person can be asked, as for a JSON document."""
    if as_json or not errors.is_terminal:
        raise UsageError("nothing was written: nobody can be asked here; add --yes")


def _config_of(plan: InstallPlan) -> str | None:
    return None if plan.settings is None else plan.settings.config


def _owner(project: Path | str | None) -> str:
    return "for you" if project is None else f"in {project}"


def _rendered(page: Page, *, whole: bool) -> str:
    text = StringIO()
    page(open_screen(Output(text, is_terminal=True)), whole)
    return text.getvalue()


def _show_fault(screen: Screen, fault: Finding | None, *, indent: int = 2) -> None:
    if fault is not None:
        show_text(screen, f"✗ {fault.text}", indent=indent, style="bad")
