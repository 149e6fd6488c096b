"""`toolbus hosts`: installation of our hooks in coding agents, its state and its removal."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.installation import plan_report, show_faults, show_plan, show_state
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import Parser, add_action, make_parser
from toolbus.cli.questions.confirmation import confirm_page
from toolbus.hosts.doctor.protection import configuration_here, protection_fault
from toolbus.hosts.install.host_files import HOSTS, host_files, project_folder
from toolbus.hosts.install.plans import apply_plans, plan_install, plan_removal
from toolbus.hosts.install.state import InstalledState, installed_state
from toolbus.presence.person import require_person
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.hosts.doctor.findings import Finding
    from toolbus.hosts.install.plans import InstallPlan

_EPILOG = """\
hosts:
  claude-code, codex, copilot, gemini-cli, vibe, opencode, pi,
  cursor (untested: written from its documentation)

options of install and uninstall:
  --user                for you, in all projects (default)
  --project             for you, in this project
  --yes                 write without asking
  --dry-run             print all changes, write nothing
  --config FILE         judge by FILE alone (install)
options of all actions:
  --json                write one JSON document

examples:
  toolbus hosts install claude-code          show the changes, and ask
  toolbus hosts install codex gemini-cli --dry-run
  toolbus hosts install pi --project --yes
  toolbus hosts status                       what is installed, and its faults
  toolbus hosts uninstall claude-code
  toolbus doctor                             whether the hooks work

An installation keeps all other lines of a host's file, with comments and
layout; run twice, it writes nothing; `uninstall` takes out our lines, byte for
byte. A symlink is followed, except in a project, where it is refused.

Hooks run the Python that runs this command. Once that, the package, or the
configuration that was active at the installation is gone, they stop every call:
uninstall them before you remove toolbus, and install them again after an
upgrade. By hand: delete each hook that names toolbus's hook.py; in Vibe's file
and Codex's config.toml the lines between `# >>> toolbus` and `# <<< toolbus`;
of OpenCode and pi the file toolbus.js or toolbus.ts.

Only a person at a terminal in which no agent runs installs or uninstalls.

exit codes: 0 all is well; 1 declined, a fault, or hooks that judge nothing
because no active configuration judges (see `toolbus setup`); 2 usage error"""


def command() -> Command:
    """Return the parser and the function of this command."""
    parser = make_parser(
        "toolbus hosts", "Install hooks in coding agents, or remove them.", _EPILOG
    )
    actions = parser.add_subparsers(
        dest="action", metavar="install|uninstall|status", required=True, parser_class=Parser
    )
    install = add_action(actions, "install", "write our hooks into a host's configuration")
    _add_writing(install)
    install.add_argument("--config", metavar="FILE", help="judge by FILE alone")
    _add_writing(add_action(actions, "uninstall", "take our hooks out again"))
    status = add_action(actions, "status", "print what is installed")
    status.add_argument("hosts", metavar="HOST", nargs="*", help="by default all")
    status.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        for host in parsed.hosts:
            host_files(host)  # A misspelt name is reported before a missing terminal.
        if parsed.action == "status":
            return _show_status(output, parsed.hosts, as_json=parsed.json)
        if not parsed.dry_run:
            require_person()
        hosts, project = dict.fromkeys(parsed.hosts), _project(parsed)
        if parsed.action == "uninstall":
            plans = [plan_removal(host, project) for host in hosts]
            return _carry_out(output, parsed, plans, [None] * len(plans))
        plans = [plan_install(host, project, parsed.config) for host in hosts]
        return _carry_out(output, parsed, plans, _faults(plans))

    return parser, run


def _add_writing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hosts", metavar="HOST", nargs="+", help="claude-code, codex, pi, …")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for you, in all projects (default)")
    where.add_argument("--project", action="store_true", help="for you, in this project")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="write without asking")
    how.add_argument("--dry-run", action="store_true", help="print all changes, write nothing")
    parser.add_argument("--json", action="store_true", help="write one JSON document")


def _project(parsed: argparse.Namespace) -> Path | None:
    if not parsed.project:
        return None
    project = project_folder()
    if project == Path.home().resolve():
        raise UsageError(
            f"{str(project)!r} is your home folder, not a project; leave out --project"
        )
    return project


def _faults(plans: Sequence[InstallPlan]) -> list[Finding | None]:
    """Return for each of *plans*, all of one configuration, why its hooks would judge nothing."""
    settings = [plan.settings for plan in plans if plan.settings is not None]
    loaded, report = configuration_here(settings[0].config)
    return [
        protection_fault(plan.host, each.required, loaded, report)
        for plan, each in zip(plans, settings, strict=True)
    ]


def _carry_out(
    output: Output,
    parsed: argparse.Namespace,
    plans: Sequence[InstallPlan],
    faults: Sequence[Finding | None],
) -> int:
    """Confirm and write *plans*; return the exit code. Raises before anything is written."""
    pairs = list(zip(plans, faults, strict=True))

    def page(screen: Screen, whole: bool) -> None:  # noqa: FBT001 - the one choice of a page
        for plan, fault in pairs:
            show_plan(screen, plan, fault, whole=whole)

    needed = [plan for plan in plans if plan.is_needed]
    is_written = confirm_page(page, output, parsed, is_needed=bool(needed))
    if is_written:
        apply_plans(needed)
    if parsed.json:
        print_json(output, [plan_report(*pair, written=is_written) for pair in pairs])
    elif is_written:
        screen = open_screen(output)
        screen.line(Span("✓ written", "good"))
        show_faults(screen, dict.fromkeys(filter(None, faults)), indent=0)
    return 1 if any(faults) else 0


def _show_status(output: Output, hosts: Sequence[str], *, as_json: bool) -> int:
    """Print the state of each of *hosts*, all by default; return 1 if there is a fault."""
    # JSON has every state, the page only those worth a line, and the exit code judges all.
    project = project_folder()
    here = cache(configuration_here)
    states = [
        _with_fault(installed_state(host, folder), here)
        for host in hosts or HOSTS
        for folder in ((None,) if project == Path.home().resolve() else (None, project))
    ]
    code = 1 if any(state.problems for state in states) else 0
    if as_json:
        print_json(output, states)
        return code
    screen = open_screen(output)
    shown = [state for state in states if state.presence != "absent" or state.host in hosts]
    if not shown:
        screen.line("no hooks of toolbus are installed; see: toolbus hosts install --help")
    for state in shown:
        show_state(screen, state)
    return code


def _with_fault(
    state: InstalledState, here: Callable[[str | None], tuple[Any, Any]]
) -> InstalledState:
    """Return *state*, with the reason why nothing is judged among its problems."""
    if state.presence == "absent":
        return state
    fault = protection_fault(state.host, state.required, *here(state.config))
    return state if fault is None else replace(state, problems=(*state.problems, fault.text))
