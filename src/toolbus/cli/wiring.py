"""`toolbus wiring`: print who handles what."""

from __future__ import annotations

import inspect
import os
import weakref
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

import toolbus
from toolbus.bus.dispatch.bindings import Binding
from toolbus.bus.dispatch.callables import name_of, place_of
from toolbus.bus.subscribing import HandlerInfo, as_tuple
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser
from toolbus.components.adapter_handlers import AdapterHandler
from toolbus.config.targets import load, load_configuration
from toolbus.events.catalogue import CATALOGUE, TransformEvent
from toolbus.messages.records import encode
from toolbus.settings.spans import Span, Style

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.config.entries import Entry
    from toolbus.events.catalogue import Event

_EPILOG = """\
examples:
  toolbus wiring                     what your configurations name
  toolbus wiring --config our.toml   what our.toml names
  toolbus wiring agent.py            the only agent, bus or component there
  toolbus wiring agent.py:bus        what is called bus there
  toolbus wiring agent.py:make       what the function make returns
  toolbus wiring agent.py --json     one JSON document

The file is run as `import` runs it. A component, or its class, is installed
on an empty bus.
Without a target it is your own toolbus.toml, in ~/.config/toolbus, and behind
it the nearest one, or [tool.toolbus] of a pyproject.toml, from this folder up
to the root of the repository, if you trust it: `toolbus trust`."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus wiring", "Print who handles what, in the order in which they run.", _EPILOG
    )
    parser.add_argument(
        "target", metavar="FILE.py[:name]", nargs="?", help="an agent, a bus or a component"
    )
    parser.add_argument("--config", metavar="FILE", help="a configuration, in place of a target")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.target and parsed.config:
            parser.error("give a target or --config, not both")
        return show_wiring(output, parsed.target, config=parsed.config, as_json=parsed.json)

    return parser, run


class Receiver(Struct, frozen=True, kw_only=True):
    """A plain blinker receiver, which hears how a dispatch ended; *where* is "file:line"."""

    name: str
    where: str


class EventWiring(Struct, frozen=True, kw_only=True):
    """One event and all that hear of it, in the order in which they run."""

    event: str
    verb: str
    handlers: tuple[HandlerInfo, ...]
    receivers: tuple[Receiver, ...]


class ComponentWiring(Struct, frozen=True, kw_only=True):
    """A component that a configuration names; its settings are left out, they may be secret.

    *priority* is None if none is given; *where* is "file:line".
    """

    name: str
    use: str
    enabled: bool
    tools: tuple[str, ...]
    priority: int | None
    where: str


class Wiring(Struct, frozen=True, kw_only=True):
    """All events of the bus of *target* that somebody handles, and the names of the *idle* ones.

    *components* are those of a configuration, as they are installed, then the disabled ones;
    *refusal* says why the nearest configuration is not among them.
    """

    target: str
    kind: str
    events: tuple[EventWiring, ...]
    idle: tuple[str, ...]
    components: tuple[ComponentWiring, ...] = ()
    refusal: str = ""


def show_wiring(
    output: Output, target: str | None, *, config: str | None = None, as_json: bool = False
) -> int:
    """Print the wiring of *target*, `FILE.py[:name]`, or of a configuration; return 0.

    That is *config*, or the nearest one if there is no target either. Raises `LoadError`.
    """
    loaded = load_configuration(config) if target is None else load(target)
    wiring = read_wiring(loaded.bus, target=loaded.target, kind=loaded.kind)
    if loaded.configuration is not None:
        configuration = loaded.configuration
        entries = [each.entry for each in configuration.configured]
        components = components_of([*entries, *configuration.disabled])
        wiring = replace(wiring, components=components, refusal=configuration.refusal)
    if as_json:
        output.write(f"{encode(wiring).decode()}\n")
    else:
        _show(wiring, open_screen(output))
    return 0


def read_wiring(bus: EventBus, *, target: str, kind: str) -> Wiring:
    """Return who handles the events of *bus*: those of the catalogue, then its own ones."""
    # Read first: asking about an event makes it one that the bus knows.
    events = dict.fromkeys((*CATALOGUE, *bus.events))
    wired = [_wiring_of(bus, event) for event in events]
    return Wiring(
        target=target,
        kind=kind,
        events=tuple([event for event in wired if event.handlers or event.receivers]),
        idle=tuple([event.event for event in wired if not (event.handlers or event.receivers)]),
    )


def components_of(entries: Iterable[Entry]) -> tuple[ComponentWiring, ...]:
    """Return what the *entries* of a configuration say of themselves, without their settings."""
    return tuple(
        [
            ComponentWiring(
                name=entry.name,
                use=entry.use,
                enabled=entry.enabled,
                tools=entry.tools,
                priority=entry.priority,
                where=entry.where,
            )
            for entry in entries
        ]
    )


def _wiring_of(bus: EventBus, event: Event) -> EventWiring:
    pairs = zip(bus.handlers(event), bus.functions(event), strict=True)
    return EventWiring(
        event=event.name,
        verb=_verb(event),
        handlers=tuple([line for info, function in pairs for line in _lines_of(info, function)]),
        receivers=tuple([_receiver(function) for function in _plain_receivers(bus, event)]),
    )


def _lines_of(info: HandlerInfo, function: Callable[..., Any] | None) -> list[HandlerInfo]:
    """Return *info*, or in place of a component's own handler what its adapters are."""
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


def _plain_receivers(bus: EventBus, event: Event) -> list[Any]:
    """Return the receivers that blinker got from others than the bus; weak ones may have died."""
    references = list(bus.signal(event).receivers.values())
    receivers = [each() if isinstance(each, weakref.ref) else each for each in references]
    return [each for each in receivers if each is not None and not isinstance(each, Binding)]


def _receiver(function: Any) -> Receiver:
    code = getattr(inspect.unwrap(function), "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}" if code else ""
    return Receiver(name=name_of(function), where=where)


def _show(wiring: Wiring, screen: Screen) -> None:
    handlers = [handler for event in wiring.events for handler in event.handlers]
    count = f"{_count(len(handlers), 'handler')} on {_count(len(wiring.events), 'event')}"
    screen.line(wiring.kind, "  ", Span(short_place(wiring.target), "strong"), right=[count])
    senders = {handler.sender for handler in handlers}
    if wiring.kind == "agent" and len(senders) == 1:
        screen.line(Span(f"all hear {_speaker(senders.pop())}", "dim"))
    if wiring.components:
        show_components(wiring.components, screen)
    for event in wiring.events:
        screen.line()
        screen.line(Span(event.event, "strong"), right=[Span(event.verb, "dim")])
        _show_event(event, screen, with_sender=len(senders) > 1)
    if wiring.idle:
        screen.line()
        idle = f"{_count(len(wiring.idle), 'event')} without handlers: {', '.join(wiring.idle)}"
        screen.prose(idle, style="dim")


def show_components(components: Sequence[ComponentWiring], screen: Screen) -> None:
    """Print *components*, numbered, with what they are restricted to and their places."""
    screen.line()
    screen.line(Span("components", "strong"), right=[Span("as installed", "dim")])
    rows: list[tuple[Span | str, ...]] = []
    for number, component in enumerate(components, 1):
        facts = [] if component.name == component.use else [component.use]
        facts += [] if component.tools == ("*",) else [f"only {', '.join(component.tools)}"]
        facts += [] if component.priority is None else [f"priority {component.priority}"]
        place = f"{number:>4}" if component.enabled else " off"
        rows.append((place, component.name, " · ".join(facts)))
    notes = [short_place(component.where) for component in components]
    screen.table(rows, indent=1, notes=notes)


def _show_event(event: EventWiring, screen: Screen, *, with_sender: bool) -> None:
    rows: list[tuple[Span | str, ...]] = []
    notes: list[str] = []
    for handler in event.handlers:
        style: Style = "asked" if handler.kind == "guard" else ""
        kind = Span(f"{handler.kind:<11}", style)
        rows.append((f"{handler.priority:>4}", kind, f"{handler.policy:<6}", handler.name))
        heard = f"hears {_speaker(handler.sender)} · " if with_sender else ""
        chosen = [*handler.tools, *[f"{role} messages" for role in handler.roles]]
        only = f"only {', '.join(chosen)} · " if chosen else ""
        grows = "incremental · " if handler.incremental else ""
        notes.append(f"{only}{grows}{heard}{short_place(handler.where)}")
    for receiver in event.receivers:
        rows.append(("   -", "receiver   ", "open  ", receiver.name))
        notes.append(short_place(receiver.where))
    # A place that is that of the row above is not said again: the handlers of a base class.
    places = [note if note != above else "" for above, note in pairwise(["", *notes])]
    screen.table(rows, indent=1, notes=places)


def _speaker(sender: str | None) -> str:
    return "everyone" if sender is None else f"agent {sender} and its sub-agents"


def short_place(where: str) -> str:
    """Return "file:line" as a person here would write it: from this folder, or from our package."""
    for root in (Path.cwd(), Path(toolbus.__file__).parents[1]):
        if where.startswith(f"{root}{os.sep}"):
            return where.removeprefix(f"{root}{os.sep}")
    return where


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
