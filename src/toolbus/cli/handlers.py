"""`toolbus handlers`: the handlers of each event, in running order."""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from toolbus.bus.dispatch.bindings import Binding
from toolbus.bus.dispatch.callables import name_of, place_of
from toolbus.bus.subscriptions import HandlerInfo, as_tuple
from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.component_list import (
    ComponentSummary,
    short_place,
    show_components,
    summarize,
)
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser
from toolbus.components.adapter_handlers import AdapterHandler
from toolbus.config.targets import load, load_configuration
from toolbus.events.catalogue import CATALOGUE, TransformEvent
from toolbus.history.descriptions import describe_priority
from toolbus.settings.spans import Span, Style

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from toolbus.bus.bus import EventBus
    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.config.entries import Entry
    from toolbus.config.targets import LoadedTarget
    from toolbus.events.catalogue import Event

_EPILOG = """\
examples:
  toolbus handlers                     the handlers of your configuration
  toolbus handlers --config our.toml   the handlers of our.toml
  toolbus handlers agent.py            the only agent, bus or component in it
  toolbus handlers agent.py:bus        the object named bus
  toolbus handlers agent.py:make       the return value of the function make
  toolbus handlers agent.py --json     one JSON document

The file runs as `import` runs it. A component or its class is installed on an
empty bus. Without a target, the configuration is your own toolbus.toml in
~/.config/toolbus and, after it, the nearest trusted one: a toolbus.toml, or
[tool.toolbus] of a pyproject.toml, between this folder and the repository's
root. `toolbus trust` trusts it."""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus handlers", "Print the handlers of each event, in order.", _EPILOG)
    parser.add_argument(
        "target", metavar="FILE.py[:name]", nargs="?", help="an agent, a bus or a component"
    )
    parser.add_argument("--config", metavar="FILE", help="a configuration instead of a target")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.target and parsed.config:
            parser.error("give a target or --config, not both")
        target, config = parsed.target, parsed.config
        report = read_handlers(load_configuration(config) if target is None else load(target))
        if parsed.json:
            print_json(output, report)
        else:
            _show(report, open_screen(output))
        return 0

    return parser, run


class Receiver(Struct, frozen=True, kw_only=True):
    """A plain blinker receiver, called after each dispatch; *where* is "file:line"."""

    name: str
    where: str


class EventHandlers(Struct, frozen=True, kw_only=True):
    """The handlers of one event in running order, and its plain receivers."""

    event: str
    verb: str
    handlers: tuple[HandlerInfo, ...]
    receivers: tuple[Receiver, ...]


class HandlerReport(Struct, frozen=True, kw_only=True):
    """The handled events of the bus of *target*, and the names of the *idle* events.

    *components* are the configured ones in the order of installation, then the disabled ones;
    *refusal* says why the nearest configuration is left out.
    """

    target: str
    kind: str
    events: tuple[EventHandlers, ...]
    idle: tuple[str, ...]
    components: tuple[ComponentSummary, ...] = ()
    refusal: str = ""


def read_handlers(loaded: LoadedTarget) -> HandlerReport:
    """Return the handlers of *loaded*: of the catalogue's events, then of other events."""
    bus, configuration = loaded.bus, loaded.configuration
    # The names are read first: reading the handlers of an event adds it to the bus.
    events = [_handlers_of(bus, event) for event in dict.fromkeys((*CATALOGUE, *bus.events))]
    entries: list[Entry] = []
    if configuration is not None:
        entries += [each.entry for each in configuration.configured]
        entries += configuration.disabled
    return HandlerReport(
        target=loaded.target,
        kind=loaded.kind,
        events=tuple([event for event in events if event.handlers or event.receivers]),
        idle=tuple([event.event for event in events if not (event.handlers or event.receivers)]),
        components=summarize(entries),
        refusal="" if configuration is None else configuration.refusal,
    )


def _handlers_of(bus: EventBus, event: Event) -> EventHandlers:
    pairs = zip(bus.handlers(event), bus.functions(event), strict=True)
    return EventHandlers(
        event=event.name,
        verb=_verb(event),
        handlers=tuple([line for info, function in pairs for line in _expanded(info, function)]),
        receivers=tuple(_plain_receivers(bus, event)),
    )


def _expanded(info: HandlerInfo, function: Callable[..., Any] | None) -> list[HandlerInfo]:
    """Return *info*, or one line for each adapter if *function* runs adapters."""
    if not isinstance(function, AdapterHandler):
        return [info]
    lines: list[HandlerInfo] = []
    for adapter, method in function.methods():
        patterns = as_tuple(adapter.tools)
        tools = function.component.selector.patterns if "*" in patterns else patterns
        adapted = replace(info, name=adapter.name, policy=adapter.on_error, where=place_of(method))
        lines.append(replace(adapted, tools=() if "*" in tools else tools))
    return lines


def _verb(event: Event) -> str:
    if isinstance(event, TransformEvent):
        return "apply"
    return "observe" if event.awaited else "do"


def _plain_receivers(bus: EventBus, event: Event) -> list[Receiver]:
    """Return the receivers connected to blinker directly; weakly referenced ones may have died."""
    references = list(bus.signal(event).receivers.values())
    functions = [each() if isinstance(each, weakref.ref) else each for each in references]
    return [
        Receiver(name=name_of(each), where=place_of(each))
        for each in functions
        if each is not None and not isinstance(each, Binding)
    ]


def _show(report: HandlerReport, screen: Screen) -> None:
    handlers = [handler for event in report.events for handler in event.handlers]
    counts = count_things(len(handlers), "handler"), count_things(len(report.events), "event")
    title = Span(short_place(report.target), "strong")
    screen.line(report.kind, "  ", title, right=[" on ".join(counts)])
    senders = {handler.sender for handler in handlers}
    if report.kind == "agent" and len(senders) == 1:
        screen.line(Span(f"all scoped to {_scope(senders.pop())}", "dim"))
    if report.components:
        show_components(report.components, screen)
    for event in report.events:
        screen.line()
        screen.line(Span(event.event, "strong"), right=[Span(event.verb, "dim")])
        _show_event(event, screen, with_sender=len(senders) > 1)
    if report.idle:
        screen.line()
        count = count_things(len(report.idle), "event")
        screen.prose(f"{count} without handlers: {', '.join(report.idle)}", style="dim")


def _show_event(event: EventHandlers, screen: Screen, *, with_sender: bool) -> None:
    rows: list[tuple[Span | str, ...]] = []
    notes: list[str] = []
    for handler in event.handlers:
        style: Style = "asked" if handler.kind == "guard" else ""
        kind = Span(f"{handler.kind:<11}", style)
        rows.append(
            (describe_priority(handler.priority), kind, f"{handler.policy:<6}", handler.name)
        )
        scope = f"scoped to {_scope(handler.sender)} · " if with_sender else ""
        chosen = [*handler.tools, *[f"{role} messages" for role in handler.roles]]
        only = f"only {', '.join(chosen)} · " if chosen else ""
        grows = "incremental · " if handler.incremental else ""
        notes.append(f"{only}{grows}{scope}{short_place(handler.where)}")
    for receiver in event.receivers:
        rows.append(("   -", "receiver   ", "open  ", receiver.name))
        notes.append(short_place(receiver.where))
    # A base class gives its place to several handlers; only the first of them shows it.
    places = [note if note != above else "" for above, note in pairwise(["", *notes])]
    screen.table(rows, indent=1, notes=places)


def _scope(sender: str | None) -> str:
    return "every sender" if sender is None else f"agent {sender} and its sub-agents"
