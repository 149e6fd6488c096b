"""`toolbus pin`: accept tools as they are now, and say when they change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toolbus.cli.parsing import CommandParser, make_parser
from toolbus.terminal.person import require_person

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command, Parser
    from toolbus.terminal.output import Output

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
        from toolbus.console.pin_sources import PinSources  # noqa: PLC0415 - loads the house
        from toolbus.console.pinning import PinOptions, run_pin  # noqa: PLC0415 - as above

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
    from toolbus.mcp.transport.launching import TOKEN  # noqa: PLC0415 - loads the house

    headers = read_headers(words, os.environ)
    token = os.environ.get(TOKEN)
    if token and "authorization" not in dict(headers):
        headers = (*headers, ("authorization", f"Bearer {token}"))
    return headers
