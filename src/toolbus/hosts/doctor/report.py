"""What `toolbus doctor` found out, printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.output.screen import open_screen
from toolbus.hosts.doctor.deliveries import WAYS_ROUND
from toolbus.hosts.doctor.examination import DoctorReport, HostReport, examine
from toolbus.hosts.install.pages import show_state, show_text
from toolbus.messages.records import encode
from toolbus.settings.spans import Span, Style

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.hosts.doctor.deliveries import ComponentDelivery
    from toolbus.hosts.doctor.findings import Finding, Severity

_MARKS: dict[Severity, tuple[str, Style]] = {
    "open": ("✗ open: ", "bad"),
    "broken": ("✗ broken: ", "bad"),
    "warning": ("! ", "changed"),
    "fact": ("✓ ", "good"),
}


def run_doctor(
    output: Output, hosts: Sequence[str], *, sends: bool = True, as_json: bool = False
) -> int:
    """Examine *hosts*, else all that are found, and print it; return 1 if something is not closed.

    With *sends* made-up events go through the hooks. Raises `LoadError` for an unknown host.
    """
    report = examine(hosts, sends=sends)
    if as_json:
        output.write(f"{encode(report).decode()}\n")
    else:
        _show(report, open_screen(output))
    return 0 if report.is_well else 1


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


def show_findings(screen: Screen, findings: Iterable[Finding]) -> None:
    """Write *findings*, a mark and a colour for each severity."""
    for finding in findings:
        mark, style = _MARKS[finding.severity]
        show_text(screen, f"{mark}{finding.text}", indent=2, style=style)


def _show_delivery(screen: Screen, delivery: ComponentDelivery) -> None:
    delivered = ", ".join(map(_plain, delivery.delivered)) or "only what it observes"
    show_text(screen, f"{delivery.component}: {delivered}", indent=2)
    for name, limited in (("MCP tools", delivery.mcp_only), ("commands", delivery.commands_only)):
        for ability in limited:
            text = f"{_plain(ability)}: of {name} only; else {WAYS_ROUND[ability]}"
            show_text(screen, text, indent=4, style="changed")
    for ability in delivery.undelivered:
        show_text(
            screen, f"not: {_plain(ability)}; {WAYS_ROUND[ability]}", indent=4, style="changed"
        )
    if delivery.unheard:
        text = f"not heard in any host: {', '.join(delivery.unheard)}"
        show_text(screen, text, indent=4, style="changed")


def _plain(ability: str) -> str:
    return ability.replace("_", " ")
