"""The pages on which a person reads and decides about what is to be written."""

from __future__ import annotations

import shlex
import textwrap
from io import StringIO
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.hosts.dialects import dialect
from toolbus.hosts.install.edit_lines import ChangedLine, changed_lines
from toolbus.hosts.install.edit_targets import BRIDGE_MARK
from toolbus.hosts.install.installing import needs_client
from toolbus.settings.spans import Span, Style
from toolbus.terminal.output import Output
from toolbus.terminal.person import person_terminal
from toolbus.terminal.person_pages import show_whole
from toolbus.terminal.screen import UsageError, open_screen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from toolbus.hosts.doctor.inspections import Finding
    from toolbus.hosts.install.install_plans import InstallPlan, SettingsEdit
    from toolbus.terminal.screen import Screen

    Page: TypeAlias = Callable[[Screen, bool], None]
    """Writes a page to a screen: a summary, or with True every line."""


class FileReport(Struct, frozen=True, kw_only=True):
    """The change of a file; *real* is its real path, *removed* says that the whole file goes."""

    file: str
    real: str
    removed: bool
    lines: tuple[ChangedLine, ...]


def file_report(edit: SettingsEdit) -> FileReport:
    """Return the change that *edit* makes, line by line."""
    return FileReport(
        file=str(edit.file.path),
        real=str(edit.file.real),
        removed=edit.after is None and edit.file.data is not None,
        lines=changed_lines(edit.file.data, edit.after),
    )


def is_needed(plan: InstallPlan) -> bool:
    """Return whether *plan* writes anything."""
    return any(edit.is_change for edit in plan.edits) or needs_client(plan)


def show_plan(screen: Screen, plan: InstallPlan, fault: Finding | None, *, whole: bool) -> None:
    """Write the changes of *plan*, *whole* or a few lines a file; *fault* is of its protection."""
    screen.line(Span(f"{dialect(plan.host).title}, {whose(text_of(plan.project))}", "strong"))
    if not is_needed(plan):
        text = "nothing of ours is there" if plan.settings is None else "installed already"
        screen.line(text, indent=2)
        _show_fault(screen, fault)
        return
    for edit in plan.edits:
        show_edit(screen, edit, whole=whole)
    if plan.settings is not None:
        _show_client(screen, plan, fault)
    screen.line()


def show_edit(screen: Screen, edit: SettingsEdit, *, whole: bool) -> None:
    """Write the change of a file: each line of it if *whole*, else a summary."""
    report = file_report(edit)
    if not (report.lines or report.removed):
        return
    leads = "" if report.real == report.file else f" (a symlink to {report.real})"
    gone = " (the file goes)" if report.removed else ""
    new = " (new)" if edit.file.data is None else ""
    screen.whole(f"{report.file}{leads}{gone}{new}", indent=2, style="strong")
    if not whole:
        for text in (*edit.summary, _counted(report)):
            show_text(screen, text, indent=4)
        return
    if report.lines and report.lines[0].text == BRIDGE_MARK.rstrip():
        # A person need not read a program of ours from the first to the last line.
        screen.line(f"    {len(report.lines)} lines, all of toolbus; see --json", indent=2)
        return
    for line in report.lines:
        # Whole, however long: these are the commands that are run.
        shown = f"{line.number:5} {line.sign} {line.text}"
        screen.whole(shown, style="good" if line.sign == "+" else "bad")


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


def whose(project: str | None) -> str:
    """Return for whom an installation is."""
    return "for you" if project is None else f"in {project}"


def text_of(project: Path | None) -> str | None:
    """Return the path of *project* as a text."""
    return None if project is None else str(project)


def _rendered(page: Page, *, whole: bool) -> str:
    text = StringIO()
    page(open_screen(Output(text, is_terminal=True)), whole)
    return text.getvalue()


def _show_client(screen: Screen, plan: InstallPlan, fault: Finding | None) -> None:
    """Write which command the hooks run, by which configuration, and what has to be known."""
    if plan.settings is not None:
        words = [plan.settings.python, "-I", "-S", str(plan.script), plan.host]
        screen.whole(f"they run {shlex.join(words)} EVENT", indent=2)
    config = plan.config or "your own, and behind it that of a project that you trust"
    show_text(screen, f"configuration: {config}", indent=2)
    _show_fault(screen, fault)
    for note in plan.notes:
        show_text(screen, note, indent=2, style="changed")


def _show_fault(screen: Screen, fault: Finding | None) -> None:
    if fault is not None:
        show_text(screen, f"✗ {fault.text}", indent=2, style="bad")


def _counted(report: FileReport) -> str:
    added = len([line for line in report.lines if line.sign == "+"])
    removed = len(report.lines) - added
    counts = [f"{added} lines added"] * bool(added) + [f"{removed} taken out"] * bool(removed)
    return f"{', '.join(counts)}; all others stay" if counts else "no line changes"
