"""`toolbus logout`: forget the tokens of an MCP server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus logout https://example.com/mcp     forget its tokens
  toolbus login --list                       where you are logged in

The file with the tokens is deleted. The server is not told: until they end they
hold for whoever has a copy; it may have a page on which you can take them back."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus logout", "Forget the tokens of an MCP server.", _EPILOG)
    parser.add_argument("address", metavar="ADDRESS", help="as `toolbus login --list` prints it")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.mcp.logins import Logins, server_address, shown  # noqa: PLC0415 - for few

        address = server_address(parsed.address)
        if not Logins().remove(address):
            output.write(f"you are not logged in at {shown(address)}\n")
            return 1
        output.write(f"logged out of {shown(address)}\n")
        return 0

    return parser, run
