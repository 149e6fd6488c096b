"""`toolbus pin`: accept tools as they are now, and say when they change."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from toolbus.cli.assembly import find_components, server_words
from toolbus.cli.output.deferred_output import relay_lines
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.cli.parser import CommandParser, make_parser
from toolbus.cli.questions.keyboard import is_at_terminal
from toolbus.cli.questions.typed_answers import YES
from toolbus.components.participants import ComponentHost
from toolbus.config.targets import load
from toolbus.errors import ConfigurationError, LoadError, RegistrationError
from toolbus.mcp.transport.launch import own_environment
from toolbus.messages.records import encode
from toolbus.policy.pins.pin_differences import (
    PinChange,
    compare_pins,
    describe_source,
    skeleton,
    whole_rows,
)
from toolbus.policy.pins.pinned_items import (
    LOCK_NAME,
    PinnedServer,
    ToolPins,
    pin_instructions,
    pin_program,
    pin_prompt,
    pin_tool,
    read_lock,
    reveal,
    write_lock,
)
from toolbus.presence.person import person_terminal, require_person
from toolbus.settings.files import replacing
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.settings.visible_text import make_visible

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.parser import Command, Parser
    from toolbus.config.servers import ServerEntry
    from toolbus.events.catalogue import ToolSpec
    from toolbus.mcp.client import McpOptions
    from toolbus.mcp.client.surfaces import ServerSurface
    from toolbus.settings.spans import Style

_EPILOG = """\
examples:
  toolbus pin toolbus.toml                    its servers and its own tools
  toolbus pin toolbus.toml --check            has one of them changed?
  toolbus pin agent.py toolbus.toml --tools shell,files
  toolbus pin -- uvx mcp-server-git           one server, as for `toolbus proxy`
  toolbus pin --check --json -- https://example.com/mcp

What tools say of themselves is what a model believes. A server may say one
thing when you look at it and another later, or take the name of a tool that you
know. `toolbus pin` writes what they say now into toolbus.lock, which belongs
into your repository: names, descriptions, schemas and annotations, and the
prompts and instructions of servers, sorted, so that a diff reads well. Give all
that is to be in it each time: what is not there any more is taken out.

It shows what differs before it writes, and asks before it writes over a file,
unless --yes is given. Only a person writes it: at a terminal, and at none in
which an agent runs. With --check it writes nothing and ends with 1 if something
differs: that is for CI.
Characters that show nothing are written as \\u200b.

A toolbus.toml puts the file in force:

  [[component]]
  use = "pins"
  settings = { file = "toolbus.lock" }

Then a tool that is not as it was pinned is hidden from the model, and a call of
it is asked about, or denied where nobody can be asked.

A server gets the same environment as from `toolbus proxy`. A server at an
address gets the bearer token of TOOLBUS_PROXY_TOKEN, and what --header says."""

_STYLES: dict[str, Style] = {"changed": "changed", "new": "good", "gone": "bad"}
_ADDRESS = ("http://", "https://")


def command() -> Command:
    """Return the parser and what to do."""
    description = "Accept tools as they are now, and say when they change."
    parser = make_parser("toolbus pin", description, _EPILOG, CommandParser)
    _add_arguments(parser)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        targets, words = parsed.targets, parsed.command
        tools = [name for names in parsed.tools for name in names.split(",") if name]
        if not (targets or tools or parsed.mcp or words):
            parser.error(
                "which tools? give a toolbus.toml, a FILE.py, or a server's command after --"
            )
        if parsed.name is not None and not words:
            parser.error("--name is for the server whose command stands after --")
        if parsed.check and parsed.yes:
            parser.error("--check writes nothing; leave out --yes")
        if not parsed.check:
            require_person()

        sources = PinSources(
            targets, tools, parsed.mcp, words, parsed.name, _headers(parsed.headers)
        )
        options = PinOptions(sources, parsed.lock, parsed.check, parsed.yes, parsed.json)
        return run_pin(output, options)

    return parser, run


def _add_arguments(parser: Parser) -> None:
    parser.usage = (
        "toolbus pin [options] TARGET...\n       toolbus pin [options] -- COMMAND [ARGUMENT ...]"
    )
    parser.add_argument(
        "targets",
        metavar="TARGET",
        nargs="*",
        help="a toolbus.toml, or FILE.py[:name]; behind -- the command or address of a server",
    )
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument(
        "--lock", metavar="FILE", help="the lock file (toolbus.lock, beside the toolbus.toml)"
    )
    parser.add_argument(
        "--tools", action="append", default=[], metavar="NAMES", help="components, with commas"
    )
    parser.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="SERVER",
        help="one more server: a command in quotes, or an address",
    )
    parser.add_argument("--name", metavar="NAME", help="of the server after --")
    parser.add_argument(
        "--header",
        dest="headers",
        metavar="'NAME: VALUE'",
        action="append",
        default=[],
        help="for servers at addresses; as for `toolbus proxy`",
    )
    parser.add_argument("--yes", action="store_true", help="write without asking")
    parser.add_argument("--json", action="store_true", help="write one JSON document")


def _headers(words: list[str]) -> tuple[tuple[str, str], ...]:
    from toolbus.mcp.transport.extra_headers import read_headers  # noqa: PLC0415 - not for all
    from toolbus.mcp.transport.launch import TOKEN  # noqa: PLC0415 - loads the house

    headers = read_headers(words, os.environ)
    token = os.environ.get(TOKEN)
    if token and "authorization" not in dict(headers):
        headers = (*headers, ("authorization", f"Bearer {token}"))
    return headers


class PinOptions(NamedTuple):
    """What `toolbus pin` is asked for."""

    sources: PinSources
    lock: str | None = None
    is_check: bool = False
    yes: bool = False
    as_json: bool = False


class PinComparison(NamedTuple):
    """What *file* says, None without one that can be read, what is said now, and what differs."""

    file: Path
    before: ToolPins | None
    after: ToolPins
    changes: list[PinChange]


class PinReport(Struct, frozen=True, kw_only=True):
    """What differs from what the *lock* file says; *written* tells whether it says that now."""

    lock: str
    written: bool
    changes: tuple[PinChange, ...]


def run_pin(output: Output, options: PinOptions) -> int:
    """Write the lock file, or compare with it: then 1 if something differs. Return the exit code.

    Raises `LoadError`, `UsageError` and `ToolServerError`.
    """
    file = nearest_lock(options.lock, options.sources.targets, LOCK_NAME)
    before = _read_before(file, options)
    # What servers and handlers print is none of ours.
    with redirect_stdout(sys.stderr):
        after = asyncio.run(read_pins(options.sources))
    changes = compare_pins(before or ToolPins(), after)
    compared = PinComparison(file, before, after, changes)
    if options.is_check or (before is not None and not changes):
        _show(output, compared, options, written=False)
        return 1 if changes else 0
    return _write(output, compared, options)


def _read_before(file: Path, options: PinOptions) -> ToolPins | None:
    """Return what is pinned; None if nothing is, or it cannot be read and is to be written anew."""
    if not file.exists():
        if options.is_check:
            raise LoadError(f"{file}: there is no such file; first pin the tools, without --check")
        return None
    try:
        return read_lock(file)
    except ConfigurationError as error:
        if options.is_check:
            raise LoadError(f"{error}; nothing can be compared with it") from error
        Output(sys.stderr).write(f"toolbus: {reveal(str(error))}\n")
        return None


def _write(output: Output, compared: PinComparison, options: PinOptions) -> int:
    file, _, after, changes = compared
    screen = open_screen(Output(sys.stderr) if options.as_json else output)
    if not options.as_json:
        _show_changes(screen, changes)
    _warn(screen, after)
    if not options.yes and not _is_allowed(file):
        screen.whole("nothing is written", style="bad")
        return 1
    with replacing(file, force=True) as stream:
        stream.write(write_lock(after))
    if options.as_json:
        _show(output, compared, options, written=True)
        return 0
    count = _counted(
        sum(len(each.tools) for each in (after.program, *after.servers.values())), "tool"
    )
    screen.line(Span(f"✓ {count} pinned in {file}", "good"))
    return 0


def _is_allowed(file: Path) -> bool:
    """Ask the person whether *file* is to be written; without a terminal raises `UsageError`."""
    if not is_at_terminal(Output(sys.stderr)):
        raise UsageError("nobody can be asked here; add --yes to write it, or --check to compare")
    if not file.exists():
        return True
    name = make_visible(str(file), one_line=True).text
    with person_terminal() as terminal:
        answer = terminal.ask(f"write this over {name}? [y, n] ")
    return (answer or "n").strip().lower() in YES


def _show(output: Output, compared: PinComparison, options: PinOptions, *, written: bool) -> None:
    file, _, _, changes = compared
    if options.as_json:
        report = PinReport(lock=str(file), written=written, changes=tuple(changes))
        output.write(f"{encode(report).decode()}\n")
        return
    screen = open_screen(output)
    _show_changes(screen, changes)
    if changes:
        screen.line(Span(f"{_counted(len(changes), 'difference')} from {file}", "bad"))
    else:
        screen.line(Span(f"✓ all is as it was pinned in {file}", "good"))


def _show_changes(screen: Screen, changes: Sequence[PinChange]) -> None:
    for change in changes:
        what = change.kind if not change.name else f"{change.kind} {reveal(change.name)!r}"
        note = f" ({change.note})" if change.note else ""
        title = f"{describe_source(change.server)}: {what} is {change.change}{note}"
        screen.whole(title, style=_STYLES[change.change])
        for row in chain.from_iterable(map(whole_rows, change.differences)):
            screen.whole(row, indent=2)


def _warn(screen: Screen, pins: ToolPins) -> None:
    """Tell of names that look alike: whoever pins both will not tell them apart either."""
    by_look: dict[str, list[str]] = {}
    for server, pinned in {"": pins.program, **pins.servers}.items():
        for name in pinned.tools:
            text = f"{reveal(name)!r} of {describe_source(server)}"
            by_look.setdefault(skeleton(name), []).append(text)
    for alike in by_look.values():
        if len(alike) > 1:
            screen.whole(f"these look alike: {', '.join(alike)}", style="changed")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


class PinSources(NamedTuple):
    """Where the tools are: *targets*, components called *tools*, and MCP servers.

    *servers* are commands in one text, or addresses; *command* are the words of one more, which
    *name* names. Addresses get *headers*.
    """

    targets: Sequence[str] = ()
    tools: Sequence[str] = ()
    servers: Sequence[str] = ()
    command: Sequence[str] = ()
    name: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


async def read_pins(sources: PinSources) -> ToolPins:
    """Return what all *sources* say now.

    Raises `LoadError`, `UsageError` and `ToolServerError`.
    """
    specs, entries = _own_specs(sources)
    servers: dict[str, PinnedServer] = {}
    for entry in entries:
        _add(servers, await _read_entry(entry))
    for server in sources.servers:
        _add(servers, await _read(server_words(server), {}, sources.headers))
    if sources.command:
        # As `toolbus proxy` starts it; those of an agent get less.
        options: McpOptions = {"env": own_environment()}
        if sources.name is not None:
            options["name"] = sources.name
        _add(servers, await _read(sources.command, options, sources.headers))
    _refuse_doubles(specs, servers)
    return ToolPins(pin_program(specs), servers)


def _own_specs(sources: PinSources) -> tuple[list[ToolSpec], list[ServerEntry]]:
    """Return the tools of programs, and the servers that configurations name."""
    specs: list[ToolSpec] = []
    entries: list[ServerEntry] = []
    for target in sources.targets:
        loaded = load(target)
        specs += loaded.host.tools.specs
        entries += () if loaded.configuration is None else loaded.configuration.servers
    host = ComponentHost()
    for component in find_components(sources.tools, None):
        component.setup(host)
    return _unique([*specs, *host.tools.specs]), entries


def _unique(specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    by_name: dict[str, ToolSpec] = {}
    for spec in specs:
        if by_name.setdefault(spec.name, spec) != spec:
            raise UsageError(f"two tools are called {spec.name!r}; pin their programs apart")
    return list(by_name.values())


def _refuse_doubles(specs: Iterable[ToolSpec], servers: dict[str, PinnedServer]) -> None:
    """Raise `UsageError` if a program and a server have a tool of the same name."""
    for spec in specs:
        for name, server in servers.items():
            if spec.name in server.tools:
                both = f"this program and server {name!r} both have a tool {spec.name!r}"
                raise UsageError(f"{both}; give the server a name of its own as a [[server]]")


def _add(servers: dict[str, PinnedServer], surface: ServerSurface) -> None:
    if surface.label in servers:
        reason = f"two servers are called {surface.label!r}"
        raise UsageError(f"{reason}; name them, as [[server]] in a toolbus.toml")
    servers[surface.label] = PinnedServer(
        {spec.name: pin_tool(spec) for spec in surface.tools},
        {prompt["name"]: pin_prompt(prompt["name"], prompt) for prompt in surface.prompts},
        pin_instructions(surface.instructions),
    )


async def _read_entry(entry: ServerEntry) -> ServerSurface:
    from toolbus.mcp.group.settings import settings_of  # noqa: PLC0415 - loads the proxy

    settings = settings_of(entry)
    options: McpOptions = {"name": entry.name, "prefix": f"{entry.name}_"}
    if entry.url is not None:
        return await _read([entry.url], options, settings.headers)
    return await _read(settings.command, {**options, "env": settings.env}, ())


async def _read(
    words: Sequence[str], options: McpOptions, headers: Iterable[tuple[str, str]]
) -> ServerSurface:
    name, *rest = words
    try:
        from toolbus.mcp.client.surfaces import read_surface  # noqa: PLC0415 - it needs an extra

        if name.lower().startswith(_ADDRESS):
            options["headers"] = dict(headers)
            options.pop("env", None)
            return await read_surface(name, rest, **options)
        with relay_lines(Output(sys.stderr)) as options["stderr"]:
            return await read_surface(name, rest, **options)
    except (ImportError, RegistrationError) as error:
        raise UsageError(str(error)) from error


def nearest_lock(lock: str | None, targets: Sequence[str], name: str) -> Path:
    """Return the file *lock*, else *name* beside the first configuration, else here."""
    if lock is not None:
        return Path(lock).expanduser()
    configurations = [target for target in targets if target.endswith(".toml")]
    folder = Path(configurations[0]).expanduser().parent if configurations else Path()
    return folder / name
