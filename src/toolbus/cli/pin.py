"""`toolbus pin`: a lock file of what tools say of themselves, and its comparison with today."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from toolbus.cli.assembly import entry_address, find_components, is_url, server_words, split_names
from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.deferred_output import relay_lines
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, busy_line
from toolbus.cli.parser import CommandParser, make_parser
from toolbus.cli.questions.confirmation import DeclinedError, ask_yes_no
from toolbus.cli.questions.keyboard import is_at_terminal
from toolbus.components.participants import ComponentHost
from toolbus.config.targets import load
from toolbus.errors import ConfigurationError, LoadError
from toolbus.mcp.transport.launch import TOKEN, own_environment
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
    from collections.abc import Iterable, Iterator, Sequence

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
  toolbus pin toolbus.toml --check            compare, for CI
  toolbus pin agent.py toolbus.toml --tools shell,files
  toolbus pin -- uvx mcp-server-git           one server, as for `toolbus proxy`
  toolbus pin --check --json -- https://example.com/mcp

Models trust the descriptions of tools, and a server may change them after you
looked, or take the name of a tool that you know. `toolbus pin` writes all that
tools and prompts say of themselves, and instructions, to toolbus.lock, for your
repository: also icons, `_meta` and members unknown to us. An older file that
lacks these stays valid, and does not cover them. Name all sources each time:
missing tools are dropped. Invisible characters are written as \\u200b.

For new and changed texts it warns of invisible characters, look-alike letters,
tags of chats, names of other tools, private files, and orders to a model. Read
these before you agree: harmless texts have them too, and an attack may not.

A toolbus.toml activates the file. A tool that differs is then hidden from the
model; a call of it needs approval, and is denied where no person can be asked:

  [[component]]
  use = "pins"
  settings = { file = "toolbus.lock" }

Only a person at a terminal in which no agent runs writes the file. A remote
server gets the bearer token in TOOLBUS_PROXY_TOKEN.

exit codes: 0 no differences, or written; 1 differences, or declined; 2 wrong
use"""

_STYLES: dict[str, Style] = {
    "changed": "changed",
    "new": "good",
    "gone": "bad",
    "uncovered": "changed",
}


class PinReport(Struct, frozen=True, kw_only=True):
    """The differences from the file *lock*, and whether they are *written* to it now."""

    lock: str
    written: bool
    changes: tuple[PinChange, ...]


class PinComparison(NamedTuple):
    """The pins *before* in *file*, None if it has none to read, those *after*, and all changes."""

    file: Path
    before: ToolPins | None
    after: ToolPins
    changes: list[PinChange]

    @property
    def differing(self) -> int:
        """The number of differences, without pins that do not cover a member."""
        return sum(change.change != "uncovered" for change in self.changes)


def command() -> Command:
    """Return the parser and the function of this command."""
    summary = "Pin what tools say of themselves, and report changes."
    parser = make_parser("toolbus pin", summary, _EPILOG, CommandParser)
    _add_arguments(parser)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if not (parsed.targets or any(parsed.tools) or parsed.mcp or parsed.command):
            parser.error(
                "which tools? give a toolbus.toml, a FILE.py, or a server's command after --"
            )
        if parsed.name is not None and not parsed.command:
            parser.error("--name needs a server's command after --")
        if parsed.check and parsed.yes:
            parser.error("--check writes nothing; leave out --yes")
        if not parsed.check:
            require_person()
        return _run(parsed, output)

    return parser, run


def _add_arguments(parser: Parser) -> None:
    parser.usage = (
        "toolbus pin [options] TARGET...\n       toolbus pin [options] -- COMMAND [ARGUMENT ...]"
    )
    parser.add_argument(
        "targets",
        metavar="TARGET",
        nargs="*",
        help="a toolbus.toml, or FILE.py[:name]; after -- a server's command or URL",
    )
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument(
        "--lock", metavar="FILE", help="the lock file (toolbus.lock beside the toolbus.toml)"
    )
    parser.add_argument(
        "--tools", action="append", default=[], metavar="NAMES", help="components, with commas"
    )
    parser.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="SERVER",
        help="an MCP server: a command in quotes, or a URL; repeatable",
    )
    parser.add_argument("--name", metavar="NAME", help="name of the server after --")
    parser.add_argument(
        "--header",
        dest="headers",
        metavar="'NAME: VALUE'",
        action="append",
        default=[],
        help="for remote servers; VALUE may hold env:VARIABLE; repeatable",
    )
    parser.add_argument("--yes", action="store_true", help="write without asking")
    parser.add_argument("--json", action="store_true", help="write one JSON document")


def _run(parsed: argparse.Namespace, output: Output) -> int:
    """Write the lock file, or compare with it: then 1 if there are differences."""
    file = _lock_file(parsed)
    before = _read_before(file, is_check=parsed.check)
    # Prints of servers and handlers do not belong to our output.
    with redirect_stdout(sys.stderr), busy_line("reading tools"):
        after = asyncio.run(_read_pins(parsed))
    changes = compare_pins(before or ToolPins(), after)
    compared = PinComparison(file, before, after, changes)
    is_written = before is not None and write_lock(before) == write_lock(after)
    if parsed.check or is_written:
        _show(output, compared, as_json=parsed.json)
        return 1 if compared.differing else 0
    _write(output, compared, parsed)
    return 0


def _lock_file(parsed: argparse.Namespace) -> Path:
    """Return the lock file, by default beside the first configuration, else here."""
    if parsed.lock is not None:
        return Path(parsed.lock).expanduser()
    configurations = [target for target in parsed.targets if target.endswith(".toml")]
    folder = Path(configurations[0]).expanduser().parent if configurations else Path()
    return folder / LOCK_NAME


def _read_before(file: Path, *, is_check: bool) -> ToolPins | None:
    """Return the pins in *file*; None if it is missing, or broken and to be written anew."""
    if not file.exists():
        if is_check:
            raise LoadError(f"{file}: no such file; first pin the tools, without --check")
        return None
    try:
        return read_lock(file)
    except ConfigurationError as error:
        if is_check:
            raise LoadError(f"{error}; nothing can be compared with it") from error
        Output(sys.stderr).write(f"warning: {reveal(str(error))}\n")
        return None


def _write(output: Output, compared: PinComparison, parsed: argparse.Namespace) -> None:
    """Show the changes and write them; raises `DeclinedError` after a no."""
    file, _, after, changes = compared
    screen = open_screen(Output(sys.stderr) if parsed.json else output)
    if not parsed.json:
        _show_changes(screen, changes)
    has_look_alikes = _warn_of_look_alikes(screen, after)
    if not parsed.yes:
        _confirm(file, is_warned=has_look_alikes or any(change.warnings for change in changes))
    with replacing(file, force=True) as stream:
        stream.write(write_lock(after))
    if parsed.json:
        print_json(output, PinReport(lock=str(file), written=True, changes=tuple(changes)))
        return
    count = sum(len(each.tools) for each in (after.program, *after.servers.values()))
    screen.line(Span(f"✓ {count_things(count, 'tool')} pinned in {file}", "good"))


def _confirm(file: Path, *, is_warned: bool) -> None:
    """Have the person confirm that a present *file* is replaced, or one is written after a warning.

    Raises `DeclinedError`.
    """
    if not is_at_terminal(Output(sys.stderr)):
        raise UsageError(
            "no person can be asked here; add --yes to write it, or --check to compare"
        )
    if is_warned or file.exists():
        over = "over" if file.exists() else "to"
        name = make_visible(str(file), one_line=True).text
        with person_terminal() as terminal:
            if not ask_yes_no(terminal, f"write this {over} {name}?"):
                raise DeclinedError


def _show(output: Output, compared: PinComparison, *, as_json: bool) -> None:
    file, _, _, changes = compared
    if as_json:
        print_json(output, PinReport(lock=str(file), written=False, changes=tuple(changes)))
        return
    screen = open_screen(output)
    _show_changes(screen, changes)
    if uncovered := len(changes) - compared.differing:
        text = "is not covered" if uncovered == 1 else "are not covered"
        way_out = "write the file again with `toolbus pin`"
        screen.line(Span(f"{count_things(uncovered, 'item')} {text}; {way_out}", "changed"))
    if compared.differing:
        screen.line(Span(f"{count_things(compared.differing, 'difference')} from {file}", "bad"))
    else:
        screen.line(Span(f"✓ no differences from {file}", "good"))


def _show_changes(screen: Screen, changes: Sequence[PinChange]) -> None:
    for change in changes:
        item = change.kind if not change.name else f"{change.kind} {reveal(change.name)!r}"
        note = f" ({change.note})" if change.note else ""
        title = f"{describe_source(change.server)}: {item} is {change.change}{note}"
        screen.whole(title, style=_STYLES[change.change])
        for row in chain.from_iterable(map(whole_rows, change.differences)):
            screen.whole(row, indent=2)
        for warning in change.warnings:
            screen.whole(f"! {warning}", indent=2, style="changed")
    if count := sum(len(change.warnings) for change in changes):
        screen.line(
            Span(f"! {count_things(count, 'warning')}; read them before you agree", "changed")
        )


def _warn_of_look_alikes(screen: Screen, pins: ToolPins) -> bool:
    """Warn of tools with names that look alike, and return whether there are any.

    A person cannot tell them apart later either.
    """
    by_look: dict[str, list[str]] = {}
    for server, pinned in {"": pins.program, **pins.servers}.items():
        for name in pinned.tools:
            text = f"{reveal(name)!r} of {describe_source(server)}"
            by_look.setdefault(skeleton(name), []).append(text)
    groups = [alike for alike in by_look.values() if len(alike) > 1]
    for alike in groups:
        screen.whole(f"these look alike: {', '.join(alike)}", style="changed")
    return bool(groups)


# --- the sources ---------------------------------------------------------------------------------


async def _read_pins(parsed: argparse.Namespace) -> ToolPins:
    """Return the pins of all sources as they are now.

    Raises `LoadError`, `UsageError` and `ToolServerError`.
    """
    specs, entries = _own_specs(parsed)
    servers: dict[str, PinnedServer] = {}
    for words, options in _servers(parsed, entries):
        surface = await _read_surface(words, options)
        if surface.label in servers:
            reason = f"two servers are called {surface.label!r}"
            raise UsageError(f"{reason}; name them, as [[server]] in a toolbus.toml")
        servers[surface.label] = PinnedServer(
            {spec.name: pin_tool(spec) for spec in surface.tools},
            {prompt["name"]: pin_prompt(prompt["name"], prompt) for prompt in surface.prompts},
            pin_instructions(surface.instructions),
        )
    _refuse_namesakes(specs, servers)
    return ToolPins(pin_program(specs), servers)


def _own_specs(parsed: argparse.Namespace) -> tuple[list[ToolSpec], list[ServerEntry]]:
    """Return the tools of programs and components, and the servers of configurations."""
    specs: list[ToolSpec] = []
    entries: list[ServerEntry] = []
    for target in parsed.targets:
        loaded = load(target)
        specs += loaded.host.tools.specs
        entries += () if loaded.configuration is None else loaded.configuration.servers
    host = ComponentHost()
    for component in find_components(split_names(parsed.tools), None):
        component.setup(host)
    by_name: dict[str, ToolSpec] = {}
    for spec in [*specs, *host.tools.specs]:
        if by_name.setdefault(spec.name, spec) != spec:
            raise UsageError(f"two tools are called {spec.name!r}; pin their programs apart")
    return list(by_name.values()), entries


def _refuse_namesakes(specs: Iterable[ToolSpec], servers: dict[str, PinnedServer]) -> None:
    """Raise `UsageError` if a program and a server have a tool of the same name."""
    for spec in specs:
        for name, server in servers.items():
            if spec.name in server.tools:
                both = f"this program and server {name!r} both have a tool {spec.name!r}"
                raise UsageError(f"{both}; give the server a name of its own as a [[server]]")


def _servers(
    parsed: argparse.Namespace, entries: Iterable[ServerEntry]
) -> Iterator[tuple[Sequence[str], McpOptions]]:
    """Yield the words of each server, a command or a URL, and the options of its connection."""
    yield from map(entry_address, entries)
    headers = _headers(parsed.headers)
    for server in parsed.mcp:
        yield server_words(server), {"headers": headers}
    if parsed.command:
        # As `toolbus proxy` starts it; an agent's servers get fewer variables.
        options: McpOptions = {"env": own_environment(), "headers": headers}
        if parsed.name is not None:
            options["name"] = parsed.name
        yield parsed.command, options


def _headers(words: list[str]) -> dict[str, str]:
    from toolbus.mcp.transport.extra_headers import read_headers  # noqa: PLC0415 - not for all

    headers = dict(read_headers(words, os.environ))
    token = os.environ.get(TOKEN)
    return {"authorization": f"Bearer {token}", **headers} if token else headers


async def _read_surface(words: Sequence[str], options: McpOptions) -> ServerSurface:
    name, *rest = words
    try:
        from toolbus.mcp.client.surfaces import read_surface  # noqa: PLC0415 - it needs an extra

        if is_url(name):
            options.pop("env", None)
            return await read_surface(name, rest, **options)
        options.pop("headers", None)
        with relay_lines(Output(sys.stderr)) as options["stderr"]:
            return await read_surface(name, rest, **options)
    except ImportError as error:
        raise UsageError(str(error)) from error
