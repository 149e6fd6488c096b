"""`toolbus setup`: a policy, redaction and hooks for coding agents, written and checked at once."""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.installation import (
    FileReport,
    PlanReport,
    file_report,
    plan_report,
    show_edit,
    show_findings,
    show_plan,
)
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import busy_line
from toolbus.cli.parser import make_parser
from toolbus.cli.policy import starting_policy
from toolbus.cli.questions.confirmation import ask_yes_no, confirm_page, require_answers
from toolbus.config import configuration
from toolbus.config.documents import NAME, read_document
from toolbus.config.entries import read_entries
from toolbus.errors import LoadError, ToolbusError
from toolbus.flow.flow_guard import FlowGuard
from toolbus.hosts.dialects import dialect
from toolbus.hosts.doctor.examination import DoctorReport, examine
from toolbus.hosts.doctor.vendors import Managed, switch_warning, vendors
from toolbus.hosts.install.host_files import HOSTS, host_files, project_folder
from toolbus.hosts.install.machine_files import write_machine_file
from toolbus.hosts.install.plans import InstallPlan, SettingsEdit, apply_plans, plan_install
from toolbus.hosts.install.settings_files import SettingsFile, read_settings, replace_settings
from toolbus.hosts.install.state import installed_state
from toolbus.policy.policy import Policy
from toolbus.policy.rules.policy_file import read_policy
from toolbus.presence.person import person_terminal, require_person
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.settings.files import reason_of
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.settings.user_folders import config_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.hosts.install.state import InstalledState

_EPILOG = """\
examples:
  toolbus setup                      all coding agents that are found
  toolbus setup claude-code          one of them
  toolbus setup claude-code --dry-run    print every line, write nothing
  toolbus setup codex --no-policy    hooks and redaction, without a policy
  toolbus setup claude-code --managed    ... that no project can switch off

It writes the starting policy, ~/.config/toolbus/policy.toml; names it, flow for
its rules, and redact-secrets in the toolbus.toml beside it; installs hooks; and
has doctor send made-up events through them. All of it needs the extra policy.
Present files stay: a toolbus.toml gets only missing components, after a
question. You confirm one page; run twice, it writes nothing. `toolbus hosts
uninstall` removes the hooks.

A project's settings can switch off the hooks of claude-code, codex and
gemini-cli. With --managed a file for the whole machine keeps them on; root owns
it, so sudo asks for your rights.

Only a person at a terminal in which no agent runs sets up.

exit codes: 0 all is well; 1 declined, or doctor finds a fault; 2 usage error"""

_CHOICES = {
    "policy": "name a policy (asked if your toolbus.toml has none)",
    "redaction": "name redact-secrets (asked if your toolbus.toml has none)",
    "flow": "name flow (asked if your policy needs it)",
    "skip-prompts": "no prompt of the agent for proven reads (asked once)",
}
"""Options of yes and no, by name; such an option answers the question of its name."""

_USES = {"redaction": "redact-secrets", "policy": "policy", "flow": "flow"}
_TABLES = {name: f'[[component]]\nuse = "{use}"\n' for name, use in _USES.items()}
_TABLES["policy"] += 'settings = { file = "policy.toml" }\n'
_CHOSEN = ("redaction", "policy")
"""The components of a person's choice; flow comes with a policy that has rules for it."""
_SKIPPING = frozenset({"claude-code", "copilot"})
"""Hosts with prompts that a hook can skip."""
_SKIP = (
    "Claude Code and Copilot CLI ask before many commands that only read. If the policy "
    "proves that a command only reads inside the project, shall it run without that prompt?"
)


class SetupQuestion(NamedTuple):
    """A yes-or-no question before the page; *name* is a host's or one of `_CHOICES`."""

    name: str
    text: str
    default: bool


class PresentFiles(NamedTuple):
    """The person's own *config* and *policy* file, and whether the config *has* each component.

    *is_new* is true of a config that names no component yet, and *needs_flow* of a policy with
    rules on the origin of words, such as the starting one.
    """

    config: SettingsFile
    policy: SettingsFile
    has: Mapping[str, bool]
    is_new: bool
    needs_flow: bool


class SetupPlan(NamedTuple):
    """The *edits* of the person's own files, the hooks of *hosts*, and files for the machine.

    *managed* has these files by host.
    """

    edits: tuple[SettingsEdit, ...]
    hosts: tuple[InstallPlan, ...]
    managed: tuple[tuple[str, Managed], ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether the plan changes anything."""
        is_changed = any(edit.is_change for edit in self.edits)
        return is_changed or any(each.is_needed for each in self.hosts) or bool(self.managed)


class SetupReport(Struct, frozen=True, kw_only=True):
    """The setup for programs; *doctor* is None after a dry run."""

    answers: dict[str, bool]
    files: tuple[FileReport, ...]
    hosts: tuple[PlanReport, ...]
    written: bool
    doctor: DoctorReport | None


def command() -> Command:
    """Return the parser and the function of this command."""
    summary = "Protect coding agents with a policy, redaction and hooks."
    parser = make_parser("toolbus setup", summary, _EPILOG)
    parser.add_argument("hosts", metavar="HOST", nargs="*", help="by default all that are found")
    for name, text in _CHOICES.items():
        action = argparse.BooleanOptionalAction
        parser.add_argument(f"--{name}", action=action, default=None, help=text)
    parser.add_argument("--managed", action="store_true", help="keep hooks on machine-wide")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="write, with the default answers")
    how.add_argument("--dry-run", action="store_true", help="print all changes, write nothing")
    parser.add_argument("--json", action="store_true", help="write one JSON document")
    return parser, _run


def _run(parsed: argparse.Namespace, output: Output) -> int:
    # The order is a promise: a plan of all files is confirmed before the first is written.
    hosts = _hosts(parsed.hosts)
    _check_options(parsed, hosts)
    if not parsed.dry_run:
        require_person()
    present, states = _own_files(), [installed_state(host) for host in hosts]
    answers = _answers(parsed, present, states)
    states = [state for state in states if answers.get(state.host, True)]
    if not states:
        raise UsageError("nothing was written: no coding agent was chosen")
    plan = _plan(present, states, answers, managed=parsed.managed)
    is_written = confirm_page(partial(_show, plan), output, parsed, is_needed=plan.is_needed)
    if is_written:
        _write(plan)
    report = None
    if not parsed.dry_run:
        with busy_line("trying the hooks"):
            report = examine([each.host for each in plan.hosts])
    if parsed.json:
        setup_report = SetupReport(
            answers=answers,
            files=tuple([file_report(edit) for edit in plan.edits]),
            hosts=tuple([plan_report(each, None, written=is_written) for each in plan.hosts]),
            written=is_written,
            doctor=report,
        )
        print_json(output, setup_report)
    elif report is not None:
        _show_end(open_screen(output), plan, report, written=is_written)
    return 0 if report is None or report.is_healthy else 1


def _check_options(parsed: argparse.Namespace, hosts: Collection[str]) -> None:
    managed = [host for host, vendor in vendors().items() if vendor.managed is not None]
    if parsed.managed and not set(managed).intersection(hosts):
        raise UsageError(f"--managed needs one of {', '.join(managed)}")


def _answers(
    parsed: argparse.Namespace,
    present: PresentFiles,
    states: Sequence[InstalledState],
) -> dict[str, bool]:
    """Return the answers by name, of an option, else of the person, else the default."""
    # An option silences its question, and a terminal is needed only if a question remains.
    options = {name: vars(parsed)[name.replace("-", "_")] for name in _CHOICES}
    chosen = {name: value for name, value in options.items() if value is not None}
    questions = [
        question
        for question in _questions(present, states, is_named=bool(parsed.hosts))
        if question.name not in chosen
        and not (question.name == "skip-prompts" and parsed.policy is False)
    ]
    answers = {"policy": True, "redaction": True, "flow": True, "skip-prompts": False}
    answers |= {question.name: question.default for question in questions} | chosen
    if questions and not (parsed.yes or parsed.dry_run):
        require_answers(as_json=parsed.json)
        with person_terminal() as terminal:
            for each in questions:
                answers[each.name] = ask_yes_no(terminal, each.text, default=each.default)
    return answers


def _hosts(named: Sequence[str]) -> list[str]:
    """Return the hosts *named*, by default all on this machine; raises `LoadError` if unknown."""
    for host in named:
        host_files(host)
    hosts = [*dict.fromkeys(named)] or [host for host in HOSTS if _is_found(host)]
    if not hosts:
        known = ", ".join(HOSTS)
        raise UsageError(f"no coding agent is found on the PATH; name one of {known}")
    return hosts


def _is_found(host: str) -> bool:
    """Return whether the program of *host* is on the PATH, outside of the project."""
    program = which(HOSTS[host].program)
    if program is None:
        return False
    return not Path(program).resolve().is_relative_to(project_folder())


def _own_files() -> PresentFiles:
    """Return the person's own files; raises `LoadError` for a broken configuration."""
    folder = config_folder()
    if folder is None:
        raise UsageError("there is no home folder for a configuration of your own")
    config, policy = read_settings(folder / NAME), read_settings(folder / "policy.toml")
    configured = () if config.data is None else configuration.read(config.path).configured
    components = [each.component for each in configured]
    kinds = {"policy": Policy, "redaction": RedactSecrets, "flow": FlowGuard}
    has = {name: any(isinstance(each, kind) for each in components) for name, kind in kinds.items()}
    return PresentFiles(config, policy, has, not components, _needs_flow(policy))


def _needs_flow(policy: SettingsFile) -> bool:
    """Return whether *policy*, or the starting one in its place, has rules on origins of words."""
    if policy.data is None:
        return True
    try:
        return any(rule.needs_origins for rule in read_policy(policy.path).rules)
    except ToolbusError:
        return False  # Its mistake is reported when the component is made.


def _questions(
    present: PresentFiles, states: Sequence[InstalledState], *, is_named: bool
) -> Iterator[SetupQuestion]:
    """Yield the questions that the present files leave open."""
    # The person is asked in this order: hosts, then gaps in the configuration, then prompts.
    for state in states:
        if not is_named and state.presence == "absent":
            title = dialect(state.host).facts.label
            yield SetupQuestion(state.host, f"{title} is found. Install hooks there?", default=True)
    missing = [] if present.is_new else [name for name in _CHOSEN if not present.has[name]]
    if "policy" in missing:
        text = f"{present.config.path} names no policy, so no call is judged. Add one?"
        yield SetupQuestion("policy", text, default=True)
    if "redaction" in missing:
        text = f"{present.config.path} names no redact-secrets, so secrets reach models. Add it?"
        yield SetupQuestion("redaction", text, default=True)
    if present.has["policy"] and present.policy.data and present.needs_flow:
        text = f"{present.config.path} names no flow, so rules on the origin of words always ask."
        if not present.has["flow"]:
            yield SetupQuestion("flow", f"{text} Add it?", default=True)
    is_written = present.policy.data is None and not present.has["policy"]
    if is_written and any(each.host in _SKIPPING for each in states):
        yield SetupQuestion("skip-prompts", _SKIP, default=False)


def _plan(
    present: PresentFiles,
    states: Sequence[InstalledState],
    answers: Mapping[str, bool],
    *,
    managed: bool,
) -> SetupPlan:
    # The new files refer to each other, so they are made and tried out together.
    added, policy = _added(present, answers), present.policy.data
    edits: list[SettingsEdit] = []
    if policy is None:
        policy = starting_policy(personal=True, skips_prompts=answers["skip-prompts"]).encode()
        if "policy" in added:
            summary = ("the starting policy: reads, builds, writes in the project; asks beyond",)
            edits.append(_own_edit(present.policy, "", policy.decode(), summary))
    if added:
        edits.append(_config_edit(present, added))
        _try_out(present, policy, added)
    required = str(present.config.path) if added or not present.is_new else None
    return SetupPlan(
        edits=tuple(edits),
        hosts=tuple(
            [
                plan_install(
                    state.host,
                    config=state.config,
                    required=required if state.config is None else None,
                )
                for state in states
            ]
        ),
        managed=tuple(_machine_files(states)) if managed else (),
    )


def _added(present: PresentFiles, answers: Mapping[str, bool]) -> list[str]:
    """Return the names of the components to add."""
    added = [name for name in _CHOSEN if answers[name] and not present.has[name]]
    is_used = "policy" in added or (present.has["policy"] and present.policy.data is not None)
    is_needed = is_used and present.needs_flow and not present.has["flow"]
    return [*added, "flow"] if is_needed and answers["flow"] else added


def _machine_files(states: Sequence[InstalledState]) -> Iterator[tuple[str, Managed]]:
    """Yield the hosts whose hooks a project can switch off, and the files against it."""
    for state in states:
        managed = vendors()[state.host].managed
        if managed is not None and switch_warning(state.host) is not None:
            yield state.host, managed


def _config_edit(present: PresentFiles, added: Sequence[str]) -> SettingsEdit:
    """Return the edit that appends the tables of *added* to the configuration."""
    before = present.config.text or ""
    separator = "" if not before.strip() else "\n" if before.endswith("\n") else "\n\n"
    tables = f"{separator}{chr(10).join([_TABLES[name] for name in added])}"
    read_entries(read_document(present.config.path, f"{before}{tables}".encode()))
    *others, final = [_USES[name] for name in added]
    names = f"{', '.join(others)} and {final}" if others else final
    used = ("the present policy.toml is used",) if present.policy.data else ()
    return _own_edit(present.config, before, tables, (f"components for {names}", *used))


def _own_edit(
    file: SettingsFile, before: str, added: str, summary: tuple[str, ...]
) -> SettingsEdit:
    """Return the edit that appends *added* to the text *before* of *file*."""
    return SettingsEdit(
        file=file,
        after=f"{before}{added}".encode(),
        added=tuple(added.strip().splitlines()),
        summary=summary,
    )


def _try_out(present: PresentFiles, policy: bytes, added: Sequence[str]) -> None:
    """Make the *added* components in a scratch folder; raises `LoadError`, as without an extra."""
    with tempfile.TemporaryDirectory(prefix="toolbus-") as scratch:
        folder, real = Path(scratch), str(present.config.path.parent)
        (folder / "policy.toml").write_bytes(policy)
        (folder / NAME).write_text("\n".join([_TABLES[name] for name in added]))
        try:
            configuration.read(folder / NAME)
        except ToolbusError as error:
            text = str(error).replace(str(folder.resolve()), real).replace(scratch, real)
            raise LoadError(f"nothing was written: {text}") from None


def _write(plan: SetupPlan) -> None:
    """Write all of *plan*; the error of a failed step names the files of the steps before it."""
    written: list[str] = []
    try:
        for edit in plan.edits:
            replace_settings(edit.file, edit.after)
            written.append(str(edit.file.path))
        for each in plan.hosts:
            if each.is_needed:
                apply_plans([each])
                written.append(f"the hooks of {dialect(each.host).facts.title}")
        for _, file in plan.managed:
            written.append(str(write_machine_file(file)))
    except (ToolbusError, OSError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else error
        done = f"written before: {', '.join(written)}" if written else "nothing was written"
        raise UsageError(f"{reason}; {done}") from error


def _show(plan: SetupPlan, screen: Screen, whole: bool) -> None:  # noqa: FBT001 - of a page
    screen.line(Span("your own configuration, for all projects", "strong"))
    for edit in plan.edits:
        show_edit(screen, edit, whole=whole)
    if not plan.edits:
        screen.line("unchanged", indent=2)
    screen.line()
    for each in plan.hosts:
        show_plan(screen, each, None, whole=whole)
    for host, file in plan.managed:
        title = f"the whole machine, for {dialect(host).facts.title}"
        screen.line(Span(title, "strong"))
        screen.whole(f"{file.path}: {file.text.strip()}", indent=2)


def _show_end(screen: Screen, plan: SetupPlan, report: DoctorReport, *, written: bool) -> None:
    screen.line(Span("✓ written" if written else "✓ nothing to write", "good"))
    show_findings(screen, report.configuration.findings)
    for host in report.hosts:
        screen.line(Span(f"{host.title}, by toolbus doctor", "strong"))
        show_findings(screen, host.findings)
    screen.line()
    is_starting = any(edit.file.path.name == "policy.toml" for edit in plan.edits)
    end = "the policy denies it" if is_starting else "your policy judges it"
    for each in plan.hosts:
        program = HOSTS[each.host].program
        text = f"start `{program}` in a project, and ask it to `git push -f`: {end}"
        screen.whole(f"try it: {text}", style="strong")
