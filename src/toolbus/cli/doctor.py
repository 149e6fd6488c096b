"""`toolbus doctor`: whether our hooks in coding agents work, and what they reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.installation import show_findings, show_state, show_text
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import busy_line
from toolbus.cli.parser import make_parser
from toolbus.hosts.doctor.deliveries import WAYS_ROUND
from toolbus.hosts.doctor.examination import DoctorReport, HostReport, examine
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.hosts.doctor.deliveries import ComponentDelivery

_EPILOG = """\
examples:
  toolbus doctor                     all hosts that are found, in this folder
  toolbus doctor claude-code         one of them
  toolbus doctor --json | jq '.hosts[].findings'

For each host it reports the version; whether our hooks are installed, whole and
running; settings of yours, of the project or of the machine that switch them
off; and, for each component of the active configuration, what reaches the
model, what does not, and the workaround.

It sends a call, a result with a made-up secret, and garbage through the
installed hooks, and deletes what they store; --no-events sends nothing. It
changes nothing else.

exit codes: 0 all is well; 1 something passes that should be stopped, installed
hooks have no component that judges, or a fault stops every call; 2 usage error"""


def command() -> Command:
    """Return the parser and the function of this command."""
    summary = "Check that our hooks in coding agents work, and what they reach."
    parser = make_parser("toolbus doctor", summary, _EPILOG)
    parser.add_argument("hosts", metavar="HOST", nargs="*", help="by default all that are found")
    parser.add_argument("--no-events", action="store_true", help="send no made-up events")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        with busy_line("examining hooks"):
            report = examine(parsed.hosts, sends=not parsed.no_events)
        if parsed.json:
            print_json(output, report)
        else:
            _show(report, open_screen(output))
        return 0 if report.is_healthy else 1

    return parser, run


def _show(report: DoctorReport, screen: Screen) -> None:
    configuration = report.configuration
    screen.line(Span("configuration here", "strong"))
    if configuration.file is not None:
        screen.whole(configuration.file, indent=2)
        names = ", ".join(configuration.components) or "no component"
        show_text(screen, f"components: {names}", indent=2)
    show_findings(screen, configuration.findings)
    if not report.hosts:
        screen.line()
        screen.line("no host is found, and none is installed; see: toolbus hosts --help")
    for host in report.hosts:
        screen.line()
        _show_host(screen, host)


def _show_host(screen: Screen, host: HostReport) -> None:
    program = "not found on the PATH" if host.program is None else host.program
    version = "" if host.version is None else f" {host.version}"
    screen.line(Span(f"{host.title}{version}", "strong"), right=[Span(program, "dim")])
    installed = [state for state in host.states if state.presence != "absent"]
    if not installed:
        screen.line(f"no hooks of ours; see: toolbus hosts install {host.host}", indent=2)
    for state in installed:
        show_state(screen, state, titled=False)
    show_findings(screen, host.findings)
    for delivery in host.deliveries:
        _show_delivery(screen, delivery)


def _show_delivery(screen: Screen, delivery: ComponentDelivery) -> None:
    delivered = ", ".join(map(_plain, delivery.delivered)) or "only what it observes"
    show_text(screen, f"{delivery.component}: {delivered}", indent=2)
    limits = [
        f"{_plain(ability)}: of {name} only; else {WAYS_ROUND[ability]}"
        for name, limited in (
            ("MCP tools", delivery.mcp_only),
            ("commands", delivery.commands_only),
        )
        for ability in limited
    ]
    limits += [f"not: {_plain(each)}; {WAYS_ROUND[each]}" for each in delivery.undelivered]
    if delivery.unheard:
        limits.append(f"not heard in any host: {', '.join(delivery.unheard)}")
    for text in limits:
        show_text(screen, text, indent=4, style="changed")


def _plain(ability: str) -> str:
    return ability.replace("_", " ")
