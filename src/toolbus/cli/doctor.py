"""`toolbus doctor`: whether our hooks in coding agents work, and what components reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.bridges.examination import FrameworkReport, examine_frameworks
from toolbus.bridges.frameworks import EXTRAS
from toolbus.bridges.frameworks import WAYS_ROUND as WAYS_ROUND_BRIDGES
from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.installation import show_findings, show_state, show_text
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import busy_line
from toolbus.cli.parser import make_parser
from toolbus.hosts.dialects import no_such_host
from toolbus.hosts.doctor.deliveries import WAYS_ROUND
from toolbus.hosts.doctor.examination import HostReport, examine
from toolbus.hosts.doctor.protection import ConfigurationReport, configuration_here
from toolbus.hosts.install.host_files import HOSTS
from toolbus.settings.extras import needs_extra
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.hosts.doctor.deliveries import ComponentDelivery

_EPILOG = """\
examples:
  toolbus doctor                     all hosts that are found, in this folder
  toolbus doctor claude-code         one of them
  toolbus doctor pydantic-ai         an agent framework in this environment
  toolbus doctor --json | jq '.hosts[].findings'

For each host it reports the version; whether our hooks are installed, whole and
running; settings of yours, of the project or of the machine that switch them
off; and, for each component of the active configuration, what reaches the
model, what does not, and the workaround. For each framework with a bridge it
reports the same of the bridge; see: toolbus guide bridges

It sends a call, a result with a made-up secret, and garbage through the
installed hooks, and deletes what they store; --no-events sends nothing. It
changes nothing else.

exit codes: 0 all is well; 1 something passes that should be stopped, installed
hooks have no component that judges, or a fault stops every call; 2 usage error"""


class Report(Struct, frozen=True, kw_only=True):
    """The findings in the current folder and in this Python environment."""

    configuration: ConfigurationReport
    hosts: tuple[HostReport, ...]
    frameworks: tuple[FrameworkReport, ...]
    is_healthy: bool


def command() -> Command:
    """Return the parser and the function of this command."""
    summary = "Check that our hooks in coding agents work, and what components reach."
    parser = make_parser("toolbus doctor", summary, _EPILOG)
    parser.add_argument("hosts", metavar="HOST", nargs="*", help="or a framework; by default all")
    parser.add_argument("--no-events", action="store_true", help="send no made-up events")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        with busy_line("examining hooks"):
            report = _examine(parsed.hosts, sends=not parsed.no_events)
        if parsed.json:
            print_json(output, report)
        else:
            _show(report, open_screen(output))
        return 0 if report.is_healthy else 1

    return parser, run


def _examine(names: Sequence[str], *, sends: bool) -> Report:
    """Return the report on hosts and frameworks with *names*, by default on all that are here."""
    for name in names:
        if name not in HOSTS and name not in EXTRAS:
            raise no_such_host(name, (*HOSTS, *EXTRAS))
    loaded, _ = configuration_here(None)
    hosts = [name for name in names if name in HOSTS]
    report = examine(hosts if names else None, sends=sends)
    frameworks = None if not names else [name for name in names if name in EXTRAS]
    return Report(
        configuration=report.configuration,
        hosts=report.hosts,
        frameworks=examine_frameworks(frameworks, loaded),
        is_healthy=report.is_healthy,
    )


def _show(report: Report, screen: Screen) -> None:
    configuration = report.configuration
    screen.line(Span("configuration here", "strong"))
    if configuration.file is not None:
        screen.whole(configuration.file, indent=2)
        names = ", ".join(configuration.components) or "no component"
        show_text(screen, f"components: {names}", indent=2)
    show_findings(screen, configuration.findings)
    if not report.hosts and not report.frameworks:
        screen.line()
        screen.line("no host is found, and none is installed; see: toolbus hosts --help")
    for host in report.hosts:
        screen.line()
        _show_host(screen, host)
    for framework in report.frameworks:
        screen.line()
        _show_framework(screen, framework)


def _show_framework(screen: Screen, report: FrameworkReport) -> None:
    oldest, newest = report.tested
    tested = f"tested {newest}" if oldest == newest else f"tested {oldest} to {newest}"
    version = "" if report.version is None else f" {report.version}"
    screen.line(Span(f"{report.title}{version}", "strong"), right=[Span(tested, "dim")])
    if report.version is None:
        show_text(screen, needs_extra("it is not installed here", report.framework), indent=2)
    for reach in report.components:
        delivered = ", ".join(map(_plain, reach.delivered)) or "only what it observes"
        show_text(screen, f"{reach.component}: {delivered}", indent=2)
        for each in reach.undelivered:
            text = f"not: {_plain(each)}; {WAYS_ROUND_BRIDGES[each]}"
            show_text(screen, text, indent=4, style="changed")
        if reach.unseen:
            show_text(screen, reach.unseen, indent=4, style="changed")
    for limit in report.limits:
        show_text(screen, limit, indent=2, style="changed")


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
    if delivery.unseen:
        limits.append(delivery.unseen)
    for text in limits:
        show_text(screen, text, indent=4, style="changed")


def _plain(ability: str) -> str:
    return ability.replace("_", " ")
